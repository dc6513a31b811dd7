"""Ranks without containers are transient units of the node's systemd: their names, and what systemd says of one."""

from __future__ import annotations

import os
import re
from typing import Any, BinaryIO, Mapping, NamedTuple, Optional, Sequence, Tuple

from sparkd.node import arguments, command
from sparkd.node.refusal import Refusal

NAME = re.compile(r"sparkd-[a-z0-9][a-z0-9-]{0,40}-[0-9]{1,4}")
"""Fixed per deployment and rank, as a container's: systemd refuses a second unit of one name, which fences a double start."""
ID = re.compile(r"[0-9a-f]{32}")
"""systemd's invocation id: every start of a unit has its own, also where the name is the same."""
TRANSIENT = "/run/systemd/transient"
"""Every transient unit has its file here while systemd knows it, also when it has ended: looking costs nothing."""
MEMORY_V1 = "/sys/fs/cgroup/memory"
"""There on control groups v1 only, where systemd does not learn of the kernel's OOM kills."""
SHOW = (
    *("systemctl", "show", "--timestamp=us+utc"),
    *("-p", "Id,LoadState,ActiveState,SubState,Result,ExecMainPID,ExecMainCode,ExecMainStatus"),
    *("-p", "ExecMainStartTimestamp,ExecMainExitTimestamp,InvocationID,LogExtraFields"),
)
NO_SYSTEMD = "runtime process needs systemd, and there is no {} on this node"


class Unit(NamedTuple):
    """One unit that systemd knows. `id` is empty before its first start."""

    id: str
    active: str
    sub: str
    exit_status: str

    @property
    def runs(self) -> bool:
        """`active` and `exited` is a rank that ended with status 0, kept so that its status can be read."""
        return self.active not in ("inactive", "failed") and self.sub != "exited"


def name_of(args: Mapping[str, Any]) -> str:
    """The unit that a request means. Raises Refusal(usage) for any that is not a rank's."""
    name = arguments.text(args, "name")
    if not NAME.fullmatch(name):
        raise Refusal("usage", f"name must be that of a rank, like sparkd-NAME-0, not {name[:80]!r}")
    return f"{name}.service"


def id_of(args: Mapping[str, Any]) -> str:
    value = arguments.text(args, "id")
    if not ID.fullmatch(value):  # an empty one would match half of the journal
        raise Refusal("usage", "id must be an invocation id of systemd, 32 hexadecimal digits")
    return value


def listed() -> list[str]:
    """All ranks of whatever state, as unit names; none on a node without systemd."""
    try:
        names = os.listdir(TRANSIENT)
    except FileNotFoundError:
        return []
    return sorted(name for name in names if name.endswith(".service") and NAME.fullmatch(name[: -len(".service")]))


def systemctl(
    argv: Sequence[str], deadline_s: float, into: Optional[Tuple[BinaryIO, BinaryIO]] = None
) -> command.Finished:
    """As `command.run`; without the program, Refusal(failed)."""
    try:
        return command.run(argv, deadline_s, into)
    except FileNotFoundError:
        raise Refusal("failed", NO_SYSTEMD.format(argv[0])) from None


def look(unit: str, deadline_s: float) -> Optional[Unit]:
    """None when systemd knows no such unit. Raises Refusal when it does not say."""
    finished = systemctl([*SHOW, "--", unit], deadline_s)
    found = dict(line.partition("=")[::2] for line in finished.output.splitlines())
    if finished.status or "LoadState" not in found:
        raise Refusal("failed", f"systemctl show {unit}: {finished.errors.strip() or 'no answer'}")
    if found["LoadState"] == "not-found":
        return None
    return Unit(found["InvocationID"], found["ActiveState"], found["SubState"], found["ExecMainStatus"])
