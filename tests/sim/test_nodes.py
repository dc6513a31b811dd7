"""A node that freezes, one that is worked on and one that somebody reboots: whole machines, in virtual time."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sparkd.model.decision import FailureClass, Phase
from sparkd.model.upkeep import Maintenance, Upkeep

from .driver import Driver
from .test_interrupted import serves, serving


def freeze(driver: Driver) -> None:
    """spark2 answers pings and nothing else; its rank hangs with it."""
    worker = driver.cluster.rank(1)
    assert worker is not None
    driver.cluster.nodes["spark2"].reachable, worker.frozen, driver.cluster.idle = False, True, True


def held_by_node(driver: Driver) -> bool:
    return driver.state.phase is Phase.HELD and driver.state.hold is not None and driver.state.hold.fact[:4] == "node"


def head_runs(driver: Driver) -> bool:
    head = driver.cluster.rank(0)
    return head is not None and head.runs


def test_f50_a_box_that_freezes_is_held_and_its_peer_is_left_alone_for_hours() -> None:
    driver = serving()
    freeze(driver)
    assert driver.until(lambda: held_by_node(driver), 200)
    hold, failure = driver.state.hold, driver.state.failure
    assert hold is not None
    assert failure is not None
    assert (hold.cls, failure.cls) == (FailureClass.HARDWARE, FailureClass.HARDWARE)
    for _ in range(500):
        driver.cycle()
        assert held_by_node(driver)
        assert head_runs(driver), "nothing is done on the peer"


def test_f50_one_that_is_only_busy_for_longer_than_its_sshd_bears_is_not_restarted() -> None:
    driver = serving()
    driver.cluster.nodes["spark2"].reachable, driver.cluster.idle = False, True
    driver.cycles(2000)
    assert (driver.state.phase, driver.state.generation) == (Phase.SERVE, 1), "it answers"
    driver.cluster.nodes["spark2"].reachable = True
    driver.cycles(20)
    assert (driver.state.phase, driver.state.generation) == (Phase.SERVE, 1)


def thawed(driver: Driver) -> None:
    worker = driver.cluster.rank(1)
    assert worker is not None
    driver.cluster.nodes["spark2"].reachable, worker.frozen = True, False


def cycled(driver: Driver) -> None:
    driver.cluster.power_off("spark2")
    driver.cycles(3)
    driver.cluster.nodes["spark2"].reachable = True
    driver.cluster.power_on("spark2")


def reborn_and_cycled(driver: Driver) -> None:
    driver.reborn()
    driver.cycles(3)
    cycled(driver)


@pytest.mark.parametrize(("mend", "generation"), [(thawed, 1), (cycled, 2), (reborn_and_cycled, 2)])
def test_f50_it_goes_on_by_itself_once_the_box_is_back(mend: Callable[[Driver], None], generation: int) -> None:
    driver = serving()
    freeze(driver)
    assert driver.until(lambda: held_by_node(driver), 200)
    mend(driver)
    assert driver.until(lambda: serves(driver), 120), driver.state.sentence
    assert driver.state.generation == generation, "what runs and answers again is not restarted"


# --------------------------------------------------------------------------------------------------------- planned work


def plan(driver: Driver, node: str = "spark2") -> None:
    now = driver.cluster.now
    driver.cluster.upkeep = {node: Upkeep(maintenance=Maintenance(now, now + 3600.0))}


def stopped_for_it(driver: Driver) -> bool:
    return driver.state.reason == "maintenance" and not list(driver.cluster.ours()) and driver.deed is None


@pytest.mark.parametrize("node", ["spark1", "spark2"])
@pytest.mark.parametrize("dies", [False, True], ids=["sparkd lives", "sparkd dies meanwhile"])
def test_work_on_a_node_and_its_reboot_cost_one_start_and_no_failure(node: str, dies: bool) -> None:
    driver = serving()
    starts = driver.state.starts
    plan(driver, node)
    assert driver.until(lambda: stopped_for_it(driver), 60), driver.state.sentence
    driver.cluster.shut_down(node)
    driver.cycles(2)
    driver.cluster.power_off(node)
    driver.cycles(30)
    if dies:
        driver.reborn()
    driver.cycles(30)
    assert driver.state.phase is Phase.HELD
    driver.cluster.power_on(node)
    driver.cycles(2)
    assert driver.state.phase is Phase.HELD, "its end is a matter of the node"
    driver.cluster.upkeep = {}
    assert driver.until(lambda: serves(driver), 120), driver.state.sentence
    assert (driver.state.generation, driver.state.failures, driver.state.starts) == (2, 0, starts), "it is free"
    assert not [kind for kind, _ in driver.events if kind == "failed"]
    (outage,) = driver.outages
    assert (outage.asked, outage.code) == (True, "operator")


@pytest.mark.parametrize("node", ["spark1", "spark2"])
def test_a_reboot_that_somebody_orders_by_hand_is_no_failure(node: str) -> None:
    driver = serving()
    driver.cluster.shut_down(node)
    driver.cycles(3)
    assert driver.state.reason == "node-stopping"
    driver.cluster.power_off(node)
    driver.cycles(20)
    driver.cluster.power_on(node)
    driver.cluster.nodes[node].stopping = False
    assert driver.until(lambda: serves(driver), 120), driver.state.sentence
    assert (driver.state.generation, driver.state.failures) == (2, 0)
    assert not [kind for kind, _ in driver.events if kind == "failed"]
    assert driver.state.failure is not None
    assert driver.state.failure.signature == "rebooted"
