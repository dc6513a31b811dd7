"""The file systems as PID 1 sees them: this service has mounts of its own, on which everything is read-only."""

from __future__ import annotations

import os
import re
from typing import NamedTuple

from sparkd.node import procfs

_ESCAPED = re.compile(r"\\([0-7]{3})")


class Mount(NamedTuple):
    """`device` is MAJOR:MINOR; a superblock may be read-only although the mount is not."""

    device: str
    point: str
    read_only: bool
    kind: str


def table() -> tuple[list[Mount], str]:
    """(every mount in order, the prefix below which its paths are found)."""
    try:
        content, root = procfs.read("/proc/1/mountinfo"), "/proc/1/root"
        os.statvfs(root)
    except (
        PermissionError,
        *procfs.GONE,
    ):  # closed even to root in some sandboxes, to everybody else, and not to be seen by the daemon
        content, root = procfs.read("/proc/self/mountinfo"), ""
    return [_mount(line) for line in os.fsdecode(content).splitlines()], root


def _mount(line: str) -> Mount:
    before, _, after = line.partition(" - ")
    fields, rest = before.split(" "), after.split(" ")
    options = {*fields[5].split(","), *rest[2].split(",")}
    return Mount(fields[2], unescaped(fields[4]), "ro" in options, rest[0])


def unescaped(path: str) -> str:
    """The kernel writes blanks and backslashes in its tables as octal numbers."""
    return _ESCAPED.sub(lambda match: chr(int(match.group(1), 8)), path)
