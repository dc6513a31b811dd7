"""Taking a group down: evidence, head, workers, containers, leftovers, each verified by the next look."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sparkd.model.action import CaptureEvidence, KillProcesses, ProcessTarget, RemoveRanks, StopRanks, Target
from sparkd.model.decision import Failure, FailureClass, Phase
from sparkd.model.snapshot import EngineMetrics, EngineView, NodeView, Outcome, Snapshot, Unknown

from .world import (
    DEPLOYMENT,
    NOW,
    STOPPED,
    UP,
    away,
    both,
    container,
    decide,
    ended,
    failed,
    kinds,
    node,
    process,
    seen,
    state,
)

RANK0, RANK1 = Target("spark1", "sparkd-demo-0-g1", 0, 1), Target("spark2", "sparkd-demo-1-g1", 1, 1)
FRESH = state(Phase.CLEANUP, captured=0)
LEFT = (process("-", 900), process("-", 901, state="Z"))
KILLED = KillProcesses((ProcessTarget("spark2", "spark2-boot1", 10, 900, 9000, "VLLM::Worker"),))
WORKER_ONLY, ENDED = seen(node("spark2", container(1))), seen(node("spark1", ended(0)), node("spark2", ended(1)))
STEPS: list[tuple[int, Snapshot, Any]] = [
    (0, both(), CaptureEvidence(1, (RANK0, RANK1), "stop")),
    (1, both(), StopRanks((RANK0,), 30.0)),
    (1, WORKER_ONLY, StopRanks((RANK1,), 30.0)),
    (1, ENDED, RemoveRanks((RANK0, RANK1))),
    (1, seen(node("spark2", container(1, state="created"))), RemoveRanks((RANK1,))),
    (1, seen(node("spark2", container(1, state="paused"))), StopRanks((RANK1,), 30.0)),
    (1, seen(node("spark2", leftovers={"demo": LEFT})), KILLED),
]


@pytest.mark.parametrize(("captured", "look", "action"), STEPS)
def test_one_step_at_a_time(captured: int, look: Snapshot, action: Any) -> None:
    decision = decide(replace(FRESH, captured=captured), look)
    assert (decision.actions, decision.state.phase, decision.reason) == ((action,), Phase.CLEANUP, "teardown")


BROKE = Failure(1, FailureClass.TRANSIENT, "exit-0", "ended", NOW, 0.0)
GRACES: list[tuple[dict[str, Any], Failure | None, Snapshot, float]] = [
    ({}, None, both(), 30),
    ({"shutdown-timeout": 90}, None, both(), 120),
    ({"shutdown-timeout": 90}, None, WORKER_ONLY, 30),
    ({"shutdown-timeout": "soon"}, None, both(), 30),
    ({"shutdown-timeout": -5}, None, both(), 30),
    ({"shutdown-timeout": True}, None, both(), 30),
    ({"shutdown-timeout": 90}, BROKE, both(), 3),
    ({}, BROKE, WORKER_ONLY, 3),
    ({}, replace(BROKE, generation=0), WORKER_ONLY, 30),
]


@pytest.mark.parametrize(("args", "failure", "look", "grace_s"), GRACES)
def test_a_head_drains_and_what_failed_is_not_waited_for(
    args: dict[str, Any], failure: Failure | None, look: Snapshot, grace_s: float
) -> None:
    deployment = replace(DEPLOYMENT, args={**DEPLOYMENT.args, **args})
    (action,) = decide(replace(FRESH, captured=1, failure=failure), look, deployment=deployment).actions
    assert isinstance(action, StopRanks)
    assert action.grace_s == grace_s


@pytest.mark.parametrize(
    ("waiting", "said"),
    [(3.0, " with 4 requests in flight"), (0.0, " with 1 request in flight"), (-1.0, "")],
)
def test_who_is_cut_off_is_counted_and_told(waiting: float, said: str) -> None:
    look = both(EngineView(200, EngineMetrics(1.0, waiting, 10.0, 20.0)))
    asked = decide(state(Phase.SERVE, captured=1), look, replace(UP, restart=1))
    assert asked.events == (("restart-asked", f"restart asked{said}"),)
    assert decide(replace(FRESH, captured=1), look).sentence == f"cleaning up: stopping the head{said} on spark1"
    gone = seen(node("spark1", container(0)), engine=look.engines["demo"])
    failure = decide(state(Phase.SERVE, ranks_started=(0, 1)), gone).state.failure
    assert failure is not None
    assert failure.evidence == ((f"the group went down{said}",) if said else ())


def test_processes_of_a_listed_container_go_with_it() -> None:
    inside = (process(container(1), 902),)
    foreign = container(0, owner="somebody")
    look = seen(
        node("spark1", foreign, leftovers={"demo": (process(foreign),)}), node("spark2", leftovers={"demo": inside})
    )
    assert decide(FRESH, look).actions == (
        KillProcesses((ProcessTarget("spark2", "spark2-boot1", 10, 902, 9020, "VLLM::Worker"),)),
    )
    listed = seen(node("spark2", ended(1), leftovers={"demo": inside}))
    assert kinds(decide(replace(FRESH, captured=1), listed)) == ["RemoveRanks"]


@pytest.mark.parametrize(
    ("generation", "reason"), [(1, "exit-0"), (0, "stop")], ids=["it failed", "an older one failed"]
)
def test_the_evidence_says_of_what_it_is(generation: int, reason: str) -> None:
    failure = Failure(generation, FailureClass.TRANSIENT, "exit-0", "ended", NOW, 0.0)
    (action,) = decide(replace(FRESH, failure=failure), both()).actions
    assert isinstance(action, CaptureEvidence)
    assert action.reason == reason


def test_evidence_is_taken_once_even_if_it_fails() -> None:
    capture = CaptureEvidence(1, (RANK0, RANK1), "stop")
    decision = decide(FRESH, both(outcome=failed(capture)))
    assert (decision.state.captured, kinds(decision)) == (1, ["StopRanks"])


def test_a_label_of_somebody_else_hides_no_evidence() -> None:
    """Its generation is 50; ours is still captured as ours."""
    look = seen(node("spark1", container(0)), node("spark2", container(1, 50, owner="somebody")))
    (action,) = decide(FRESH, look).actions
    assert isinstance(action, CaptureEvidence)
    assert (action.generation, action.targets) == (1, (RANK0,))


def test_workers_of_three_nodes_stop_together() -> None:
    three = replace(DEPLOYMENT, nodes=("spark1", "spark2", "spark3"))
    views = {"spark1": node("spark1"), "spark2": node("spark2", container(1)), "spark3": node("spark3", container(2))}
    decision = decide(state(Phase.CLEANUP), replace(seen(), nodes=views), deployment=three)
    assert decision.sentence == "cleaning up: stopping the workers on spark2 and spark3"


@pytest.mark.parametrize("view", [node("spark2", leftovers={}), node("spark2", leftovers=Unknown("no answer", NOW))])
def test_gone_is_verified_or_waited_for(view: NodeView) -> None:
    decision = decide(FRESH, seen(view))
    assert (decision.reason, decision.actions) == ("teardown", ())
    assert decision.sentence.startswith("cleaning up: looking for leftover processes on spark2")


def test_a_lost_node_is_not_asked_and_nothing_on_it_is_touched() -> None:
    lost = replace(STOPPED, lost=frozenset({"spark2"}))
    docker_mute = node("spark2", containers=Unknown("mute", NOW), leftovers={"demo": LEFT})
    for view in (away("spark2"), docker_mute):
        decision = decide(state(Phase.STOPPED), seen(node("spark1", container(0)), view), lost)
        assert decision.actions == (StopRanks((RANK0,), 30.0),)
        gone = decide(state(Phase.STOPPED), seen(view), lost)
        assert (gone.reason, gone.actions) == ("stopped", ())


def test_containers_that_a_half_read_node_shows_are_no_targets() -> None:
    half = node("spark2", container(1), boot=Unknown("no answer", NOW))
    lost = replace(STOPPED, lost=frozenset({"spark2"}))
    assert decide(state(Phase.STOPPED), seen(half), lost).actions == ()
    assert decide(state(Phase.STOPPED), seen(half), STOPPED).reason == "node-unknown"


@pytest.mark.parametrize("error", ["it did not work", ""])
def test_trouble_is_said_and_tried_again(error: str) -> None:
    stop = StopRanks((RANK1,), 30.0)
    decision = decide(
        state(Phase.CLEANUP), replace(WORKER_ONLY, outcomes={"demo": failed(stop, error=error)}), now=NOW - 400
    )
    assert decision.actions == (stop,)
    assert decision.sentence.endswith(f"(the last try failed: {error or 'timeout'})")


def test_other_outcomes_are_no_trouble() -> None:
    for outcome in (Outcome(StopRanks((RANK1,), 30.0), True, NOW), failed(CaptureEvidence(1, (), "stop"))):
        decision = decide(state(Phase.CLEANUP), replace(WORKER_ONLY, outcomes={"demo": outcome}))
        assert decision.sentence == "cleaning up: stopping the worker on spark2"


@pytest.mark.parametrize("phase", [Phase.CLEANUP, Phase.BACKOFF])
def test_f07_what_cannot_be_stopped_is_held_and_still_tried(phase: Phase) -> None:
    """A process in state D: stop and kill hang (moby/moby#22802)."""
    stuck = replace(WORKER_ONLY, outcomes={"demo": failed(StopRanks((RANK1,), 30.0))})
    decision = decide(state(phase, retry_at=NOW), stuck)
    hold = decision.state.hold
    assert hold is not None
    assert (decision.state.phase, hold.cls, hold.fact) == (Phase.HELD, FailureClass.HARDWARE, "gone:spark2")
    assert hold.heals_itself
    assert kinds(decide(decision.state, WORKER_ONLY)) == ["StopRanks"]
    nameless = replace(stuck, outcomes={"demo": failed(StopRanks((RANK1,), 30.0), where="")})
    assert decide(state(phase), nameless).sentence == "held: what runs cannot be stopped: it did not work"


def test_a_stop_by_hand_is_never_held() -> None:
    stuck = replace(WORKER_ONLY, outcomes={"demo": failed(StopRanks((RANK1,), 30.0))})
    assert decide(state(Phase.STOPPED), stuck, STOPPED).state.phase is Phase.STOPPED


def test_nothing_of_a_group_is_stopped_while_a_node_is_unread() -> None:
    for phase in (Phase.CLEANUP, Phase.BACKOFF, Phase.HELD):
        look = seen(node("spark1", container(0)), away("spark2"))
        decision = decide(state(phase, captured=0), look, UP)
        assert (decision.reason, decision.actions) == ("node-unknown", ())
