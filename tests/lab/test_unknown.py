"""Unknown is not dead: networks cut, Docker mute or stopped, nodes away. Nothing is done until it can be known."""

from __future__ import annotations

import time
from contextlib import ExitStack

import pytest

from .configured import NAME
from .driver import Daemon, audit, since
from .faults import docker_mute, docker_stopped, fabric_cut, mgmt_cut, power_cut, shutdown
from .load import Load

# CI waits long enough to see that nothing happens; the whole minute of the acceptance is nightly.
quiet = pytest.mark.parametrize("quiet_s", [20.0, pytest.param(60.0, marks=pytest.mark.nightly)])


def hold_still(daemon: Daemon, seconds: float, node: str = "spark2") -> None:
    """For this long the node stays unknown with why and since, and the deployment's generation is left alone."""
    generation = daemon.one()["generation"]
    starts = len(daemon.kinds("starting"))
    began = time.monotonic()
    daemon.wait(f"{seconds:g} s of quiet", lambda one: since(began) > seconds, seconds + 30)
    seen = daemon.node(node)
    assert seen["state"] == "unknown"
    assert seen["why"]
    assert seen["since"]
    assert daemon.one()["generation"] == generation
    assert len(daemon.kinds("starting")) == starts
    assert daemon.status()["daemon"]["loop_age_s"] < 6


@pytest.mark.timeout(400)
@quiet
def test_management_network_gone_is_no_reason_to_act(serving: Daemon, quiet_s: float) -> None:
    before = serving.wait_serving()
    with Load(serving) as load, mgmt_cut(serving.worker):
        serving.wait("the worker to be unknown", lambda one: serving.node("spark2")["state"] == "unknown", 40)
        hold_still(serving, quiet_s)
    assert not load.bad, "the engine's own traffic was disturbed"
    serving.wait("the worker to be known again", lambda one: serving.node("spark2")["state"] == "ok", 60)
    assert serving.wait_serving()["generation"] == before["generation"]


@pytest.mark.timeout(400)
@pytest.mark.parametrize("busy", [False, True], ids=["idle", "busy"])
def test_fabric_gone_while_ssh_works_is_acted_on(serving: Daemon, busy: bool) -> None:
    before = serving.wait_serving()
    with ExitStack() as stack:
        if busy:
            stack.enter_context(Load(serving, max_tokens=200))
        with fabric_cut(serving.worker):
            failed = serving.wait("the verdict", lambda one: one["phase"] not in ("serve",), 90)
            assert failed["last_failure"]["signature"] in ("fabric-silent", "stalled", "engine-dead")
        # The cut is mended: the next start works.
    serving.wait_serving(after=before["generation"], deadline_s=180)
    audit(serving.history())


@pytest.mark.timeout(400)
def test_f50_both_networks_gone_is_unknown_and_then_the_truth(serving: Daemon) -> None:
    before = serving.wait_serving()
    with mgmt_cut(serving.worker), fabric_cut(serving.worker):
        serving.wait("the worker to be unknown", lambda one: serving.node("spark2")["state"] == "unknown", 40)
        serving.worker.docker("kill", serving.container(1))
        hold_still(serving, 20)
    serving.wait_serving(after=before["generation"], deadline_s=180)
    audit(serving.history())


@pytest.mark.timeout(400)
@quiet
def test_f06_mute_docker_is_unknown_and_does_not_slow_the_loop(serving: Daemon, quiet_s: float) -> None:
    before = serving.wait_serving()
    with docker_mute(serving.worker):
        serving.wait("the worker to be unknown", lambda one: serving.node("spark2")["state"] == "unknown", 40)
        hold_still(serving, quiet_s)
    assert serving.wait_serving()["generation"] == before["generation"]


@pytest.mark.timeout(400)
def test_f09_stopped_docker_is_not_woken_and_costs_one_restart(serving: Daemon) -> None:
    before = serving.wait_serving()
    starts = len(serving.kinds("starting"))
    with docker_stopped(serving.worker):
        began = time.monotonic()
        # The socket is back before the service: whoever dials now wakes a Docker that a person stopped.
        serving.worker.run(["systemctl", "start", "docker.socket"])
        serving.wait("30 s", lambda one: since(began) > 30, 60)
        state = serving.worker.run(["systemctl", "is-active", "docker.service"], check=False).stdout.strip()
        assert state == "inactive", "sparkd woke a stopped Docker"
    serving.wait_serving(after=before["generation"], deadline_s=180)
    assert len(serving.kinds("starting")) == starts + 1
    audit(serving.history())


@pytest.mark.timeout(600)
def test_a_node_declared_lost_comes_back_and_its_stale_rank_goes_first(serving: Daemon) -> None:
    before = serving.wait_serving()
    with mgmt_cut(serving.worker), fabric_cut(serving.worker):
        serving.wait("the worker to be unknown", lambda one: serving.node("spark2")["state"] == "unknown", 40)
        serving.ctl("stop", NAME, "--assume-lost", "spark2", "--yes", "--wait", "-m", "dead", timeout_s=90)
        assert not serving.running(0)
        assert serving.running(1), "the stale rank runs on unseen"
        serving.ctl("start", NAME)
        serving.wait("it to wait for the node", lambda one: "spark2" in one["sentence"], 30)
        assert not serving.running(0)
    after = serving.wait_serving(after=before["generation"], deadline_s=180)
    assert after["generation"] > before["generation"]
    audit(serving.history())


@pytest.mark.timeout(600)
@pytest.mark.parametrize("how", [shutdown, power_cut], ids=["orderly", "power-cut"])
@pytest.mark.parametrize("who", ["worker", "head"])
def test_one_node_reboots(serving: Daemon, who: str, how: object) -> None:
    before = serving.wait_serving()
    node = serving.worker if who == "worker" else serving.head
    with how(node):  # type: ignore[operator]
        pass
    serving.wait_serving(after=before["generation"], deadline_s=180)
    assert any(event["sentence"].startswith(f"{node.name} rebooted: ") for event in serving.kinds("node-boot"))
    assert not serving.kinds("held")
    audit(serving.history())


@pytest.mark.timeout(600)
@pytest.mark.parametrize("late_s", [30.0, pytest.param(180.0, marks=pytest.mark.nightly)])
def test_both_reboot_and_the_worker_is_late(serving: Daemon, late_s: float) -> None:
    before = serving.wait_serving()
    late = power_cut(serving.worker)
    with power_cut(serving.head):
        pass
    began = time.monotonic()
    serving.wait("a head that waits", lambda one: since(began) > late_s, late_s + 60)
    one = serving.one()
    assert one["phase"] != "held"
    assert "spark2" in one["sentence"]
    late.undo()
    serving.wait_serving(after=before["generation"], deadline_s=180)
    assert not serving.kinds("held")
    audit(serving.history())
