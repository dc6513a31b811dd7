"""Random faults, wishes and deaths of sparkd, in any order.

What must hold holds after each (`driver` checks it), and once all is well again sparkd does what is wanted.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from sparkd.model.config import Budget, ContainerSpec, Deployment, Mount, Policy
from sparkd.model.decision import Intent, Phase
from sparkd.model.upkeep import Maintenance, Upkeep

from .cluster import SimCluster, SimContainer
from .driver import Driver, Killed

NODES = ("spark1", "spark2")
DEPLOYMENT = Deployment(
    name="demo",
    engine="vllm",
    nodes=NODES,
    image="vllm:1",
    container=ContainerSpec(mounts=(Mount(source="/models", target="/models"),)),
    digest="d1",
)
POLICY = Policy(budget=Budget(starts=3, per=3600.0, per_day=30))
COUNTED = {"steps": 0}

nodes, ranks = st.sampled_from(NODES), st.sampled_from((0, 1))


class Supervised(RuleBasedStateMachine):
    """One deployment on two nodes, and everything that happens to it."""

    @initialize(up=st.booleans())
    def begin(self, up: bool) -> None:
        self.driver = Driver(SimCluster(DEPLOYMENT), POLICY, intent=Intent(wanted="up" if up else "stopped"))
        self.cluster = self.driver.cluster

    @rule(count=st.integers(1, 12))
    def time_passes(self, count: int) -> None:
        self.driver.cycles(count)

    @rule()
    def it_comes_up(self) -> None:
        self.driver.until(lambda: self.driver.state.phase is Phase.SERVE, 40)

    @rule()
    def it_serves(self) -> None:
        self.everything_is_well_again()
        self.driver.intent = replace(self.driver.intent, wanted="up")
        self.it_serves_or_waits_for_a_person()

    @rule(fault=st.sampled_from(("frozen", "gone", "fabric", "dead", "wedged")), rank=ranks, cycles=st.integers(1, 200))
    def it_goes_wrong_while_serving(self, fault: str, rank: int, cycles: int) -> None:
        self.it_serves()
        one = self.cluster.rank(rank)
        assert one is not None
        match fault:
            case "frozen":
                one.frozen = True
            case "gone":
                one.end(0)
            case "fabric":
                self.cluster.fabric = False
            case "dead":
                one.dead = True
            case "wedged":
                one.wedged = True
        self.driver.cycles(cycles)

    # ------------------------------------------------------------------------------------------------------- the engine

    @rule(rank=ranks, code=st.sampled_from((0, 1, 2, 137)))
    def rank_ends(self, rank: int, code: int) -> None:
        one = self.cluster.rank(rank)
        if one is not None and one.runs:
            one.end(code)
        self.driver.cycle()

    @rule(rank=ranks)
    def rank_is_removed(self, rank: int) -> None:
        for node in self.cluster.nodes.values():
            node.containers = [one for one in node.containers if one.rank != rank or one.generation == -1]
        self.driver.cycle()

    @rule(rank=ranks, frozen=st.booleans())
    def rank_freezes(self, rank: int, frozen: bool) -> None:
        one = self.cluster.rank(rank)
        if one is not None:
            one.frozen = frozen

    @rule()
    def head_says_dead(self) -> None:
        one = self.cluster.rank(0)
        if one is not None:
            one.dead = True

    @rule(idle=st.booleans())
    def clients(self, idle: bool) -> None:
        self.cluster.idle = idle

    # -------------------------------------------------------------------------------------------------------- the nodes

    @rule(node=nodes, reachable=st.booleans())
    def management_network(self, node: str, reachable: bool) -> None:
        self.cluster.nodes[node].reachable = reachable

    @rule(node=nodes, cycles=st.integers(1, 40))
    def away_for_a_while(self, node: str, cycles: int) -> None:
        self.cluster.nodes[node].reachable = False
        self.driver.cycles(cycles)
        self.cluster.nodes[node].reachable = True

    @rule(node=nodes, begins=st.booleans())
    def maintenance(self, node: str, begins: bool) -> None:
        now = self.cluster.now
        self.cluster.upkeep = {node: Upkeep(maintenance=Maintenance(now, now + 600.0))} if begins else {}
        self.driver.cycle()

    @rule(up=st.booleans())
    def fabric(self, up: bool) -> None:
        self.cluster.fabric = up

    @rule(node=nodes, docker=st.sampled_from(("running", "stopped", "mute")))
    def docker(self, node: str, docker: str) -> None:
        self.cluster.nodes[node].docker = docker
        self.driver.cycle()

    @rule(node=nodes)
    def power_cut(self, node: str) -> None:
        self.cluster.power_off(node)
        self.driver.cycle()

    @rule(node=nodes, after=st.integers(0, 40))
    def orderly_reboot(self, node: str, after: int) -> None:
        self.cluster.shut_down(node)
        self.driver.cycle()
        self.cluster.power_off(node)
        self.driver.cycles(after)
        self.cluster.power_on(node)

    @rule(node=nodes)
    def power_on(self, node: str) -> None:
        self.cluster.power_on(node)

    @rule(
        node=nodes,
        image=st.booleans(),
        mount=st.booleans(),
        port_held=st.booleans(),
        sockets=st.booleans(),
        check_fails=st.booleans(),
        memory_taken=st.booleans(),
    )
    def what_a_start_needs(
        self,
        node: str,
        image: bool,
        mount: bool,
        port_held: bool,
        sockets: bool,
        check_fails: bool,
        memory_taken: bool,
    ) -> None:
        one = self.cluster.nodes[node]
        one.image, one.mount, one.port_held, one.sockets = image, mount, port_held, sockets
        one.check_fails, one.memory_taken = check_fails, memory_taken

    @rule(node=nodes)
    def a_stray_process(self, node: str) -> None:
        self.cluster.nodes[node].strays.append(self.cluster.next_id())

    @rule(node=nodes, there=st.booleans(), generation=st.integers(0, 60))
    def a_foreign_container(self, node: str, there: bool, generation: int) -> None:
        one = self.cluster.nodes[node]
        rank = NODES.index(node)
        one.containers = [other for other in one.containers if other.owner != "somebody"]
        if there and not any(other.rank == rank for other in one.containers):
            serial = self.cluster.next_id()
            one.containers.append(SimContainer(f"f{serial}", rank, generation, "somebody", "running", pid=serial))

    @rule(node=nodes, stuck=st.booleans())
    def kills_hang(self, node: str, stuck: bool) -> None:
        self.cluster.nodes[node].stuck = stuck

    # ------------------------------------------------------------------------------------------------- sparkd and people

    @rule(fault=st.sampled_from(("refused", "half", "timeout", "late")), late_s=st.sampled_from((1.0, 8.0, 16.0, 26.0)))
    def next_action_fails(self, fault: str, late_s: float) -> None:
        self.driver.fault, self.driver.late_s = fault, late_s

    @rule(after=st.integers(0, 12), docker_goes_on=st.booleans(), late_s=st.sampled_from((1.0, 8.0, 16.0, 26.0)))
    def sparkd_dies(self, after: int, docker_goes_on: bool, late_s: float) -> None:
        left = [after]
        self.driver.late_s = late_s
        self.driver.docker_goes_on = docker_goes_on

        def die(where: str) -> None:
            left[0] -= 1
            if left[0] < 0:
                raise Killed(where)

        self.driver.point = die
        self.driver.cycles(4)
        self.driver.point = lambda name: None

    @rule(seconds=st.sampled_from((10.0, 30.0, 120.0, 700.0)), misses=st.booleans())
    def sparkd_stands_still(self, seconds: float, misses: bool) -> None:
        self.driver.stand_still(seconds, misses)

    @rule(node=nodes, seconds=st.sampled_from((30.0, 700.0)), cycles=st.integers(1, 200))
    def it_serves_through_a_gap_with_failing_canaries(self, node: str, seconds: float, cycles: int) -> None:
        self.it_serves()
        one = self.cluster.rank(0)
        assert one is not None
        one.wedged = True
        self.driver.cycles(30)
        self.cluster.nodes[node].reachable = False
        self.driver.cycles(int(seconds // self.driver.policy.period))
        self.cluster.nodes[node].reachable = True
        self.driver.cycles(cycles)

    @rule()
    def journal_is_lost(self) -> None:
        self.driver.lose_journal()

    @rule(wanted=st.sampled_from(("up", "stopped")))
    def start_or_stop(self, wanted: str) -> None:
        intent = self.driver.intent
        if not intent.paused:
            release = intent.release + (wanted == "up")
            self.driver.intent = replace(intent, wanted=wanted, release=release, lost=frozenset())
        self.driver.cycle()

    @rule(node=nodes)
    def stop_and_assume_lost(self, node: str) -> None:
        if not self.driver.intent.paused and self.cluster.nodes[node].unread:
            self.driver.intent = replace(self.driver.intent, wanted="stopped", lost=frozenset({node}))
        self.driver.cycle()

    @rule()
    def restart(self) -> None:
        intent = self.driver.intent
        if not intent.paused:
            self.driver.intent = replace(intent, wanted="up", restart=intent.restart + 1)
        self.driver.cycle()

    @rule(paused=st.booleans())
    def pause_or_resume(self, paused: bool) -> None:
        self.driver.intent = replace(self.driver.intent, paused=paused)
        self.driver.cycle()

    @rule()
    def release(self) -> None:
        self.driver.intent = replace(self.driver.intent, release=self.driver.intent.release + 1)
        self.driver.cycle()

    # ---------------------------------------------------------------------------------------------------------- the end

    def teardown(self) -> None:
        if not hasattr(self, "driver"):
            return
        self.everything_is_well_again()
        if self.driver.intent.wanted == "stopped":
            self.it_stays_stopped()
        else:
            self.it_serves_or_waits_for_a_person()
        COUNTED["steps"] += self.driver.steps

    def everything_is_well_again(self) -> None:
        self.driver.intent = replace(self.driver.intent, paused=False)
        self.driver.fault, self.cluster.fabric, self.cluster.upkeep = "", True, {}
        for name, node in self.cluster.nodes.items():
            self.cluster.power_on(name)
            node.reachable, node.docker, node.stopping, node.stuck = True, "running", False, False
            node.image = node.mount = node.sockets = True
            node.port_held = node.check_fails = node.memory_taken = False
            node.containers = [one for one in node.containers if one.owner != "somebody"]
            for one in node.containers:
                one.frozen = False

    def it_stays_stopped(self) -> None:
        driver = self.driver

        def all_gone() -> bool:
            still = [*self.cluster.ours(), *driver.late]
            return driver.state.reason == "stopped" and not still

        assert driver.until(all_gone, 60), f"not stopped: {driver.state.sentence}"
        driver.cycles(3)
        assert all_gone()

    def it_serves_or_waits_for_a_person(self) -> None:
        """It serves within the time of one start. What waits for a person or for another file needs a release and no more."""
        driver = self.driver

        def serves() -> bool:
            return driver.state.phase is Phase.SERVE and self.cluster.answers(driver.state.generation)

        def held() -> bool:
            return driver.state.hold is not None and driver.state.hold.fact.partition(":")[0] in ("budget", "exit")

        assert driver.until(lambda: serves() or held(), 900), f"{driver.state.phase}: {driver.state.sentence}"
        if not serves():
            driver.intent = replace(driver.intent, release=driver.intent.release + 1)
            assert driver.until(lambda: not held(), 20), f"not released: {driver.state.sentence}"
            assert driver.until(serves, 200), f"after a release: {driver.state.sentence}"
        driver.cycles(2)
        assert serves()


@pytest.mark.slow
@pytest.mark.timeout(300)  # a minute alone, more beside the lab
def test_what_must_hold_holds_in_20000_steps() -> None:
    COUNTED["steps"] = 0
    run_state_machine_as_test(Supervised, settings=settings.get_profile("ci"))
    assert COUNTED["steps"] >= 20_000


@pytest.mark.nightly
@pytest.mark.timeout(6 * 3600)
def test_what_must_hold_holds_in_a_million_steps() -> None:
    COUNTED["steps"] = 0
    while COUNTED["steps"] < 1_000_000:
        run_state_machine_as_test(Supervised, settings=settings.get_profile("nightly"))
