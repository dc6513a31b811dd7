"""What a survey saw of a deployment's ranks, and what of them it could not see."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sparkd.drift.form import RankForm, Side
from sparkd.engines.tables import SHIPPED, Tables


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """`side` has every rank of each node that could be read. A rank that neither runs nor was kept by Docker is there as the
    next start would make it. Such a rank is in `absent`, or in `asleep` where its container runs without the engine."""

    side: Side
    unread: Mapping[str, str]
    """Node -> why what runs there is not known."""
    unread_parts: Mapping[int, Mapping[str, str]]
    """Rank -> beginning of the keys that could not be read -> why."""
    absent: tuple[int, ...] = ()
    ended: tuple[int, ...] = ()
    asleep: tuple[int, ...] = ()
    """Ranks whose container runs without an engine in it: only its script knows with what flags it starts one."""
    by_word: tuple[RankForm, ...] = ()
    """Ranks on unread nodes, by what their engine says of itself: that needs no look at the process."""

    flags_by: str = ""
    """The source of the table by which flags were read; and why it is not the engine's own, where it is not."""
    tables: Tables = SHIPPED
    """All flag tables at that time."""

    @property
    def whole(self) -> bool:
        """Could every node be read, and does every rank run?"""
        return not (self.unread or self.absent or self.ended or self.asleep)
