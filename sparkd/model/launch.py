"""What is remembered of a start under way, beside its stages: of which kind it is, and what its ranks were seen to do."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Movement:
    """What the processes of one rank had done by the last look that found them at work."""

    rank: int
    cpu_ms: int
    io_bytes: int
    moved_at: float
    """When that look was (daemon's clock)."""


@dataclass(frozen=True, slots=True)
class Launch:
    """Of one generation, from its number to its first answer. Times are on the daemon's clock."""

    profile: str = ""
    warm: bool = False
    """It began with warm caches."""
    gapped: bool = False
    """Part of it was not seen, so that nothing is learned of its stages."""
    told: tuple[str, ...] = ()
    """Stages that history was told of as suspect."""
    lived: tuple[int, ...] = ()
    """Ranks that have shown a process of the engine."""
    doubts: tuple[tuple[str, float], ...] = ()
    """`signature:rank` -> since when each look has shown it (`decide/peers.py`)."""
    movements: tuple[Movement, ...] = ()
    log: int | None = None
    """Stands for the last lines of the head's log: another number is another text."""
    log_at: float | None = None
    """When they were last seen to have changed."""

    def movement(self, rank: int) -> Movement | None:
        return next((one for one in self.movements if one.rank == rank), None)

    def blinded(self) -> Launch:
        """After a time in which nobody looked: what lasted before it may have passed meanwhile."""
        return replace(self, gapped=True, doubts=(), movements=(), log=None, log_at=None)

    def durable(self) -> Launch:
        """What is worth a write: all but what every look changes."""
        return replace(self, movements=(), log=None, log_at=None)
