"""A scene and the other side of the comparison -> Drift. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from sparkd import drift
from sparkd.comparing.around import NOT_RUNNING, OF_WHAT_RUNS, without
from sparkd.comparing.live import beside
from sparkd.comparing.seen import Seen
from sparkd.drift import said
from sparkd.drift.difference import Difference
from sparkd.drift.form import RankForm, Side
from sparkd.drift.report import Drift


def with_known(known: Side, seen: Seen, at: float, seconds: float) -> Drift:
    """Compares what runs (or would run next) with what ran when it worked."""
    side = beside(known, seen)
    return Drift(
        against=known.label,
        live=seen.side.label,
        at=at,
        seconds=seconds,
        findings=in_order((*drift.compare(side, seen.side, tables=seen.tables), *_by_word_alone(known, seen))),
        unread=seen.unread,
        absent=seen.absent,
        ended=seen.ended,
        asleep=seen.asleep,
        flags_by=seen.flags_by,
        not_compared=(*drift.not_compared(side, seen.side), *unread_clauses(seen)),
    )


def with_wanted(wanted: Side, seen: Seen, at: float, seconds: float) -> Drift:
    """What runs against what the files say. What a container has changed of itself no file wants. A fix brings the known
    side back: here that is one restart, and no word of it is to be typed (a file may want `fork`)."""
    besides = tuple(key for key in OF_WHAT_RUNS if key != "changed ")
    ranks = tuple(without(form, besides) for form in seen.side.ranks)
    trimmed = replace(seen, side=replace(seen.side, ranks=ranks))
    found = with_known(replace(wanted, label="wanted"), trimmed, at, seconds)
    apart = (one if one.kind == "rank" else replace(one, fix=None) for one in found.findings)
    return replace(found, findings=tuple(apart))


def in_order(findings: Iterable[Difference]) -> tuple[Difference, ...]:
    """Worst first, otherwise as they come."""
    return tuple(sorted(findings, key=lambda one: -one.severity.badness))


def _by_word_alone(known: Side, seen: Seen) -> Iterator[Difference]:
    """A rank of an unread node, by what its engine says: of all else nothing is known."""
    for form in seen.by_word:
        before, missing = known.rank(form.rank), seen.unread_parts.get(form.rank, {})
        if before is not None:
            flags = before.flags and {
                name: one for name, one in before.flags.items() if said.given(name) not in missing
            }
            asked = RankForm(rank=form.rank, node=form.node, engine=before.engine, flags=flags, says=before.says)
            asked = said.without(asked, missing)
            yield from drift.compare(
                replace(known, ranks=(asked,)), replace(seen.side, ranks=(form,)), tables=seen.tables
            )


def unread_clauses(seen: Seen) -> Iterator[str]:
    """A clause for each part of a running rank that could not be read: it is neither compared nor recorded."""
    for rank, missing in seen.unread_parts.items():
        for key, why in missing.items():
            if why != NOT_RUNNING:
                yield f"{key.strip()} of rank {rank}: {why}"
