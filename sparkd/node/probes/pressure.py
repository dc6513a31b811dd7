"""How hard memory is pressed, and who would kill for it: PSI, swap devices, the kernel's knobs, userspace OOM killers.

Lines: `psi LINE` of /proc/pressure/memory (none on a kernel without), `swap NAME TYPE SIZE USED` in bytes, `vm NAME
VALUE`, `killer NAME PID COMMAND…`, `setting NAME LINE` of a killer's own file.
"""

from __future__ import annotations

import re
from typing import Any, Iterator, Mapping

from sparkd.node import procfs

KILLERS = frozenset(("earlyoom", "systemd-oomd", "nohang", "nohang-desktop", "oomd", "dgx-anti-oom"))
"""By their command names, which the kernel cuts at 15 characters."""
KNOBS = ("swappiness", "min_free_kbytes", "overcommit_memory", "oom_kill_allocating_task")
FILES = {"nohang": "/etc/nohang/nohang.conf", "nohang-desktop": "/etc/nohang/nohang-desktop.conf"}
SETTING = re.compile(r"(soft|hard|warning)_threshold_min_(mem|swap)\s*=.*")
MAX_TITLE_BYTES = 1000


def probe(args: Mapping[str, Any], deadline_s: float) -> str:
    return "".join(f"{line}\n" for lines in (_psi(), _swaps(), _knobs(), _killers()) for line in lines)


def _psi() -> Iterator[str]:
    try:
        yield from (f"psi {line}" for line in procfs.read("/proc/pressure/memory").decode("ascii").splitlines())
    except OSError:  # a kernel without PSI, or one that was booted with psi=0 (EOPNOTSUPP)
        return


def _swaps() -> Iterator[str]:
    for line in procfs.read("/proc/swaps").decode("utf-8", "replace").splitlines()[1:]:
        name, kind, size, used = line.split()[:4]
        yield f"swap {name} {kind} {int(size) * 1024} {int(used) * 1024}"


def _knobs() -> Iterator[str]:
    for name in KNOBS:
        try:
            yield f"vm {name} {procfs.read(f'/proc/sys/vm/{name}').decode('ascii').strip()}"
        except FileNotFoundError:
            continue


def _killers() -> Iterator[str]:
    for pid in procfs.pids():
        try:
            name = procfs.read_record(f"/proc/{pid}/comm").decode("utf-8", "replace").strip()
            if name not in KILLERS:
                continue
            title = procfs.read(f"/proc/{pid}/cmdline", MAX_TITLE_BYTES).decode("utf-8", "replace")
        except procfs.GONE:
            continue
        yield f"killer {name} {pid} " + "".join(char if char.isprintable() else " " for char in title).strip()
        yield from _settings(name)


def _settings(killer: str) -> Iterator[str]:
    try:
        text = procfs.read(FILES[killer], 65536).decode("utf-8", "replace")
    except (KeyError, OSError):
        return
    yield from (f"setting {killer} {line.strip()}" for line in text.splitlines() if SETTING.fullmatch(line.strip()))
