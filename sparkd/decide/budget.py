"""How soon and how often: the pause before an automatic restart, and the budget of automatic starts."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple
from zlib import crc32

from sparkd.model.config import Backoff, Budget
from sparkd.model.decision import Cause, Phase, State

FREE = frozenset({Cause.OPERATOR, Cause.CONFIG})
"""Causes of a start that a person asked for: they cost no budget."""
DAY_S = 86400.0
MOST_DOUBLINGS = 30
"""Far beyond any maximum; a float overflows at 1024."""


def pause_s(backoff: Backoff, failures: int, seed: str) -> float:
    """Seconds to wait after the `failures`-th failure in a row that costs a pause: first, doubling, capped, spread by jitter.

    The spread comes from `seed` (deployment and generation), so that the same decision made twice gives the same pause.
    """
    if failures <= 0:
        return 0.0
    doublings = min(failures - 1, MOST_DOUBLINGS)
    spread = crc32(seed.encode()) / 0xFFFFFFFF * 2.0 - 1.0
    return float(min(backoff.max, backoff.first * 2.0**doublings)) * (1.0 + backoff.jitter * spread)


def served_long(backoff: Backoff, state: State, now: float) -> bool:
    """Has this generation answered for so long that its end is a first failure? By its last answer: neither a pause, nor a time in
    which nobody looked or requests failed, is serving.

    A killed rank once cost 20 to 29 s of pause beside a start of 41 s, after hours of serving.
    """
    serves = Phase.SERVE in (state.phase, state.before if state.phase is Phase.ADOPTING else None)
    if not serves or state.serving_since is None:
        return False
    answers = (state.watch.tokens_at, None if state.watch.unsent else state.watch.canary_at)
    answered = max((at for at in answers if at is not None), default=state.serving_since)
    failing = state.watch.canary_failing_since
    until = min(now, answered if failing is None else min(failing, answered))
    asked = min(backoff.reset_after, backoff.reset_after_asked)
    return until - state.serving_since >= (asked if state.cause in FREE else backoff.reset_after)


def within(starts: tuple[float, ...], now: float, seconds: float = DAY_S) -> tuple[float, ...]:
    """The starts of so long ago at the most."""
    return tuple(start for start in starts if now - start < seconds)


def counted(budget: Budget, starts: tuple[float, ...], now: float) -> tuple[float, ...]:
    """The starts that may count: a window may be longer than a day."""
    return within(starts, now, max(DAY_S, budget.per))


class Spent(NamedTuple):
    """Why no automatic start is left now, and when the window has room for one."""

    why: str
    until: float


def spent(budget: Budget, starts: tuple[float, ...], now: float) -> Spent | None:
    """The window is full, or None. It empties by itself."""
    recent = sorted(within(starts, now, budget.per))
    if not 0 < budget.starts <= len(recent):
        return None
    why = f"{len(recent)} automatic starts in the last {budget.per / 60:.0f} min, the limit is {budget.starts}"
    return Spent(why, recent[-budget.starts] + budget.per)


def spent_today(budget: Budget, starts: tuple[float, ...], now: float) -> str | None:
    """Why a person has to look before another automatic start, or None."""
    if not allowed(budget):
        return "no automatic start is allowed"
    today = len(within(starts, now))
    if today < budget.per_day:
        return None
    return f"the daily budget is used up: {today} automatic starts in the last 24 h, the limit is {budget.per_day}"


def allowed(budget: Budget) -> int:
    """Automatic starts of a day."""
    return budget.per_day if budget.starts else 0


def raised(budget: Budget, fact: str, starts: tuple[float, ...], now: float) -> bool:
    """Are more allowed than when the hold of this fact began (`budget:12`)? Written into a file, that is a person's word.

    A fact without a number is of an older version, which held for a used-up hour as well: that is a pause now.
    """
    kind, _, before = fact.partition(":")
    if kind != "budget":
        return False
    return allowed(budget) > int(before) if before.isdigit() else spent_today(budget, starts, now) is None


def given_back(state: State) -> State:
    """The start of this generation does not count: it was no try of the deployment's own."""
    return replace(state, starts=tuple(start for start in state.starts if start != state.started_at))
