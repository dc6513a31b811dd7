"""/proc -> bytes and the few fields that identify a process."""

from __future__ import annotations

import os
from typing import List, NamedTuple, Tuple

GONE = (FileNotFoundError, ProcessLookupError)
"""What reading a file of a process that has just ended raises (ENOENT on open, ESRCH on read)."""


class Stat(NamedTuple):
    """`start_ticks` is in clock ticks after boot (field 22 of proc(5)), `rss_bytes` is approximate (field 24)."""

    comm: str
    state: str
    ppid: int
    start_ticks: int
    rss_bytes: int


class Spent(NamedTuple):
    """CPU time in clock ticks, of all its threads (fields 14 and 15), and of its children that ended and were waited for
    (fields 16 and 17)."""

    ticks: int
    child_ticks: int


class BootIdentity(NamedTuple):
    """Containers share the host's boot id, so the start ticks of PID 1 belong to it."""

    boot_id: str
    pid1_ticks: int


def read(path: str, limit: int = 64 << 20) -> bytes:
    """At most `limit` bytes; a file of /proc has no size, so it is read to its end."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        parts = []
        while limit > 0:
            part = os.read(descriptor, min(limit, 65536))
            if not part:
                break
            parts.append(part)
            limit -= len(part)
        return b"".join(parts)
    finally:
        os.close(descriptor)


def read_record(path: str) -> bytes:
    """A file that the kernel makes as one record (stat, cgroup) comes whole in one read: this is paid per process."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, 16384)
    finally:
        os.close(descriptor)


def pids() -> list[str]:
    """As the text of their folder names: most callers only build paths from them."""
    return [name for name in os.listdir("/proc") if name.isdigit()]


def stat(pid: object) -> Stat:
    """Raises one of GONE when there is no such process."""
    comm, fields = _stat(pid)
    return Stat(
        comm=comm,
        state=fields[0],
        ppid=int(fields[1]),
        start_ticks=int(fields[19]),
        rss_bytes=int(fields[21]) * os.sysconf("SC_PAGE_SIZE"),
    )


def spent(pid: object) -> Spent:
    """Raises one of GONE when there is no such process."""
    _, fields = _stat(pid)
    return Spent(int(fields[11]) + int(fields[12]), int(fields[13]) + int(fields[14]))


def _stat(pid: object) -> Tuple[str, List[str]]:
    """Its name, and the fields from the third on."""
    content = read_record(f"/proc/{pid}/stat").decode("utf-8", "replace")
    # A process may call itself ") R 1 1": only what follows the last parenthesis can be trusted.
    head, _, tail = content.rpartition(")")
    return head.partition("(")[2], tail.split()


def title(pid: object, found: Stat, limit: int) -> str:
    """What the process calls itself, as one printable line; control characters separate arguments, and would break it."""
    return shown(read(f"/proc/{pid}/cmdline", limit).decode("utf-8", "replace"), found)


def shown(words: str, found: Stat) -> str:
    """The same of a command line that was read already."""
    return printable(words) or f"[{printable(found.comm)}]"


def printable(text: str) -> str:
    return "".join(char if char.isprintable() else " " for char in text).strip()


def boot_age_s(boot: BootIdentity) -> float:
    """Since PID 1 was started: a node that is a container is younger than its kernel."""
    return float(read("/proc/uptime").split()[0]) - boot.pid1_ticks / os.sysconf("SC_CLK_TCK")


def boot_identity() -> BootIdentity:
    boot_id = read("/proc/sys/kernel/random/boot_id").decode("ascii").strip()
    return BootIdentity(boot_id, stat(1).start_ticks)
