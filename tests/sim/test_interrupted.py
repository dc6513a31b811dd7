"""Every plan cut at every point at which sparkd can die: afterwards it ends where people want it, and nothing ever runs twice.

The points are before and after each state is persisted, inside each action after each single change, and after its end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest

from sparkd.model.config import Deployment, Policy
from sparkd.model.decision import Intent, Phase

from .cluster import SimCluster
from .driver import Driver, Killed

DEPLOYMENT = Deployment(name="demo", engine="vllm", nodes=("spark1", "spark2"), image="vllm:1", digest="d1")


def stopped() -> Driver:
    return Driver(SimCluster(DEPLOYMENT), Policy())


def serves(driver: Driver) -> bool:
    return driver.state.phase is Phase.SERVE and driver.cluster.answers(driver.state.generation)


def serving() -> Driver:
    driver = stopped()
    driver.intent = Intent(wanted="up")
    assert driver.until(lambda: serves(driver), 60)
    return driver


def start() -> Driver:
    driver = stopped()
    driver.intent = Intent(wanted="up")
    return driver


def group_restart() -> Driver:
    driver = serving()
    worker = driver.cluster.rank(1)
    assert worker is not None
    worker.end(137)
    return driver


def restart_by_hand() -> Driver:
    driver = serving()
    driver.intent = replace(driver.intent, restart=1)
    return driver


def stop() -> Driver:
    driver = serving()
    driver.intent = replace(driver.intent, wanted="stopped")
    return driver


def reboot_of_the_worker() -> Driver:
    driver = serving()
    driver.cluster.shut_down("spark2")
    driver.cycle()
    driver.cluster.power_off("spark2")
    driver.cycles(3)
    driver.cluster.power_on("spark2")
    return driver


def reboot_of_both() -> Driver:
    driver = serving()
    driver.cluster.power_off("spark1")
    driver.cluster.power_off("spark2")
    driver.cluster.power_on("spark1")
    driver.reborn()
    driver.cycles(36)
    driver.cluster.power_on("spark2")
    return driver


SCENARIOS = (start, group_restart, restart_by_hand, stop, reboot_of_the_worker, reboot_of_both)
GENERATIONS = {start: 1, stop: 1}
"""How many generations it takes when nobody dies; the others take one more."""


def as_wanted(driver: Driver, begun: int) -> bool:
    """What people want has come true, and what Docker still had to do is done."""
    if driver.late:
        return False
    if driver.intent.wanted == "stopped":
        return driver.state.reason == "stopped" and not list(driver.cluster.ours())
    return serves(driver) and driver.state.generation >= begun and driver.state.restart_done == driver.intent.restart


def die_at(driver: Driver, *points: int) -> list[str]:
    """Let sparkd die at these points, counted on from each death; returns the names of the points passed."""
    passed: list[str] = []
    left = list(points)

    def point(name: str) -> None:
        passed.append(name)
        if left and len(passed) > left[0]:
            left[:] = [one + len(passed) for one in left[1:]]
            raise Killed(name)

    driver.point = point
    return passed


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda one: one.__name__)
@pytest.mark.parametrize("late_s", [None, 1.0, 12.0, 17.0, 24.0], ids=lambda one: f"docker_late_{one}")
@pytest.mark.slow
def test_cut_anywhere_it_ends_as_wanted(scenario: Callable[[], Driver], late_s: float | None) -> None:
    whole = scenario()
    begun = GENERATIONS.get(scenario, 2)
    passed = die_at(whole)
    assert whole.until(lambda: as_wanted(whole, begun), 80)
    assert whole.state.generation == begun
    for number, where in enumerate(passed):
        if late_s is not None and not where.startswith("inside StartRanks"):
            continue
        for points in ((number,), (number, 2)):
            driver = scenario()
            driver.docker_goes_on, driver.late_s = late_s is not None, late_s or 0.0
            die_at(driver, *points)
            words = f"{where} ({points})"
            assert driver.until(partial(as_wanted, driver, begun), 200), f"{words}: {driver.state.sentence}"
            driver.cycles(3)
            assert as_wanted(driver, begun), f"{words}: did not stay so"
