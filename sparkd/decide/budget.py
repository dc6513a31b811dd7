"""How soon and how often: the pause before an automatic restart, and the budget of automatic starts."""

from __future__ import annotations

from dataclasses import replace
from zlib import crc32

from sparkd.model.config import Backoff, Budget
from sparkd.model.decision import State

DAY_S = 86400.0
MOST_DOUBLINGS = 30
"""Far beyond any maximum; a float overflows at 1024."""


def pause_s(backoff: Backoff, failures: int, seed: str) -> float:
    """Seconds to wait after the `failures`-th failure in a row: first, doubling, capped, spread by jitter.

    The spread comes from `seed` (deployment and generation), so that the same decision made twice gives the same pause.
    """
    doublings = min(max(failures, 1) - 1, MOST_DOUBLINGS)
    spread = crc32(seed.encode()) / 0xFFFFFFFF * 2.0 - 1.0
    return float(min(backoff.max, backoff.first * 2.0**doublings)) * (1.0 + backoff.jitter * spread)


def within(starts: tuple[float, ...], now: float) -> tuple[float, ...]:
    """The starts that still count: those of the last day."""
    return tuple(start for start in starts if now - start < DAY_S)


def exhausted(budget: Budget, starts: tuple[float, ...], now: float) -> str | None:
    """Why no automatic start is left, or None."""
    recent = sum(1 for start in starts if now - start < budget.per)
    if recent >= budget.starts:
        return f"{recent} automatic starts in the last {budget.per / 60:.0f} min, the limit is {budget.starts}"
    today = len(within(starts, now))
    if today >= budget.per_day:
        return f"{today} automatic starts in the last 24 h, the limit is {budget.per_day}"
    return None


def given_back(state: State) -> State:
    """The start of this generation does not count: it was no try of the deployment's own."""
    return replace(state, starts=tuple(start for start in state.starts if start != state.started_at))
