"""Starts that are slow, and starts that cannot succeed: whole machines, in virtual time."""

from __future__ import annotations

import math

import pytest

from sparkd.model.config import Policy
from sparkd.model.decision import Intent, Phase

from .cluster import SimCluster, SimContainer
from .driver import Driver
from .test_machine import DEPLOYMENT


def starting(**cluster: object) -> Driver:
    """A start that a person asked for, up to the wait for the engine."""
    driver = Driver(SimCluster(DEPLOYMENT, **cluster), Policy(), intent=Intent(wanted="up"))  # type: ignore[arg-type]
    assert driver.until(lambda: driver.state.reason == "loading", 40), driver.state.sentence
    return driver


def serves(driver: Driver) -> bool:
    return driver.state.phase is Phase.SERVE and driver.cluster.answers(driver.state.generation)


def after_one_start(**cluster: object) -> Driver:
    """It has served once, so that its stages are known, and starts again."""
    driver = starting()
    assert driver.until(lambda: serves(driver), 40)
    driver.intent = Intent(wanted="up", restart=1)
    for name, value in cluster.items():
        setattr(driver.cluster, name, value)
    assert driver.until(lambda: driver.state.generation == 2 and driver.state.reason == "loading", 60)
    return driver


def rank(driver: Driver, number: int) -> SimContainer:
    found = driver.cluster.rank(number)
    assert found is not None
    return found


def until_failed(driver: Driver, cycles: int) -> float:
    """Seconds until this start was ended."""
    before, failures = driver.cluster.now, driver.state.failures
    assert driver.until(lambda: driver.state.failures > failures, cycles), driver.state.sentence
    return driver.cluster.now - before


def test_f12_a_cold_start_of_45_minutes_serves_in_its_first_generation() -> None:
    driver = starting(load_s=2640.0)
    assert driver.until(lambda: serves(driver), 600), driver.state.sentence
    assert (driver.state.generation, driver.state.failure) == (1, None)
    assert driver.cluster.now - (driver.state.started_at or 0) > 2640
    assert [kind for kind, _ in driver.events].count("suspect") == 1
    assert dict(driver.state.learned[0].longest)["weights"] == pytest.approx(2640, abs=20)


def test_f12_a_start_that_takes_ten_times_what_it_ever_took_is_told_and_left_alone() -> None:
    driver = after_one_start(load_s=400.0)
    assert driver.until(lambda: any(kind == "suspect" for kind, _ in driver.events), 60)
    said = next(said for kind, said in driver.events if kind == "suspect")
    assert "loading weights" in said
    assert "it never took more than" in said
    assert "it goes on: every rank computes" in said
    assert driver.until(lambda: serves(driver), 100)
    assert (driver.state.generation, driver.state.failure) == (2, None)


@pytest.mark.parametrize("late", [0, 1])
def test_a_peer_that_is_ten_minutes_late_on_its_first_boot_is_no_failure(late: int) -> None:
    driver = starting(late_s={late: 600.0})
    assert driver.until(lambda: serves(driver), 200), driver.state.sentence
    assert (driver.state.generation, driver.state.failure) == (1, None)


def test_a_peer_that_sleeps_on_a_node_that_has_just_booted_is_not_yet_there() -> None:
    driver = Driver(SimCluster(DEPLOYMENT, late_s={1: 300.0}, busy=False), Policy(), intent=Intent(wanted="up"))
    for node in driver.cluster.nodes.values():
        node.booted_at = driver.cluster.now
    assert driver.until(lambda: serves(driver), 200), driver.state.sentence
    assert (driver.state.generation, driver.state.failure) == (1, None)


def test_a_worker_that_never_comes_is_told_in_a_minute() -> None:
    driver = after_one_start(late_s={1: math.inf}, busy=False)
    assert until_failed(driver, 40) <= 75
    failure = driver.state.failure
    assert failure is not None
    assert (failure.signature, failure.rank, failure.generation) == ("peer-absent", 1, 2)
    assert (
        failure.text
        == "rank 1 on spark2 has not started its engine and does nothing, and rank 0 on spark1 waits for it"
    )
    driver.cluster.late_s = {}
    assert driver.until(lambda: serves(driver), 100)
    assert driver.state.generation == 3


