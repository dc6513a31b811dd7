"""Slow and healthy, on the clocks that people have: nothing is ended and nothing is restarted (rule 10)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from sparkd.model.config import Policy
from sparkd.model.decision import Intent, Phase

from .driver import Driver
from .test_interrupted import serves, start

POLICY = Policy()


def started(load_s: float = 40.0) -> Driver:
    driver = start()
    driver.policy, driver.cluster.load_s = POLICY, load_s
    return driver


def serving() -> Driver:
    driver = started()
    assert driver.until(lambda: serves(driver), 60)
    return driver


@contextmanager
def undisturbed(driver: Driver) -> Iterator[None]:
    """It serves afterwards, in the same generation, and at every look between."""
    before = driver.state.generation
    yield
    assert driver.until(lambda: serves(driver), 60)
    assert driver.state.generation == before
    assert not [event for event in driver.events if event[0] in ("failed", "held")]


def test_f12_a_cold_start_of_three_quarters_of_an_hour_is_waited_for() -> None:
    driver = started(load_s=2650.0)
    for _ in range(700):
        driver.cycle()
        assert driver.state.phase in (*_BRINGING_UP, Phase.SERVE), driver.state.sentence
        if serves(driver):
            break
    assert serves(driver)
    assert (driver.state.generation, driver.state.failures) == (1, 0)


_BRINGING_UP = (Phase.STOPPED, Phase.PRECHECK, Phase.CLEANUP, Phase.START_WORKERS, Phase.START_HEAD, Phase.WARMUP)


@pytest.mark.parametrize("stall_s", [70, 286, 550], ids=["a compile", "a long stall", "the longest seen to end well"])
def test_f17_a_stall_that_ends_well_is_left_alone(stall_s: int) -> None:
    driver = serving()
    head = driver.cluster.rank(0)
    assert head is not None
    with undisturbed(driver):
        for _ in range(3):
            head.wedged, driver.cluster.requests = True, 4.0
            driver.cycles(stall_s // 5)
            head.wedged, driver.cluster.requests = False, 0.0
            driver.cycles(30)


def test_f14_a_saturated_engine_that_keeps_canaries_waiting_is_busy_and_not_dead() -> None:
    driver = serving()
    with undisturbed(driver):
        driver.cluster.saturated, driver.cluster.requests = True, 64.0
        driver.cycles(720)


def test_a_page_of_metrics_that_is_always_late_proves_nothing() -> None:
    driver = serving()
    with undisturbed(driver):
        driver.cluster.slow_page, driver.cluster.idle = True, True
        driver.cycles(720)


def test_requests_that_are_counted_for_ever_with_nobody_there_prove_nothing() -> None:
    driver = serving()
    with undisturbed(driver):
        driver.cluster.requests, driver.cluster.idle = 1.0, True
        driver.cycles(720)


def _frozen(driver: Driver, on: bool) -> None:
    worker = driver.cluster.rank(1)
    assert worker is not None
    worker.frozen = on


def _fabric(driver: Driver, on: bool) -> None:
    driver.cluster.fabric = not on


def _dead(driver: Driver, on: bool) -> None:
    head = driver.cluster.rank(0)
    assert head is not None
    head.dead = on


UNDER: list[tuple[Callable[[Driver, bool], None], float]] = [
    (_frozen, POLICY.stuck_after),
    (_fabric, POLICY.silent_after),
    (_dead, POLICY.dead_after),
]


@pytest.mark.parametrize(("break_it", "limit_s"), UNDER, ids=["stopped", "fabric", "503"])
def test_what_ends_just_before_its_verdict_ends_nothing(
    break_it: Callable[[Driver, bool], None], limit_s: float
) -> None:
    driver = serving()
    with undisturbed(driver):
        for _ in range(5):
            break_it(driver, True)
            driver.cycles(round(limit_s / POLICY.period) - 1)
            break_it(driver, False)
            driver.cycles(60)


def test_the_same_for_longer_is_acted_on() -> None:
    """Else what is above would prove nothing."""
    for break_it, limit_s in UNDER:
        driver = serving()
        driver.intent = replace(Intent(wanted="up"), by="test")
        break_it(driver, True)
        driver.cycles(round(limit_s / POLICY.period) + 40)
        assert [event for event in driver.events if event[0] == "failed"], driver.state.sentence
