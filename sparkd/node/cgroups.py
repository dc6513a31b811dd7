"""/proc/PID/cgroup -> whose process it is: the container or systemd unit of its innermost control group."""

from __future__ import annotations

import re

from sparkd.node import procfs

NOBODY = "-"
CONTAINER = re.compile(r"(?:.*-)?([0-9a-f]{64})(?:\.scope)?")
"""`docker/ID` by cgroupfs, `docker-ID.scope` by systemd; podman and containerd write other words before the dash."""
_UNIT = re.compile(r"[^/\s]+\.(service|scope)")


def owner(pid: object) -> str:
    """Container id (64 hex digits), name of a unit, or `-`. Raises one of procfs.GONE.

    A process cannot change this by renaming itself: its title overwrites its arguments, and with a long one the
    beginning of its environment too.
    """
    return owner_of(procfs.read_record(f"/proc/{pid}/cgroup").decode("utf-8", "replace"))


def owner_of(cgroup: str) -> str:
    """The innermost group counts: a node may be a container itself. On v1 only some hierarchies know the unit."""
    unit = NOBODY
    for line in cgroup.splitlines():
        for group in reversed(line.partition(":")[2].partition(":")[2].split("/")):
            container = CONTAINER.fullmatch(group)
            if container:
                return container.group(1)
            if _UNIT.fullmatch(group):
                unit = group
                break
    return unit