def test_in_a_first_start_it_is_told_at_once_and_acted_on_after_three_minutes() -> None:
    driver = starting(late_s={1: math.inf}, busy=False)
    driver.cycles(8)
    assert "rank 1 on spark2 has not started its engine and does nothing" in driver.state.sentence
    assert 120 <= until_failed(driver, 60) <= 160


@pytest.mark.parametrize("number", [0, 1])
def test_a_rank_that_died_silently_is_told_in_a_minute(number: int) -> None:
    driver = starting(load_s=600.0)
    driver.cycles(3)
    rank(driver, number).hollow = True
    assert until_failed(driver, 40) <= 70
    failure = driver.state.failure
    assert failure is not None
    assert (failure.signature, failure.rank) == ("engine-gone", number)
    assert driver.until(lambda: serves(driver), 300)
    assert driver.state.generation == 2


def test_a_stale_worker_that_met_an_earlier_head_is_told_in_a_minute() -> None:
    """Somebody restarts the head's container: the worker of the earlier rendezvous stays and joins no other (evidence 15)."""
    driver = starting(load_s=600.0)
    driver.cycles(3)
    driver.cluster.late_s = {1: math.inf}  # it never counts as there again
    stale = rank(driver, 1)
    driver.cluster.titles[stale.id] = "VLLM::Worker_TP1"
    head = rank(driver, 0)
    head.met, head.loaded_s, head.up_s = False, 0.0, 0.0
    assert until_failed(driver, 40) <= 70
    failure = driver.state.failure
    assert failure is not None
    assert (failure.signature, failure.rank) == ("peer-stale", 1)
    driver.cluster.late_s = {}
    assert driver.until(lambda: serves(driver), 300)


def test_f23_the_late_end_of_an_earlier_generation_ends_no_start() -> None:
    driver = starting(load_s=600.0)
    driver.cluster.nodes["spark2"].containers.append(SimContainer("old", 1, 0, state="exited", exit_code=1))
    driver.cycle()
    assert (driver.state.reason, driver.state.failure) == ("stale-rank", None)
    assert driver.until(lambda: serves(driver), 300)
    assert (driver.state.generation, driver.state.failure) == (1, None)


def test_a_stop_just_under_the_minute_ends_nothing() -> None:
    """SIGSTOP of a rank that the other one waits for."""
    driver = starting()
    for _ in range(4):
        rank(driver, 1).frozen = True
        driver.cycles(11)
        assert "rank 1 on spark2 is stopped (a process of it is in state T)" in driver.state.sentence
        rank(driver, 1).frozen, rank(driver, 1).met = False, False
        driver.cycles(1)
        rank(driver, 0).met = rank(driver, 1).met = False
    assert driver.until(lambda: serves(driver), 20)
    assert (driver.state.generation, driver.state.failure) == (1, None)


def test_a_rank_that_stays_stopped_while_the_other_waits_for_it_is_told_in_a_minute() -> None:
    driver = starting()
    rank(driver, 1).frozen = True
    assert until_failed(driver, 40) <= 70
    failure = driver.state.failure
    assert failure is not None
    assert (failure.signature, failure.rank) == ("peer-stopped", 1)
    assert driver.until(lambda: serves(driver), 300)


def test_ranks_that_cannot_reach_each_other_are_told_in_a_minute() -> None:
    driver = starting(walled=True)
    assert until_failed(driver, 40) <= 70
    failure = driver.state.failure
    assert failure is not None
    assert (failure.signature, failure.rank) == ("peer-unreachable", 1)
    assert "no connection to port 29501 of rank 0 on spark1" in failure.text
    driver.cluster.walled = False
    assert driver.until(lambda: serves(driver), 100)
