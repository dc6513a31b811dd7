"""One outage: from when a deployment that is wanted up no longer answers until it answers again or is no longer wanted."""

from __future__ import annotations

from dataclasses import dataclass

OPERATOR, UNREAD = "operator", "unread"
SYMPTOMS = frozenset({OPERATOR, UNREAD, "not-answering", "node-stopping", "rank-gone"})
"""Causes that a failure or a reboot found later explains better: the record then names that instead."""
PASSING = frozenset({UNREAD, "not-answering"})
"""Causes that may end without a start: while the node is unread, it is not known whether it is still down."""


@dataclass(frozen=True, slots=True)
class Outage:
    """`began`, `ended` and `unread_since` are on the daemon's clock, `…_wall` the same in Unix time."""

    began: float
    """The first failed request, or when the node was down at the latest; not when it was noticed."""
    began_wall: float
    generation: int
    """The one that no longer answered."""
    code: str
    """A failure's signature, `rebooted`, `operator` (a person asked for it), `unread`, or what was seen at first."""
    text: str
    cls: str = ""
    """The class of the failure; empty for what is none."""
    starts: int = 0
    """Group starts that it cost until now."""
    unread_s: float = 0.0
    """The part in which it is not known whether it answered: unknown is not down."""
    unread_since: float | None = None
    """Since when it is not known whether it answers."""
    unwatched: bool = False
    """sparkd itself was not there for a part of it, or stood still, or did so right before it saw it."""
    ended: float | None = None
    ended_wall: float | None = None
    answered: int | None = None
    """The generation that answers again; None where a person stopped it."""

    @property
    def asked(self) -> bool:
        """A person asked for it, and nothing else went wrong."""
        return self.code == OPERATOR

    @property
    def unread_only(self) -> bool:
        """All of it was unread: nothing else is known of it."""
        return self.code == UNREAD

    def lasted_s(self, now: float) -> float:
        """From its begin to its end, or until now."""
        return max(0.0, (now if self.ended is None else self.ended) - self.began)

    def unknown_s(self, now: float) -> float:
        """The unread part of that."""
        running = 0.0 if self.unread_since is None else max(0.0, now - self.unread_since)
        return min(self.lasted_s(now), self.unread_s + running)

    def down_s(self, now: float) -> float:
        """The part of that in which it was down."""
        return self.lasted_s(now) - self.unknown_s(now)
