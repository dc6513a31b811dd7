"""Paths -> the file system below each: `TOTAL FREE INODES INODES_FREE ro|rw TYPE PATH` a line, sizes in bytes.

A path that is not there is answered for the folder it would be made in. All is read as PID 1 sees it: in this service's
own view everything is read-only.
"""

from __future__ import annotations

import os
import re
from typing import Any, Mapping

from sparkd.node import arguments

ABSOLUTE = re.compile(r"/[^\n\0]*")
_ESCAPED = re.compile(r"\\([0-7]{3})")


def probe(args: Mapping[str, Any], deadline_s: float) -> str:
    with open("/proc/1/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
        mounts = dict(_mount(line) for line in file)
    root = _root()
    return "".join(_line(path, mounts, root) for path in arguments.items(args, "paths", ABSOLUTE))


def _root() -> str:
    """Where PID 1 begins: what was mounted after this service started may not be in our own view."""
    return "/proc/1/root" if os.access("/proc/1/root/.", os.X_OK) else ""


def _mount(line: str) -> tuple[str, tuple[str, str]]:
    """(mount point, (ro|rw, type)); the last mount on a point covers the others. The superblock may be read-only too."""
    before, _, after = line.partition(" - ")
    fields, rest = before.split(), after.split()
    point = _ESCAPED.sub(lambda match: chr(int(match.group(1), 8)), fields[4])
    options = {*fields[5].split(","), *rest[2].split(",")}
    return point, ("ro" if "ro" in options else "rw", rest[0])


def _line(path: str, mounts: Mapping[str, tuple[str, str]], root: str) -> str:
    there = os.path.realpath(path)
    while not os.path.isdir(root + there):
        there = os.path.dirname(there)
    found = os.statvfs(root + there)
    point = there
    while point not in mounts and point != "/":
        point = os.path.dirname(point)
    writable, kind = mounts.get(point, ("rw", "unknown"))
    size = found.f_frsize
    numbers = (found.f_blocks * size, found.f_bavail * size, found.f_files, found.f_favail)
    return f"{' '.join(map(str, numbers))} {writable} {kind} {path}\n"
