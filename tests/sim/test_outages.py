"""What is recorded of outages when sparkd dies or a node boots in the middle of one: in whole machines, in virtual time."""

from __future__ import annotations

from sparkd.model.decision import Phase
from sparkd.model.outage import Outage

from .driver import Driver
from .test_interrupted import serves, serving


def answers(driver: Driver) -> bool:
    return serves(driver) and driver.state.outage is None


def lose_a_rank(driver: Driver) -> float:
    """Returns when."""
    worker = driver.cluster.rank(1)
    assert worker is not None
    worker.end(137)
    now = driver.cluster.now
    driver.cycle()
    return now


def the_last(driver: Driver) -> Outage:
    assert driver.state.last_outage is not None
    assert driver.outages[-1] == driver.state.last_outage
    return driver.outages[-1]


def test_killed_while_requests_fail_and_adopting_what_answers_again_the_next_loss_is_an_outage_of_its_own() -> None:
    driver = serving()
    head = driver.cluster.rank(0)
    assert head is not None
    driver.cluster.idle, head.wedged = True, True
    assert driver.until(lambda: driver.state.outage is not None, 100)
    assert driver.state.outage is not None
    began = driver.state.outage.began
    driver.reborn()
    head.wedged = False
    assert driver.until(lambda: answers(driver), 20)
    over = the_last(driver)
    assert (over.began, over.code, over.answered, over.starts, over.unwatched) == (began, "not-answering", 1, 0, True)
    driver.cycles(600)
    lost = lose_a_rank(driver)
    assert driver.state.outage is not None
    assert lost <= driver.state.outage.began <= lost + 10
    assert len(driver.outages) == 1


def test_killed_in_every_phase_of_the_restart_it_stays_one_outage() -> None:
    driver = serving()
    lost = lose_a_rank(driver)
    for phase in (Phase.BACKOFF, Phase.START_WORKERS, Phase.START_HEAD, Phase.WARMUP):
        assert driver.until(lambda phase=phase: driver.state.phase is phase, 60), phase  # type: ignore[misc]
        driver.reborn()
    assert driver.until(lambda: answers(driver), 200)
    over = the_last(driver)
    assert len(driver.outages) == 1
    assert lost <= over.began <= lost + 10
    assert (over.generation, over.code, over.unwatched) == (1, "exit-137", True)
    assert over.answered == 1 + over.starts


def test_a_node_that_boots_is_the_last_failure_and_one_outage_from_when_it_was_down() -> None:
    driver = serving()
    lose_a_rank(driver)
    assert driver.until(lambda: answers(driver), 200)
    driver.cycles(400)
    off = driver.cluster.now
    driver.cluster.power_off("spark2")
    driver.cycles(8)
    driver.cluster.power_on("spark2")
    on = driver.cluster.now
    assert driver.until(lambda: answers(driver), 200)
    failure, over = driver.state.failure, the_last(driver)
    assert failure is not None
    assert (failure.signature, failure.text, failure.generation) == ("rebooted", "spark2 rebooted", 2)
    assert (over.code, over.generation, over.answered, over.starts) == ("rebooted", 2, 3, 1)
    assert off <= over.began <= on + 10
    assert failure.outage_s == over.lasted_s(0.0)
    assert [one.code for one in driver.outages] == ["exit-137", "rebooted"]


def test_a_head_that_cannot_be_read_for_ten_minutes_and_answers_is_not_down() -> None:
    driver = serving()
    driver.cluster.idle, before = True, list(driver.outages)
    driver.cluster.nodes["spark1"].reachable = False
    driver.cycles(120)
    assert (driver.state.outage, driver.outages) == (None, before)
    assert driver.state.watch.canary_failures == 0


def test_an_outage_through_which_sparkd_stood_still_says_so() -> None:
    """Stopped for twelve minutes (SIGSTOP): the engine may have answered long before anybody looked."""
    driver = serving()
    lose_a_rank(driver)
    while driver.state.phase is not Phase.WARMUP:
        driver.cycle()  # `until` makes long steps while it waits
    assert driver.state.outage is not None
    assert not driver.state.outage.unwatched
    driver.stand_still(720.0, misses=False)
    assert driver.until(lambda: answers(driver), 100)
    assert the_last(driver).unwatched


def test_a_loss_while_sparkd_stood_still_says_that_nobody_knows_when() -> None:
    driver = serving()
    worker = driver.cluster.rank(1)
    assert worker is not None
    worker.end(137)
    driver.stand_still(720.0, misses=False)
    assert driver.state.outage is not None
    assert driver.state.outage.unwatched
