"""/dev/shm and every process -> the engine's shared-memory segments and who holds each, by device and inode.

vLLM leaves up to 184 MiB of `psm_*` and `sem.mp-*` behind when it is killed (vllm-project/vllm pull 51317).
"""

from __future__ import annotations

import os
import re
import stat
from typing import Iterable, NamedTuple, Optional

from sparkd.node import procfs

FOLDER = "/dev/shm"
NAME = re.compile(r"(psm_|sem\.mp-)[A-Za-z0-9_.-]+")
_LINK = re.compile(r".*/(psm_|sem\.mp-)[^/]*")


class Segment(NamedTuple):
    name: str
    size_bytes: int
    mtime: float
    changed_at: float
    """The later of data and inode change: a segment is as young as the last thing done to it."""
    dev: int
    inode: int


def segment(name: str) -> Optional[Segment]:
    """None when it is not there, or is no segment: a folder or a link of that name, which anyone may create in /dev/shm,
    would end the cleanup of all others."""
    try:
        found = os.lstat(f"{FOLDER}/{name}")
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(found.st_mode):
        return None
    return Segment(name, found.st_size, found.st_mtime, max(found.st_mtime, found.st_ctime), found.st_dev, found.st_ino)


def segments() -> list[Segment]:
    found = (segment(name) for name in sorted(os.listdir(FOLDER)) if NAME.fullmatch(name))
    return [each for each in found if each is not None]


def holders(wanted: Iterable[Segment]) -> dict[tuple[int, int], set[str]]:
    """(device, inode) -> pids that have it mapped or open.

    Raises PermissionError when a process cannot be looked into: "no holder seen" must never mean "not allowed to look".
    """
    held: dict[tuple[int, int], set[str]] = {(each.dev, each.inode): set() for each in wanted}
    devices = {dev for dev, _ in held}
    patterns = {dev: _mapped_on(dev) for dev in devices}
    for pid in procfs.pids() if held else []:
        try:
            keys = _mapped(pid, patterns) | _opened(pid)
        except procfs.GONE:
            continue
        except PermissionError:
            if not _harmless(pid):
                raise
            continue
        for key in keys & held.keys():
            held[key].add(pid)
    return held


def _harmless(pid: str) -> bool:
    """Whether a process that we may not look into can be taken for none of the holders.

    The machine's init is closed even to root in some sandboxes, and holds no engine's memory. Without root (the demo)
    we cannot look into processes of other users, and they cannot open our segments (mode 0600 in a sticky folder).
    """
    return pid == "1" or os.geteuid() != 0


def _mapped_on(dev: int) -> re.Pattern[bytes]:
    """In /proc/PID/maps a line is `range perms offset major:minor inode path`, device in hexadecimal."""
    return re.compile(rb" %02x:%02x (\d+) " % (os.major(dev), os.minor(dev)))


def _mapped(pid: str, patterns: dict[int, re.Pattern[bytes]]) -> set[tuple[int, int]]:
    maps = procfs.read(f"/proc/{pid}/maps")
    return {(dev, int(inode)) for dev, pattern in patterns.items() for inode in pattern.findall(maps)}


def _opened(pid: str) -> set[tuple[int, int]]:
    """Only descriptors whose link names a segment are asked for their inode: a stat on a dead NFS server hangs."""
    found = set()
    folder = f"/proc/{pid}/fd"
    for descriptor in os.listdir(folder):
        path = f"{folder}/{descriptor}"
        try:
            if _LINK.fullmatch(os.readlink(path)):
                status = os.stat(path)
                found.add((status.st_dev, status.st_ino))
        except procfs.GONE:  # closed since it was listed
            continue
    return found
