"""What a survey saw of a deployment's ranks, and what of them it could not see."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sparkd.drift.form import RankForm, Side
from sparkd.engines.tables import SHIPPED, Tables


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """`side` has every rank of a node that could be read; one that neither runs nor was kept by Docker is what the
    next start would make of it, and is in `absent`, or in `asleep` where its container is there without it."""

    side: Side
    unread: Mapping[str, str]
    """Node -> why what runs there is not known."""
    unread_parts: Mapping[int, Mapping[str, str]]
    """Rank -> what of it could not be read (beginnings of keys), and why."""
    absent: tuple[int, ...] = ()
    ended: tuple[int, ...] = ()
    asleep: tuple[int, ...] = ()
    """Their containers run and no engine in them: with what flags one was started only its script knows."""
    by_word: tuple[RankForm, ...] = ()
    """Of unread nodes: what the engine of the rank says of itself, which needs no look at its process."""

    flags_by: str = ""
    """Whose word they were read by, and why that is not the engine's own where it is not."""
    tables: Tables = SHIPPED
    """All that were at hand then."""

    @property
    def whole(self) -> bool:
        """Could every node be read, and does every rank run?"""
        return not (self.unread or self.absent or self.ended or self.asleep)
