"""A node's memory over time, what is to be done when it runs out, and the times in which it did."""

from __future__ import annotations

from dataclasses import dataclass, field

from sparkd.model.machine import Holders, Memory
from sparkd.model.policy import Size


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """What is done when the memory of a node runs out while a group loads or serves."""

    below: Size = "1GiB"
    """A node with less memory available, and falling, is about to lock up; 0 switches the guard off."""
    act: str = "warn"
    """`warn`: what takes the memory is named; `stop`: the group is also taken down, before its node locks up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySettings:
    """How the memory of nodes is guarded, unless a deployment says something else."""

    guard: Guard = field(default_factory=Guard)
    """What is done when a node has less and less of it."""


@dataclass(frozen=True, slots=True)
class MemoryLook:
    """One look at a node's memory. `at` is on the daemon's clock; `memory` is None where it could not be read."""

    at: float
    memory: Memory | None
    holders: Holders | None = None
    """Who had it; read only where it may have to be said."""
    tokens: float | None = None
    """Tokens that the engines with a rank there had counted until then; None where one of them could not be asked."""


@dataclass(frozen=True, slots=True)
class MemoryTrail:
    """The looks at one node, each row oldest first."""

    looks: tuple[MemoryLook, ...] = ()
    """Of the last minute, and before them the last one that knows who had it."""
    slow: tuple[MemoryLook, ...] = ()
    """One in ten minutes, since nothing was started or stopped there: memory that drains takes hours."""
    turns: tuple[str, ...] = ()
    """Deployments that `stop` may take down for this node, in that order."""
    going: str = ""
    """The one that is being taken down for it now, or was until a moment ago."""


@dataclass(frozen=True, slots=True)
class MemoryEpisode:
    """A time in which a node runs out of memory (`low`) or loses it while idle (`drain`); told once, when it begins."""

    kind: str
    node: str
    since_wall: float
    """Unix time."""
    available: int
    """Bytes that the node had available when it began."""
    text: str
    fix: str = ""
    acted: bool = False
    """A group was stopped for it when it began, and that was told as its failure."""
