"""A scene and the other side of the comparison -> Drift. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from sparkd import drift
from sparkd.drift.difference import Difference, Severity
from sparkd.drift.form import Side
from sparkd.drift.report import Drift
from sparkd.importers.around import NOT_RUNNING, OF_WHAT_RUNS, without
from sparkd.importers.live import Seen, beside
from sparkd.model.config import Deployment

SLOWER = 0.8
"""Of the rate when it worked; canaries of one idle engine vary by some percent."""
SEVERAL = 3
"""Measured requests in a row that have to be slower: one may have met a request of a person."""
RATE = "decode_tokens_per_second"


def with_known(known: Side, seen: Seen, at: float, seconds: float) -> Drift:
    """What runs (or would run next) against what ran when it worked."""
    side = beside(known, seen)
    return Drift(
        against=known.label,
        live=seen.side.label,
        at=at,
        seconds=seconds,
        findings=drift.compare(side, seen.side),
        unread=seen.unread,
        absent=seen.absent,
        ended=seen.ended,
        not_compared=(*drift.not_compared(side, seen.side), *_unsaid(seen)),
    )


def with_wanted(wanted: Side, seen: Seen, at: float, seconds: float) -> Drift:
    """What runs against what the files say. What a container has changed of itself no file wants."""
    besides = tuple(key for key in OF_WHAT_RUNS if key != "changed ")
    ranks = tuple(without(form, besides) for form in seen.side.ranks)
    trimmed = replace(seen, side=replace(seen.side, ranks=ranks))
    return with_known(replace(wanted, label="wanted"), trimmed, at, seconds)


def _unsaid(seen: Seen) -> Iterator[str]:
    for rank, missing in seen.unsaid.items():
        for key, why in missing.items():
            if why != NOT_RUNNING:
                yield f"{key.strip()} of rank {rank}: {why}"


def slower(deployment: Deployment, measured: Mapping[str, Any], rates: tuple[float, ...]) -> Difference | None:
    """A finding where the last requests were all slower than when it worked. `rates`: tokens per second, warm."""
    known = deployment.known_good.get(RATE) or _warm(measured)
    last = rates[-SEVERAL:]
    if not isinstance(known, int | float) or len(last) < SEVERAL or max(last) >= SLOWER * known:
        return None
    now = round(sum(last) / SEVERAL, 1)
    return Difference(
        severity=Severity.SLOWS,
        kind="rank",
        name="decode rate",
        known=f"{known:g} tokens/s",
        live=f"{now:g} tokens/s",
        rank=0,
        node=deployment.nodes[0],
        why=f"each of the last {SEVERAL} measured requests was slower than {SLOWER:.0%} of what was measured when it worked",
        fix="look at the differences beside this one: one silent flag took it from 44 to 25 tokens/s (first field report)",
    )


def _warm(measured: Mapping[str, Any]) -> Any:
    found = measured.get(RATE)
    return found.get("warm") if isinstance(found, Mapping) else found
