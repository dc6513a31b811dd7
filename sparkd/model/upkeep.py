"""What is known of a node besides what a look shows: planned work on it, and its power hook."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sparkd.model.power import PowerUse


@dataclass(frozen=True, slots=True)
class Maintenance:
    """Planned work: what runs on the node is stopped until it has booted, the time is over, or a person ends it.

    `since` and `until` are on the daemon's clock.
    """

    since: float
    until: float
    since_wall: float = 0.0
    boot: str = ""
    """Identity of the boot that the node was in when it was asked for; empty where it could not be read."""
    by: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class Upkeep:
    """Of one node."""

    maintenance: Maintenance | None = None
    uses: tuple[PowerUse, ...] = ()
    """The last uses of its power hook, the newest last."""
    hook: bool = False
    """It has a power hook."""
    auto: bool = False
    """Which sparkd may use by itself."""

    def shifted(self, by_s: float) -> Upkeep:
        """The same, its times moved to the clock of another boot."""
        planned = self.maintenance
        if planned is not None:
            planned = replace(planned, since=planned.since + by_s, until=planned.until + by_s)
        return replace(self, maintenance=planned, uses=tuple(replace(one, at=one.at + by_s) for one in self.uses))


NOTHING = Upkeep()


@dataclass(frozen=True, slots=True)
class Echo:
    """One ping to a node that is silent, by another node. `answered` is None where it could not be sent."""

    by: str
    network: str
    """lan | fabric"""
    answered: bool | None
