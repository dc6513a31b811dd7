"""A node whose memory runs out: below its guard, falling, and who takes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sparkd.decide.case import Case, duration
from sparkd.decide.memory_taker import Growth, Kind, grower
from sparkd.model.config import Deployment
from sparkd.model.machine import Memory
from sparkd.model.memory_trail import Guard, MemoryLook, MemoryTrail
from sparkd.model.size import parse_size, spoken
from sparkd.model.snapshot import NodeView

SIGNATURE = "memory-guard"
"""Of the failure of a group that was stopped for it, and kind of the fact of the hold that may follow."""
WINDOW_S = 30.0
"""Looks that are compared: at the default period six of them, during a start thirty."""
RECENT_S = 60.0
"""What grew in this time is named before what grew since the start, which would always be the engine."""
STIR = 64
"""A fall of less than this part of the guard is none: what is idle moves some MiB to and fro."""


_LESS = "give the ranks on {node} less (with vLLM: lower gpu-memory-utilization), or free memory there"
FIXES: Mapping[Kind, str] = {
    Kind.RANK: _LESS,
    Kind.KERNEL: _LESS,
    Kind.CACHE: "on {node}: end what locks or writes so many files; dropping caches as root shows what returns",
    Kind.TMPFS: "on {node}: remove {who} that nobody needs",
    Kind.CONTAINER: "on {node}: stop {who}, or give it less",
    Kind.PROCESS: "on {node}: end {who}, or restart it",
}


@dataclass(frozen=True, slots=True)
class Low:
    """A node below its guard whose memory falls (bytes and seconds)."""

    node: str
    available: int
    below: int
    fell: int
    over_s: float
    growth: Growth | None

    @property
    def text(self) -> str:
        left = f"{self.node} runs out of memory: {spoken(self.available)} available"
        fell = f"down by {spoken(self.fell)} in {duration(self.over_s)}"
        took = f"most of that went to {self.growth.words}" if self.growth is not None else "what takes it is not known"
        return f"{left}, {fell}; {took}"

    @property
    def fix(self) -> str:
        kind = self.growth.kind if self.growth is not None else Kind.RANK
        return FIXES[kind].format(node=self.node, who=self.growth.who if self.growth is not None else "")


def guard_of(deployment: Deployment, default: Guard) -> tuple[int, str]:
    """(bytes, `warn` or `stop`): what the deployment's file says, else sparkd.yaml."""
    own = deployment.memory.get("guard")
    said: Mapping[str, object] = own if isinstance(own, Mapping) else {}
    below = str(said.get("below", default.below))
    return parse_size(below), str(said.get("act", default.act))


def falling(looks: Sequence[MemoryLook], below: int) -> tuple[MemoryLook, MemoryLook] | None:
    """(the highest of the last looks, the newest) where that is below the guard, lower than the one before it, and lower
    than the highest by more than what is idle moves. None also where the last look could not read it."""
    newest = looks[-1] if looks else None
    if newest is None or newest.memory is None or newest.memory.available >= below:
        return None
    earlier = [one for one in looks[:-1] if one.memory is not None and newest.at - one.at <= WINDOW_S]
    if not earlier or available(earlier[-1]) <= newest.memory.available:
        return None
    top = max(earlier, key=available)
    return (top, newest) if available(top) - newest.memory.available >= max(1, below // STIR) else None


def low(node: str, trail: MemoryTrail, view: NodeView, below: int) -> Low | None:
    """None while there is enough, while what there is stays, and while it cannot be read."""
    found = falling(trail.looks, below)
    if found is None:
        return None
    top, newest = found
    fell = available(top) - available(newest)
    recent = [one for one in trail.looks if newest.at - one.at <= RECENT_S]
    growth = grower(recent, view) or grower(trail.looks, view)
    return Low(node, available(newest), below, fell, newest.at - top.at, growth)


def available(look: MemoryLook) -> int:
    return look.memory.available if look.memory is not None else 0


def passes(case: Case, node: str) -> bool:
    """The node has more than before the start that ran out of it, another file is started, or the guard no longer stops it."""
    needed = case.state.hold.fact.rpartition(":")[2] if case.state.hold is not None else ""
    view = case.group.views.get(node)
    if view is None or case.state.digest != case.deployment.digest:
        return True
    if guard_of(case.deployment, case.snapshot.guard)[1] != "stop":
        return True
    return isinstance(view.memory, Memory) and needed.isdigit() and view.memory.available >= int(needed)
