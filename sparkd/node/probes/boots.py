"""The journal's end before this boot, kernels and drivers, and what waits for the next boot, one `NAME VALUE` a line.

`up_s`, `end UNIX_TIME TEXT` (last lines before this boot, and those among the last 400 that tell why it ended), `kernel`,
`driver`, `kernel_before`, `driver_before`, `required PACKAGES` (a reboot is asked for), `automatic TIME` (upgrades reboot
by themselves). The journal is read once in a boot: what was before it does not change, and a big one takes seconds.
"""

from __future__ import annotations

import glob
import os
import re
import time
from typing import Any, Iterator, Mapping

from sparkd.node import command, procfs, regular
from sparkd.node.probes import versions
from sparkd.node.refusal import Refusal

READ, LAST = 400, 3
TELLING = re.compile(
    r"systemd-shutdown|Reached target .*(?:[Rr]eboot|[Pp]ower.?[Oo]ff|Halt|Shutdown)|[Ss]ystem (?:is|will) (?:re|power|halt)"
    r"|System is going down|[Pp]ower key|Journal stopped|unattended-upgrade|Kernel panic|Oops|watchdog|NVRM: Xid|Out of memory"
)
STARTED = "systemd[1]: Startup finished in "
JOURNAL = ("journalctl", "--quiet", "--no-pager", "--output=short-unix")
VERSIONS = r"^Linux version |NVRM: loading NVIDIA"
KERNEL = re.compile(r"Linux version (\S+)")
DRIVER = re.compile(r"NVRM: loading NVIDIA.*?\s(\d+\.\d+(?:\.\d+)*)\s")
REQUIRED = "/run/reboot-required"
PERIODIC = "/etc/apt/apt.conf.d"
AUTOMATIC = re.compile(r'^\s*Unattended-Upgrade::Automatic-Reboot(-Time)?\s+"([^"]+)"\s*;', re.MULTILINE)

_BEFORE: dict[str, list[str]] = {}
"""Boot identity -> what was read of the time before it."""


def probe(args: Mapping[str, Any], deadline_s: float) -> str:
    boot = procfs.boot_identity()
    key = f"{boot.boot_id}:{boot.pid1_ticks}"
    up_s = procfs.boot_age_s(boot)
    if key not in _BEFORE:
        _BEFORE[key] = list(_before(time.time() - up_s, deadline_s * 0.9))
    found = dict(line.split(" ", 1) for line in versions.probe({}, deadline_s).splitlines())
    now = [f"{name} {found[name]}" for name in ("kernel", "driver") if name in found]
    return "".join(f"{line}\n" for line in [f"up_s {up_s:.0f}", *now, *_BEFORE[key], *_waiting()])


def _before(booted: float, deadline_s: float) -> Iterator[str]:
    """In a container of one kernel all boots have one id, so there the time tells what was before."""
    chosen = "--boot=-1"
    lines = _read([chosen, f"--lines={READ}"], deadline_s / 3)
    if not lines:
        chosen = f"--until=@{booted:.6f}"
        lines = _read([chosen, f"--lines={READ}"], deadline_s / 3)
    began = max((number for number, line in enumerate(lines) if STARTED in line), default=0)
    lines = lines[began:]  # what ended the boot before that is another story
    for number, line in enumerate(lines, 1):
        if number > len(lines) - LAST or TELLING.search(line):
            at, _, text = line.partition(" ")
            yield f"end {at} {text.partition(' ')[2][:300]}"  # without the host's name
    kernel = "\n".join(_read([chosen, "--dmesg", f"--grep={VERSIONS}", "--lines=8"], deadline_s / 3)) if lines else ""
    for name, pattern in (("kernel_before", KERNEL), ("driver_before", DRIVER)):
        seen = pattern.findall(f"{kernel} ")
        if seen:
            yield f"{name} {seen[-1]}"


def _read(chosen: list[str], deadline_s: float) -> list[str]:
    """No journal, none that was kept, or nothing in it: no lines."""
    try:
        finished = command.run([*JOURNAL, *chosen], deadline_s)
    except FileNotFoundError:
        return []
    except Refusal:  # too big to be read in time: what else is known still counts
        return []
    lines = ("".join(char if char.isprintable() else " " for char in line) for line in finished.output.splitlines())
    return [line for line in lines if re.match(r"\d+\.\d+ ", line)]


def _waiting() -> Iterator[str]:
    if os.path.exists(REQUIRED):
        yield f"required {' '.join(sorted(set(_text(f'{REQUIRED}.pkgs').split())))[:300] or '-'}"
    said = "\n".join(_text(path) for path in sorted(glob.glob(f"{PERIODIC}/*")))
    found = {match.group(1) or "": match.group(2) for match in AUTOMATIC.finditer(said)}
    if found.get("") == "true":
        yield f"automatic {found.get('-Time', 'now')}"


def _text(path: str) -> str:
    try:
        return regular.beginning(path, 1 << 16).decode("utf-8", "replace")
    except OSError:  # apt puts folders there too
        return ""
