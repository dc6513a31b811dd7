"""Who has this node's memory: the kernel's figures now and right after boot, every tmpfs, the biggest processes.

Lines: `now KEY BYTES` and `boot KEY BYTES` of /proc/meminfo, `tmpfs BYTES PATH`, and for the processes with the most
memory of their own `process PID PPID START_TICKS STATE BYTES OWNER TITLE`. No `boot` lines: nobody looked in time.
"""

from __future__ import annotations

import os
from typing import Any, Iterator, Mapping

from sparkd.node import boot_memory, cgroups, mounts, procfs

MOST = 12
"""Processes that are told."""
MAX_TITLE_BYTES = 200


def probe(args: Mapping[str, Any], deadline_s: float) -> str:
    lines = [f"now {key} {count}\n" for key, count in boot_memory.figures().items()]
    lines += [f"boot {key} {count}\n" for key, count in boot_memory.recorded().items()]
    lines += [f"tmpfs {count} {path}\n" for path, count in _tmpfs()]
    for _, pid in sorted(_sizes(), reverse=True)[:MOST]:
        try:
            lines.append(_process(pid))
        except procfs.GONE:
            continue
    return "".join(lines)


def _sizes() -> Iterator[tuple[int, int]]:
    """(pages of its own, pid): resident without what it shares, which the page cache and tmpfs count already."""
    for pid in procfs.pids():
        try:
            pages = _own_pages(pid)
        except procfs.GONE:
            continue
        if pages:
            yield pages, int(pid)


def _own_pages(pid: object) -> int:
    fields = procfs.read_record(f"/proc/{pid}/statm").split()
    return int(fields[1]) - int(fields[2])


def _process(pid: int) -> str:
    stat = procfs.stat(pid)
    count = _own_pages(pid) * os.sysconf("SC_PAGE_SIZE")
    title = procfs.title(pid, stat, MAX_TITLE_BYTES)
    return f"process {pid} {stat.ppid} {stat.start_ticks} {stat.state} {count} {cgroups.owner(pid)} {title}\n"


def _tmpfs() -> list[tuple[str, int]]:
    """(mount point, bytes in use) of each, biggest first, the same one mounted twice only once."""
    table, root = mounts.table()
    found: dict[str, tuple[str, int]] = {}
    for mount in table:
        if mount.kind != "tmpfs" or mount.device in found:
            continue
        try:
            usage = os.statvfs(root + mount.point)
        except OSError:  # unmounted meanwhile, or under a mount that hides it
            continue
        found[mount.device] = (mount.point, (usage.f_blocks - usage.f_bfree) * usage.f_frsize)
    return sorted(
        ((path, count) for path, count in found.values() if count and path.isprintable()), key=lambda one: -one[1]
    )
