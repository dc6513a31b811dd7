"""/proc -> the processes of given containers and units, and those outside of living containers whose environment names a
deployment, one a line.

`PID PPID START_TICKS STATE RSS_BYTES OWNER TITLE`, where OWNER is the container id or unit asked for, or `-`.
"""

from __future__ import annotations

import re
from typing import Any, Mapping, NamedTuple, Optional

from sparkd.node import arguments, cgroups, procfs
from sparkd.node.refusal import Refusal

CONTAINER = re.compile(r"[0-9a-f]{12,64}")
UNIT = re.compile(r"[A-Za-z0-9:_.@\\][A-Za-z0-9:_.@\\-]*")
MAX_TITLE_BYTES = 8192


class Wanted(NamedTuple):
    containers: tuple[str, ...]
    units: frozenset[str]
    names: tuple[bytes, ...]
    """All of them: a control group without any of these is passed over at once, which halves the price of a look."""
    environ: frozenset[bytes]
    """`NAME=value` pairs that must all be there; empty means that no environment is read."""

    def owner(self, cgroup: bytes) -> Optional[str]:
        """The innermost container or unit asked for in this /proc/PID/cgroup: a node may be a container itself."""
        if not any(name in cgroup for name in self.names):
            return None
        for line in cgroup.decode("utf-8", "replace").splitlines():
            for group in reversed(line.partition(":")[2].partition(":")[2].split("/")):
                owner = self._named(group)
                if owner:
                    return owner
        return None

    def _named(self, group: str) -> Optional[str]:
        if group in self.units:
            return group
        match = cgroups.CONTAINER.fullmatch(group)
        if not match:
            return None
        return next((container for container in self.containers if match.group(1).startswith(container)), None)


def wanted(args: Mapping[str, Any]) -> Wanted:
    """Whose processes are asked for. Raises Refusal(usage)."""
    containers = arguments.items(args, "containers", CONTAINER)
    units = arguments.items(args, "units", UNIT)
    return Wanted(
        containers=containers,
        units=frozenset(units),
        names=tuple(name.encode("ascii") for name in containers + units),
        environ=_pairs(arguments.mapping(args, "environ")),
    )


def probe(args: Mapping[str, Any], deadline_s: float) -> str:
    asked = wanted(args)
    lines = []
    for pid in procfs.pids():
        try:
            line = _line(pid, asked)
        except procfs.GONE:  # ended while we looked
            continue
        if line:
            lines.append(line)
    return "".join(lines)


def _line(pid: str, asked: Wanted) -> Optional[str]:
    owner = asked.owner(procfs.read_record(f"/proc/{pid}/cgroup"))
    if not owner and not (asked.environ and _in_environment(pid, asked.environ) and not cgroups.in_container(pid)):
        return None
    found = procfs.stat(pid)
    title = procfs.title(pid, found, MAX_TITLE_BYTES)
    return f"{pid} {found.ppid} {found.start_ticks} {found.state} {found.rss_bytes} {owner or '-'} {title}\n"


def _in_environment(pid: str, pairs: frozenset[bytes]) -> bool:
    try:
        return pairs.issubset(procfs.read(f"/proc/{pid}/environ").split(b"\0"))
    except PermissionError:  # another user's process, for a service without root (the demo): it cannot be ours
        return False


def _pairs(environ: Mapping[str, Any]) -> frozenset[bytes]:
    for name, value in environ.items():
        if not name or not isinstance(value, str):
            raise Refusal("usage", "environ must map names to strings")
    return frozenset(f"{name}={value}".encode("utf-8", "surrogateescape") for name, value in environ.items())
