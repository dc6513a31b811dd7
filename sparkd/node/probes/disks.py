"""Paths -> the file system below each: `TOTAL FREE INODES INODES_FREE ro|rw TYPE PATH` a line, sizes in bytes.

A path that is not there is answered for the folder it would be made in, `~NAME/…` for the home of that user. All is read
as PID 1 sees it: in this service's own view everything is read-only.
"""

from __future__ import annotations

import os
import re
from typing import Any, Mapping

from sparkd.node import arguments, mounts

PATH = re.compile(r"(~[A-Za-z_][A-Za-z0-9_.-]*)?/[^\n\0]*")


def probe(args: Mapping[str, Any], deadline_s: float) -> str:
    table, root = mounts.table()
    points = {mount.point: mount for mount in table}  # the last mount on a point covers the others
    return "".join(_line(path, points, root) for path in arguments.items(args, "paths", PATH))


def _line(path: str, points: Mapping[str, mounts.Mount], root: str) -> str:
    home = os.path.expanduser(path)
    there = os.path.realpath(home if home.startswith("/") else "/")  # that no user has the name, others say
    while not os.path.isdir(root + there):
        there = os.path.dirname(there)
    found = os.statvfs(root + there)
    point = there
    while point not in points and point != "/":
        point = os.path.dirname(point)
    mount = points.get(point)
    writable, kind = ("ro" if mount.read_only else "rw", mount.kind) if mount else ("rw", "unknown")
    size = found.f_frsize
    numbers = (found.f_blocks * size, found.f_bavail * size, found.f_files, found.f_favail)
    return f"{' '.join(map(str, numbers))} {writable} {kind} {path}\n"
