"""No fix ever offers to stop what sparkd ends itself: it would be typed while the next generation serves."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import product

import pytest
from check_world import CLUSTER, SPARK1, SPARK2, scene, view

from sparkd.checks import all_checks
from sparkd.checks.shared import run
from sparkd.checks.shared.scene import Scene
from sparkd.decide import strays
from sparkd.facts.containers import CONTAINERS, Contained
from sparkd.facts.engines import ENGINES
from sparkd.facts.holders import HOLDERS
from sparkd.facts.sockets import SOCKETS
from sparkd.facts.units import UNITS, Command, Unit
from sparkd.model.check import Finding, Level
from sparkd.model.config import Cleanup
from sparkd.model.machine import EngineProcess, Holders, Process, Socket
from sparkd.model.snapshot import Container, NodeView, Unknown

GIB = 1 << 30
ENDS = re.compile(
    r"ctl (stop|restart)|docker (stop|rm|kill|update)|\bkill\b|\bstop it\b|systemctl .*(stop|disable|mask)"
)
RANK = Container("0" * 64, "sparkd-demo-0", "demo", 0, 7, "us", "x", "running")
PORTS = (8000, 29501)

RANKS: list[tuple[Container, ...]] = [
    (),
    (RANK,),
    (RANK, replace(RANK, id="1" * 64, generation=8)),
    (replace(RANK, runtime="process", id="f" * 32),),
    (replace(RANK, state="paused"),),
    (replace(RANK, state="exited"),),
]
PROCESSES = [
    EngineProcess(500, 1, 9, "S", 30 * GIB, owner, 60.0, PORTS, ("us", "demo", generation), "VLLM::Worker")
    for owner, generation in product(("0" * 64, "1" * 64, "c" * 64, "-", "sparkd-demo-0.service"), (6, 7, 8))
]


def of_ours(rank: tuple[Container, ...], process: EngineProcess | None, pid: int | None, **more: object) -> Scene:
    """spark1 with what is left of generations of demo: ranks, processes, ports, their container and their unit."""
    held = (Socket("LISTEN", "0.0.0.0", port, "0.0.0.0", 0, 0, 0, 1, pid) for port in PORTS)
    there = () if process is None else (process,)
    known = tuple(Process(one.pid, 1, 9, "S", GIB, one.owner, one.title) for one in there)
    contained = Contained(
        id=RANK.id, name=RANK.name, image="vllm:1", image_id="i", state="restarting", exit_code=127, restarts=9,
        restart="always", started_at=1.7e9, argv=("vllm", "serve"), path=("/bin",), workdir=None, mounts=(), owner="us",
    )  # fmt: skip
    unit = Unit(
        name="sparkd-demo-0.service", active="failed", file_state="transient", file="/run/systemd/transient/x",
        exit_code=203, commands=(Command("ExecStart", ("/bin/none", "vllm serve")),),
    )  # fmt: skip
    facts = {
        ENGINES: {SPARK1: there, SPARK2: ()},
        SOCKETS: {SPARK1: tuple(held) if process is not None or pid is None else (), SPARK2: ()},
        CONTAINERS: {SPARK1: (contained,), SPARK2: ()},
        UNITS: {SPARK1: (unit,) if rank else (), SPARK2: ()},
        HOLDERS: {SPARK1: Holders((), known, 0), SPARK2: Holders((), (), 0)},
    }
    return scene(facts, view(SPARK1, containers=rank, processes=more.pop("processes", known)), **more)  # type: ignore[arg-type]


def fixes(at: Scene) -> list[Finding]:
    levels = {check.code: Level.FAIL for check in all_checks()}
    found = run.evaluate(run.chosen(all_checks(), at.deployment, levels), at, levels)
    return [one for one in found if ENDS.search(one.fix)]


@pytest.mark.parametrize("running", [True, False])
@pytest.mark.parametrize("rank", RANKS)
def test_nothing_of_our_own_is_to_be_stopped_by_a_person(rank: tuple[Container, ...], running: bool) -> None:
    for process in PROCESSES:
        for processes in ((), Unknown("no answer", 0.0)):
            assert fixes(of_ours(rank, process, 500, running=running, processes=processes)) == [], process
        assert fixes(of_ours(rank, process, 500, running=running)) == [], process
    if any(one.alive for one in rank):  # a listener whose process nobody can see may be any of theirs
        assert fixes(of_ours(rank, None, None, running=running)) == []


def test_a_stale_rank_of_another_deployment_is_ended_by_its_own() -> None:
    """Stopping that deployment for it would stop its generation 8, which serves."""
    other = replace(RANK, deployment="other", name="sparkd-other-0")
    process = replace(PROCESSES[0], owner=RANK.id, mark=("us", "other", 7))
    assert fixes(of_ours((other, replace(other, id="1" * 64, generation=8)), process, 500)) == []
    [found] = [one for one in fixes(of_ours((other,), process, 500)) if "8000" in one.text]
    assert found.fix == "sparkd ctl stop other", "one that runs as it should makes room only when a person says so"


def test_what_sparkd_may_not_end_is_told_with_what_ends_it() -> None:
    at = of_ours((), PROCESSES[6], 500)
    at = replace(at, cluster=replace(CLUSTER, cleanup=Cleanup(remove_strays="never")))
    assert {one.fix for one in fixes(at) if one.code == "stray"} == {
        "on spark1: kill -9 500, or allow it to sparkd with `cleanup: {remove_strays: own}`"
    }


@pytest.mark.parametrize("process", PROCESSES)
def test_a_hold_for_a_port_offers_no_stop_of_our_own(process: EngineProcess) -> None:
    at: NodeView = view(SPARK1, containers=(RANK,), engines=(process,))
    held = strays.holder(at, 500, 8000, "us")
    assert held is not None
    assert strays.remedy(held, at, "demo", "own") == ""
