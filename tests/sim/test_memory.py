"""Nodes whose memory runs out, drains or comes back late, in whole machines and virtual time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from sparkd.model.action import StopRanks
from sparkd.model.config import Policy
from sparkd.model.decision import FailureClass, Intent, Phase

from .cluster import MEMORY, SimCluster
from .driver import Driver
from .test_machine import DEPLOYMENT

GIB, MIB = 1 << 30, 1 << 20
GUARD = GIB
POLICY = Policy()


def starting(act: str, args: Mapping[str, str] | None = None, **memory: object) -> Driver:
    """A group in the middle of its start."""
    deployment = replace(DEPLOYMENT, memory={"guard": {"act": act}, **memory}, args=args or {})
    driver = Driver(SimCluster(deployment), POLICY, intent=Intent(wanted="up"))
    assert driver.until(lambda: driver.state.phase is Phase.START_HEAD and driver.deed is None, 40)
    assert len(driver.cluster.running()) == 2
    return driver


def runs_short(
    driver: Driver, name: str = "spark2", left: int = GUARD + 200 * MIB, each_second: int = 30 * MIB
) -> None:
    """A rank has taken nearly all, and goes on taking."""
    node = driver.cluster.nodes[name]
    node.drained, node.drains = MEMORY.available - left, each_second


def kinds(driver: Driver) -> list[str]:
    return [kind for kind, _ in driver.events]


def serves(driver: Driver) -> bool:
    return driver.state.phase is Phase.SERVE


def stopped_in(driver: Driver, cycles: int) -> list[tuple[int, ...]]:
    """Ranks of each stop, in the order in which they were stopped."""
    found: list[tuple[int, ...]] = []
    for _ in range(cycles):
        driver.cycle()
        if driver.deed is not None and isinstance(driver.deed[0], StopRanks):
            ranks = tuple(one.rank for one in driver.deed[0].targets)
            found += [ranks] if ranks not in found else []
    return found


@pytest.mark.parametrize("name", ["spark1", "spark2"])
def test_f26_a_start_on_a_draining_node_is_stopped_in_order_before_the_node_locks_up(name: str) -> None:
    driver = starting("stop")
    runs_short(driver, name)
    node = driver.cluster.nodes[name]
    assert stopped_in(driver, 7) == [(0,), (1,)], "the head, then the worker"
    assert min(one.memory.available for one in node.looks if one.memory is not None) > 0
    assert driver.cluster.running() == []
    failure = driver.state.failure
    assert failure is not None
    assert (failure.cls, failure.signature) == (FailureClass.RESOURCE, "memory-guard")
    assert name in failure.text
    assert kinds(driver).count("failed") == 1
    node.drains = 0
    assert driver.until(lambda: serves(driver), 100), "with what took it gone it comes up by itself"
    assert driver.state.generation == 2
    assert driver.state.memory == ()


def test_f26_the_same_start_is_only_warned_of_with_warn() -> None:
    driver = starting("warn")
    runs_short(driver, each_second=10 * MIB)
    assert driver.until(lambda: "memory-low" in kinds(driver), 20)
    assert driver.until(lambda: serves(driver), 40)
    driver.cycles(20)
    assert driver.state.generation == 1
    assert kinds(driver).count("memory-low") == 1
    assert "failed" not in kinds(driver)
    assert len(driver.cluster.running()) == 2


def test_f26_a_group_that_serves_is_stopped_too() -> None:
    driver = starting("stop")
    assert driver.until(lambda: serves(driver), 40)
    runs_short(driver)
    driver.cycles(2)
    assert driver.state.failure is not None
    assert driver.state.failure.signature == "memory-guard"
    assert driver.state.outage is not None
    assert driver.state.outage.code == "memory-guard"


def test_no_false_restart_with_the_guard_at_its_threshold() -> None:
    """Exactly what the guard asks for, for an hour; and somewhat less that stays."""
    for left in (GUARD, GUARD - 300 * MIB):
        driver = starting("stop")
        runs_short(driver, left=left, each_second=0)
        assert driver.until(lambda driver=driver: serves(driver), 40)  # type: ignore[misc]
        driver.cycles(720)
        assert (driver.state.phase, driver.state.generation) == (Phase.SERVE, 1)
        assert not [kind for kind in kinds(driver) if kind.startswith("memory")]


def test_a_node_that_cannot_be_read_is_not_judged_by_what_was_read_before() -> None:
    driver = starting("stop")
    runs_short(driver)
    driver.cluster.nodes["spark2"].reachable = False
    driver.cycles(30)
    assert driver.state.phase is Phase.START_HEAD
    assert "failed" not in kinds(driver)


def test_a_sparkd_that_is_killed_tells_an_episode_no_second_time() -> None:
    driver = starting("warn")
    runs_short(driver, each_second=5 * MIB)
    assert driver.until(lambda: "memory-low" in kinds(driver), 20)
    driver.reborn()
    driver.cycles(20)
    assert kinds(driver).count("memory-low") == 1
    assert [one.kind for one in driver.state.memory] == ["low"]


# ------------------------------------------------------------------------------------------------- after a teardown


def lost(driver: Driver, taken: int, returns: int) -> None:
    """The worker ends; what its rank had comes back as slowly as this."""
    node, worker = driver.cluster.nodes["spark2"], driver.cluster.rank(1)
    assert worker is not None
    node.drained, node.returns = taken, returns
    worker.end(137)


def test_a_start_waits_until_the_memory_is_back_and_no_longer() -> None:
    """100 GiB of which one comes back a second. A tenth of 128 is there long before all of it is, and would be too early."""
    driver = starting("warn", args={"gpu-memory-utilization": "0.1"}, reads="available")
    assert driver.until(lambda: serves(driver), 40)
    lost(driver, 100 * GIB, GIB)
    waited, node = [], driver.cluster.nodes["spark2"]
    while driver.state.generation == 1:
        driver.cycle()
        if driver.decision is not None and driver.decision.reason == "memory-returns":
            waited.append(driver.decision.sentence)
        assert len(waited) < 20
    assert waited
    assert "GiB in 1 s" in waited[0]
    assert node.memory.available >= MEMORY.available - GIB, "it is back"
    assert driver.state.resource_tries == 0


def test_f26_memory_that_does_not_come_back_is_held_and_named_until_it_does() -> None:
    driver = starting("warn", reads="available")
    assert driver.until(lambda: serves(driver), 40)
    lost(driver, 50 * GIB, 0)
    assert driver.until(lambda: driver.state.phase is Phase.HELD, 200)
    hold = driver.state.hold
    assert hold is not None
    assert (hold.cls, hold.heals_itself) == (FailureClass.RESOURCE, True)
    assert hold.fact.startswith("memory:spark2:")
    assert "50.0 GiB of the 120.0 GiB that it had before generation 1 did not come back" in hold.text
    driver.cluster.nodes["spark2"].returns = GIB
    assert driver.until(lambda: serves(driver), 200), "it heals by itself"
