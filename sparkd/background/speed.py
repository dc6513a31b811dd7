"""Requests that were measured of what runs, beside what was measured when it worked -> in what it has become slower. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sparkd.drift.difference import Difference, Severity
from sparkd.model.config import Deployment

SEVERAL = 3
"""Measured requests in a row that have to be slower: one may have met a request of a person."""
RATE, FIRST, ACCEPTANCE = "decode_tokens_per_second", "first_token_s", "acceptance"
"""Keys of `measured` in a record; the first two hold `warm` and `cold`."""
SLOWER = 0.8
"""Part of the rate when it worked; requests to one idle engine vary by some percent."""
LATER, LATER_S = 1.5, 0.25
"""First tokens: by this factor and by this many seconds, since a short prefill of 0.1 s doubles when a core is busy."""
ACCEPTED = 0.9
"""Part of the drafted tokens per step when it worked: one more draft token cost the first position 8 % (field report)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One short request to the idle, warm engine. `accepted`: drafted tokens accepted per step, of all requests so far;
    None without speculative decoding."""

    rate: float | None
    """Tokens per second; None where the answer was too short to tell."""
    first_token_s: float | None = None
    accepted: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Measure:
    name: str
    unit: str
    known: Callable[[Deployment, Mapping[str, Any]], Any]
    seen: Callable[[Sample], float | None]
    worse: Callable[[float, float], bool]
    """(when it worked, now) -> is that more than how it varies?"""
    bound: str
    fix: str


def slower(deployment: Deployment, measured: Mapping[str, Any], samples: tuple[Sample, ...]) -> Iterator[Difference]:
    """A finding for each measure by which all of the last requests were worse than when it worked."""
    last = samples[-SEVERAL:]
    for one in _MEASURES:
        known, values = one.known(deployment, measured), [one.seen(sample) for sample in last]
        seen = [value for value in values if value is not None]
        if not isinstance(known, int | float) or len(seen) < SEVERAL or not all(one.worse(known, now) for now in seen):
            continue
        yield Difference(
            severity=Severity.SLOWS,
            kind="rank",
            name=one.name,
            known=f"{known:.3g} {one.unit}",
            live=f"{sum(seen) / SEVERAL:.3g} {one.unit}",
            rank=0,
            node=deployment.nodes[0],
            why=f"each of the last {SEVERAL} measured requests was {one.bound} when it worked",
            fix=one.fix,
        )


def accepted(acceptance: Any) -> float | None:
    """Drafted tokens per step that are accepted, of the part accepted at each position."""
    parts = list(acceptance) if isinstance(acceptance, list | tuple) else []
    return sum(parts) if parts and all(isinstance(part, int | float) for part in parts) else None


def _warm(measured: Mapping[str, Any], key: str) -> Any:
    found = measured.get(key)
    return found.get("warm") if isinstance(found, Mapping) else found


_BESIDE = "look at the differences beside this one"
_MEASURES = (
    _Measure(
        name="decode rate",
        unit="tokens/s",
        known=lambda deployment, measured: deployment.known_good.get(RATE) or _warm(measured, RATE),
        seen=lambda sample: sample.rate,
        worse=lambda known, now: now < SLOWER * known,
        bound=f"slower than {SLOWER:.0%} of what was measured",
        fix=f"{_BESIDE}: one silent flag took it from 44 to 25 tokens/s (first field report)",
    ),
    _Measure(
        name="time to first token",
        unit="s",
        known=lambda deployment, measured: _warm(measured, FIRST),
        seen=lambda sample: sample.first_token_s,
        worse=lambda known, now: now > LATER * known and now > known + LATER_S,
        bound=f"later by half and by {LATER_S:g} s than",
        fix=f"{_BESIDE}: prefill runs slower, or requests wait in front of it",
    ),
    _Measure(
        name="draft acceptance",
        unit="tokens per step",
        known=lambda deployment, measured: accepted(measured.get(ACCEPTANCE)),
        seen=lambda sample: sample.accepted,
        worse=lambda known, now: now < ACCEPTED * known,
        bound=f"with less than {ACCEPTED:.0%} of the drafted tokens accepted",
        fix=f"{_BESIDE}: the draft model, its number of tokens or the sampling of most requests has changed",
    ),
)
