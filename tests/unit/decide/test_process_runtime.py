"""Ranks without containers: whatever Docker does on their nodes is nothing to them, and what they need is their own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sparkd.model.action import RemoveRanks, StartRanks, StopRanks
from sparkd.model.config import ContainerSpec
from sparkd.model.decision import Decision, FailureClass, Phase
from sparkd.model.failure_code import FailureCode
from sparkd.model.machine import DockerUnit
from sparkd.model.snapshot import Container, NodeView, Snapshot, Unknown

from .world import (
    DEPLOYMENT,
    HEALTHY,
    NOW,
    container,
    decide,
    ended,
    failed,
    node,
    process,
    seen,
    state,
    young,
)

COMMAND, FOLDER, MODEL, USER = "/srv/venv/bin/vllm", "/srv/work", "/srv/model", "milo"
UNITS = replace(
    DEPLOYMENT,
    runtime="process",
    image=None,
    user=USER,
    command=(COMMAND, "serve"),
    container=ContainerSpec(workdir=FOLDER),
    model=MODEL,
)
PATHS = {COMMAND: "file", FOLDER: "dir", MODEL: "dir"}
NO_DOCKER = Unknown("Docker is stopped there", NOW - 90, "docker-stopped")
UNREAD = Unknown("systemctl did not answer", NOW - 5)


def rank(number: int, generation: int = 1, **more: Any) -> Container:
    return container(number, generation, runtime="process", **more)


def host(name: str, *units: Container, **facts: Any) -> NodeView:
    """A node on which no Docker runs."""
    base: dict[str, Any] = {
        "docker": DockerUnit(running=False),
        "containers": NO_DOCKER,
        "images": {},
        "paths": PATHS,
        "users": {USER: 1000},
        "units": units,
        "processes": tuple(process(one, 500 + one.rank) for one in units if one.alive),
        "in_use": ("process",),
    }
    return node(name, **{**base, **facts})


def look(*nodes: NodeView, **more: Any) -> Snapshot:
    return seen(*({name: host(name) for name in UNITS.nodes} | {one.name: one for one in nodes}).values(), **more)


def go(phase: Phase, snapshot: Snapshot, **more: Any) -> Decision:
    return decide(state(phase, **more), snapshot, deployment=UNITS)


BOTH = (host("spark1", rank(0)), host("spark2", rank(1)))


def test_a_node_without_docker_tells_all_about_ranks_that_need_none() -> None:
    view = host("spark1")
    assert view.unread is None
    assert view.unread_for("process") is None
    assert view.unread_for("docker") is NO_DOCKER
    assert replace(view, in_use=("docker", "process")).unread is NO_DOCKER
    assert replace(view, units=UNREAD).unread is UNREAD
    assert replace(view, boot=UNREAD, in_use=()).unread is UNREAD


def test_what_one_runtime_does_not_tell_hides_nothing_of_the_other() -> None:
    assert host("spark1", rank(0)).ranks == (rank(0),)
    assert node("spark1", container(0), units=UNREAD).ranks == (container(0),)
    assert node("spark1", container(0), units=(rank(1),)).ranks == (container(0), rank(1))
    assert host("spark1", rank(0), boot=UNREAD).ranks == ()


def test_it_serves_while_docker_is_stopped() -> None:
    decision = go(Phase.SERVE, look(*BOTH, engine=HEALTHY))
    assert decision.reason == "serving"


def test_systemd_that_does_not_answer_is_unknown_not_dead() -> None:
    decision = go(Phase.SERVE, look(BOTH[0], host("spark2", units=UNREAD), engine=HEALTHY))
    assert decision.reason == "node-unknown"
    assert "systemctl did not answer" in decision.sentence


def test_a_rank_that_ended_takes_its_group_along_through_its_own_runtime() -> None:
    one = ended(1, 0, runtime="process")
    decision = go(Phase.SERVE, look(BOTH[0], host("spark2", one), engine=HEALTHY))
    assert decision.state.failure is not None
    assert (decision.state.failure.signature, decision.state.failure.rank) == ("exit-0", 1)
    torn = go(Phase.BACKOFF, look(BOTH[0], host("spark2", one)), captured=1, retry_at=NOW + 5).actions[0]
    assert isinstance(torn, StopRanks)
    assert [(one.rank, one.runtime) for one in torn.targets] == [(0, "process")]
    gone = go(Phase.BACKOFF, look(host("spark2", one)), captured=1, retry_at=NOW + 5).actions[0]
    assert isinstance(gone, RemoveRanks)
    assert [(one.rank, one.runtime) for one in gone.targets] == [(1, "process")]


# --------------------------------------------------------------------------------------------------- what a start needs


LACKING = [
    ({"paths": {**PATHS, COMMAND: "missing"}}, f"path:spark2:{COMMAND}", f"{COMMAND}, the command, does not exist on"),
    ({"paths": {**PATHS, FOLDER: "missing"}}, f"path:spark2:{FOLDER}", f"{FOLDER}, the working folder, does not exist"),
    ({"paths": {**PATHS, MODEL: "missing"}}, f"path:spark2:{MODEL}", f"{MODEL}, the model, does not exist on spark2"),
    ({"paths": {**PATHS, COMMAND: "no-interpreter"}}, f"path:spark2:{COMMAND}", "the interpreter that its first line"),
    ({"users": {USER: None}}, f"user:spark2:{USER}", f"user {USER}, who runs the ranks, does not exist on spark2"),
]


@pytest.mark.parametrize(("facts", "fact", "text"), LACKING)
def test_what_is_missing_is_held_and_heals_itself(facts: dict[str, Any], fact: str, text: str) -> None:
    decision = go(Phase.PRECHECK, look(host("spark2", **facts)))
    hold = decision.state.hold
    assert hold is not None
    assert (hold.fact, hold.cls, hold.heals_itself) == (fact, FailureClass.PERMANENT, True)
    assert text in hold.text
    held = replace(decision.state, since=NOW - 60)
    assert decide(held, look(host("spark2", **facts)), deployment=UNITS).state.phase is Phase.HELD
    assert decide(held, look(), deployment=UNITS).reason == "healed"


def test_right_after_a_boot_a_missing_path_is_not_yet_there() -> None:
    facts = {**{one: getattr(host("spark2"), one) for one in ("docker", "containers", "users", "in_use")}, "images": {}}
    late = young("spark2", **facts, paths={**PATHS, MODEL: "missing"})
    decision = go(Phase.PRECHECK, look(late))
    assert (decision.state.phase, decision.reason) == (Phase.PRECHECK, "not-yet-path")


@pytest.mark.parametrize("facts", [{"users": UNREAD}, {"users": {}}, {"paths": UNREAD}, {"paths": {}}])
def test_what_was_not_asked_is_waited_for(facts: dict[str, Any]) -> None:
    decision = go(Phase.PRECHECK, look(host("spark2", **facts)))
    assert (decision.state.phase, decision.reason) == (Phase.PRECHECK, "precheck")
    assert go(Phase.PRECHECK, look()).state.phase is Phase.CLEANUP


@pytest.mark.parametrize(
    ("code", "signature", "fact"),
    [
        (FailureCode.PATH_MISSING, "path-missing", "path:spark2:path-missing"),
        (FailureCode.USER_MISSING, "user-missing", "user:spark2:user-missing"),
        (FailureCode.NOT_EXECUTABLE, "exit-203", "exit:spark2:not-executable"),
        (FailureCode.LIMITS, "exit-205", "exit:spark2:limits"),
    ],
)
def test_a_refusal_of_the_node_is_held_at_once(code: FailureCode, signature: str, fact: str) -> None:
    action = StartRanks((1,), 1)
    outcome = failed(action, code, error="user milo cannot enter its working folder /srv/work")
    decision = go(Phase.START_WORKERS, look(outcome=outcome))
    assert decision.state.failure is not None
    assert decision.state.hold is not None
    assert (decision.state.failure.signature, decision.state.hold.fact) == (signature, fact)
    assert "cannot enter its working folder /srv/work" in decision.sentence


def test_a_unit_that_is_not_ours_is_named_with_the_command_that_takes_it_away() -> None:
    stranger = rank(1, owner="")
    decision = go(Phase.CLEANUP, look(host("spark2", stranger)))
    assert decision.state.hold is not None
    assert "a unit named sparkd-demo-1 on spark2 is not ours" in decision.state.hold.text
    assert decision.state.hold.fix == "remove or rename it: systemctl stop sparkd-demo-1"
