"""/proc/PID/cgroup -> whose process it is: the container or systemd unit of its innermost control group."""

from __future__ import annotations

import re

from sparkd.node import procfs

NOBODY = "-"
CONTAINER = re.compile(r"(?:.*-)?([0-9a-f]{64})(?:\.scope)?")
"""`docker/ID` by cgroupfs, `docker-ID.scope` by systemd; podman and containerd write other words before the dash."""
KEEPER = re.compile(rb"(?:[^\0]*/)?(?:containerd-shim[^/\0]*|conmon)\0")
"""What a living container's processes descend from, with Docker and containerd, and with podman."""
MAX_PARENTS = 64
_UNIT = re.compile(r"[^/\s]+\.(service|scope)")
_MANAGER = re.compile(r"/(user@\d+\.service)/(?:[^/\s]+/)*([^/\s]+\.service)$")


def owner(pid: object) -> str:
    """Container id (64 hex digits), name of a unit, `user@UID.service/UNIT` for one of a person's own systemd, or `-`.
    Raises one of procfs.GONE.

    A process cannot change this by renaming itself: its title overwrites its arguments, and with a long one the
    beginning of its environment too.
    """
    return owner_of(procfs.read_record(f"/proc/{pid}/cgroup").decode("utf-8", "replace"))


def owner_of(cgroup: str) -> str:
    """The container or unit of the innermost group: a node may be a container itself. On v1 only some hierarchies know it."""
    unit = NOBODY
    for line in cgroup.splitlines():
        for group in reversed(line.partition(":")[2].partition(":")[2].split("/")):
            container = CONTAINER.fullmatch(group)
            if container:
                return container.group(1)
            if _UNIT.fullmatch(group):
                of_person = _MANAGER.search(line)
                unit = "/".join(of_person.groups()) if of_person else group
                break
    return unit


def in_container(pid: object) -> bool:
    """Is it inside a living container, of sparkd or of any other program? Raises one of procfs.GONE.

    `docker commit` and copied env files put the variables of a rank into containers that are not sparkd's, so what they
    say counts only outside: a living container is judged by its labels and its name.
    """
    for _ in range(MAX_PARENTS):
        pid = procfs.stat(pid).ppid
        if pid <= 1:
            return False
        if KEEPER.match(procfs.read(f"/proc/{pid}/cmdline", 4096)):
            return True
    return False
