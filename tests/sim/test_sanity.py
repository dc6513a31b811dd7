"""Hours of the fixed question in virtual time: what takes a group out of service, and what never does."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sparkd.model.decision import Phase

from .driver import Driver
from .test_interrupted import serving

HOUR = 720
"""Cycles of five seconds."""
SENSE = {
    "as asked": "lantern 4729 copper. Paris.",
    "another script": "灯笼 四七二九 铜。法国的首都是巴黎。",
    "another script, another answer": "Столица Франции — Париж.",
    "a sentence around it": "Sure! lantern 4729 copper. The capital of France is Paris.",
}


def idle(says: str = SENSE["as asked"]) -> Driver:
    """It serves, nobody asks, and this is what it would answer."""
    driver = serving()
    driver.cluster.idle, driver.cluster.says = True, says
    return driver


@pytest.mark.parametrize("says", SENSE.values(), ids=SENSE.keys())
def test_no_false_verdict_in_hours_of_answers_that_make_sense(says: str) -> None:
    driver = idle(says)
    driver.cycles(4 * HOUR)
    assert (driver.state.phase, driver.state.generation, driver.outages) == (Phase.SERVE, 1, [])
    assert driver.state.sanity.known is not None
    assert driver.state.sanity.known.text == says
    assert not any(kind in ("nonsense", "failed") for kind, _ in driver.events)


def test_a_saturated_engine_is_never_asked_and_never_judged() -> None:
    driver = serving()
    driver.cluster.says = "!" * 64
    before = driver.state.sanity
    driver.cycles(4 * HOUR)
    assert (driver.state.sanity, driver.state.generation) == (before, 1)


def test_f18_nonsense_is_known_within_an_hour_and_over_when_it_makes_sense_and_nothing_is_restarted() -> None:
    driver = idle()
    driver.cycles(60)
    driver.cluster.says = "\ufffd\ufffd lantern \ufffd" * 4
    began = driver.cluster.now
    assert driver.until(lambda: driver.state.nonsense, HOUR + 60)
    assert driver.cluster.now - began <= 3600 + 300
    driver.cycles(3 * HOUR)
    assert (driver.state.phase, driver.state.generation, driver.state.outage is not None) == (Phase.SERVE, 1, True)
    assert [kind for kind, _ in driver.events].count("nonsense") == 1
    driver.cluster.says = SENSE["as asked"]
    assert driver.until(lambda: driver.state.outage is None, 60)
    assert [(one.code, one.answered, one.starts) for one in driver.outages] == [("nonsense", 1, 0)]


def test_restart_once_starts_one_generation_and_no_other_while_it_makes_no_sense() -> None:
    driver = idle("nein " * 30)
    driver.policy = replace(driver.policy, on_nonsense="restart-once")
    assert driver.until(lambda: driver.state.generation == 2 and driver.state.nonsense, 2 * HOUR)
    driver.cycles(8 * HOUR)
    assert (driver.state.phase, driver.state.generation, driver.state.reason) == (Phase.SERVE, 2, "nonsense")
    driver.cluster.says = SENSE["as asked"]
    assert driver.until(lambda: not driver.state.nonsense, 60)
    driver.cluster.says = "nein " * 30
    assert driver.until(lambda: driver.state.generation == 3, 2 * HOUR), "that row had ended"


def test_sparkd_that_dies_meanwhile_knows_it_still() -> None:
    driver = idle("!" * 64)
    assert driver.until(lambda: driver.state.nonsense, 2 * HOUR)
    driver.reborn()
    driver.cycles(10)
    assert (driver.state.reason, driver.state.generation) == ("nonsense", 1)
