"""Times of a state, written on one boot's clock, moved to another boot's."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from sparkd.base import clock
from sparkd.model.decision import State
from sparkd.model.outage import Outage
from sparkd.model.sanity import Sanity

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")

STATE_TIMES = ("since", "retry_at", "started_at", "serving_since", "looked_at")
OUTAGE_TIMES = ("began", "ended", "unread_since")
SANITY_TIMES = ("asked_at", "since")
WATCH_TIMES = (
    "tokens_at",
    "canary_at",
    "canary_failing_since",
    "dead_since",
    "exception_since",
    "stuck_since",
    "silent_since",
    "widow_since",
    "frozen_since",
    "worked_at",
    "gap_until",
    "late_until",
    "failed_first",
    "failed_last",
)
"""Beside these, `starts`, `stages` and the failure's `at` are on the daemon's clock."""


@dataclass(frozen=True, slots=True)
class Moment:
    """One instant on both clocks: CLOCK_BOOTTIME seconds of the boot `boot`, and Unix time."""

    boot: str
    at: float
    wall: float


@cache
def boot_id() -> str:
    """The id of this boot; a process never sees another."""
    return BOOT_ID.read_text().strip()


def now() -> Moment:
    """This instant."""
    return Moment(boot_id(), clock.now(), clock.wall())


def shift_s(saved: Moment, loaded: Moment) -> float:
    """What to add to a time written at `saved` to mean the same on the clock of `loaded`; 0 within one boot.

    The time between is measured by the wall clock and never less than nothing: a wall clock that went back (a flat
    RTC battery, F35) must not move the past into the future, where a pause would last for years.
    """
    if saved.boot == loaded.boot:
        return 0.0
    return loaded.at - max(0.0, loaded.wall - saved.wall) - saved.at


def shifted(state: State, by_s: float) -> State:
    """The state with every time moved."""
    if not by_s:
        return state
    times: dict[str, Any] = {name: _moved(getattr(state, name), by_s) for name in STATE_TIMES}
    clocks: dict[str, Any] = {name: _moved(getattr(state.watch, name), by_s) for name in WATCH_TIMES}
    failure = replace(state.failure, at=state.failure.at + by_s) if state.failure is not None else None
    return replace(
        state,
        **times,
        starts=tuple(at + by_s for at in state.starts),
        stages=tuple((name, at + by_s) for name, at in state.stages),
        failure=failure,
        outage=_outage(state.outage, by_s),
        last_outage=_outage(state.last_outage, by_s),
        watch=replace(state.watch, **clocks),
        sanity=_sanity(state.sanity, by_s),
        launch=state.launch.blinded(),
    )


def _sanity(sanity: Sanity, by_s: float) -> Sanity:
    times: dict[str, Any] = {name: _moved(getattr(sanity, name), by_s) for name in SANITY_TIMES}
    return replace(sanity, **times)


def _outage(outage: Outage | None, by_s: float) -> Outage | None:
    if outage is None:
        return None
    times: dict[str, Any] = {name: _moved(getattr(outage, name), by_s) for name in OUTAGE_TIMES}
    return replace(outage, **times)


def _moved(at: float | None, by_s: float) -> float | None:
    return None if at is None else at + by_s
