"""Stopped, backoff and held."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sparkd.model.config import Backoff, Budget, Policy
from sparkd.model.decision import Cause, Failure, FailureClass, Hold, Phase, Planned, State
from sparkd.model.snapshot import NodeView, Unknown

from .world import (
    DEPLOYMENT,
    NOW,
    STOPPED,
    away,
    both,
    container,
    decide,
    kinds,
    listening,
    node,
    seen,
    state,
)

# ------------------------------------------------------------------------------------------------------------- stopped


def test_stopped_says_who_and_why() -> None:
    assert decide(state(Phase.STOPPED), seen(), STOPPED).sentence == "stopped by milo: nightly"


def test_a_lost_node_is_named_and_not_waited_for() -> None:
    lost = replace(STOPPED, by="", message="", lost=frozenset({"spark2"}))
    decision = decide(state(Phase.STOPPED), seen(away("spark2")), lost)
    assert (decision.reason, decision.actions) == ("stopped", ())
    assert decision.sentence == "stopped; spark2 declared lost, what runs there is stale"


@pytest.mark.parametrize(
    ("rank0", "doing"), [((container(0),), "stopping: spark2"), ((), "stopped: spark2")], ids=["runs", "nothing there"]
)
def test_a_stop_waits_for_an_unread_node(rank0: tuple[Any, ...], doing: str) -> None:
    decision = decide(state(Phase.STOPPED), seen(node("spark1", *rank0), away("spark2")), STOPPED)
    assert (decision.reason, decision.actions) == ("node-unknown", ())
    assert decision.sentence.startswith(f"{doing} is unknown (unreachable)")


def test_the_stale_rank_of_a_node_that_is_back_goes() -> None:
    look = seen(node("spark2", container(1, generation=1)))
    assert kinds(decide(state(Phase.STOPPED), look, replace(STOPPED, lost=frozenset({"spark2"})))) == ["StopRanks"]


# ------------------------------------------------------------------------------------------------------------- backoff

FAILURE = Failure(1, FailureClass.TRANSIENT, "exit-0", "rank 0 on spark1 ended", NOW - 5, 0.0)


def test_backoff_takes_the_group_down_first() -> None:
    decision = decide(state(Phase.BACKOFF, retry_at=NOW + 5, captured=0, failure=FAILURE), both())
    assert kinds(decision) == ["CaptureEvidence"]
    assert decision.next is not None
    assert decision.next.at == NOW + 5


@pytest.mark.parametrize(
    ("failure", "words"),
    [
        (FAILURE, "rank 0 on spark1 ended; restarting the group in 12 s"),
        (replace(FAILURE, generation=0), "not yet; restarting the group in 12 s"),
        (None, "not yet; restarting the group in 12 s"),
    ],
    ids=["of this generation", "an older one", "none"],
)
def test_backoff_waits(failure: Failure | None, words: str) -> None:
    decision = decide(state(Phase.BACKOFF, retry_at=NOW + 12, failure=failure), seen())
    assert (decision.reason, decision.sentence, decision.state.phase) == ("backoff", words, Phase.BACKOFF)


@pytest.mark.parametrize("retry_at", [NOW, None])
def test_backoff_ends(retry_at: float | None) -> None:
    after = decide(state(Phase.BACKOFF, retry_at=retry_at, cause=Cause.CRASH), seen()).state
    assert (after.phase, after.cause, after.retry_at) == (Phase.PRECHECK, Cause.CRASH, None)


# ---------------------------------------------------------------------------------------------------------------- held


def held(fact: str, **more: Any) -> State:
    known: dict[str, Any] = {"hold": Hold(FailureClass.PERMANENT, fact, "it is missing", "put it there", True)}
    return state(Phase.HELD, **known | more)


NO_IMAGE, NO_MOUNT = {"images": {"vllm:1": None}}, {"paths": {"/models": "missing"}}
UNREAD = Unknown("no answer", NOW)
FOREIGN = container(1, owner="somebody")
HEALING: list[tuple[str, NodeView, bool]] = [
    ("image:spark2:vllm:1", node("spark2", **NO_IMAGE), False),
    ("image:spark2:vllm:1", node("spark2", images={}), False),
    ("image:spark2:vllm:1", node("spark2", images=UNREAD), False),
    ("image:spark2:vllm:1", node("spark2", **NO_MOUNT), True),
    ("image:spark2:vllm:1", node("spark1", **NO_IMAGE), True),
    ("mount:spark2:/models", node("spark2", **NO_MOUNT), False),
    ("mount:spark2:/models", node("spark2", paths=UNREAD), False),
    ("mount:spark2:/models", node("spark2"), True),
    ("port:spark1:8000", node("spark1", sockets=(listening(8000),)), False),
    ("port:spark1:8000", node("spark1", sockets=UNREAD), False),
    ("port:spark1:8000", node("spark1", sockets=(listening(22),)), True),
    ("name:spark2:sparkd-demo-1", node("spark2", FOREIGN), False),
    ("name:spark2:sparkd-demo-1", node("spark2"), True),
    ("gone:spark2", node("spark2"), True),
    ("exit:127", node("spark2"), False),
    ("budget:12", node("spark2"), False),
    ("budget", node("spark2"), True),  # of an older version, for an hour that has long passed
    ("gpu:spark2:gpu", node("spark2"), False),
]


@pytest.mark.parametrize(("fact", "view", "heals"), HEALING)
def test_a_hold_goes_when_its_fact_passes(fact: str, view: NodeView, heals: bool) -> None:
    decision = decide(held(fact, resource_tries=3), seen(view))
    if heals:
        assert (decision.state.phase, decision.reason, decision.state.hold) == (Phase.PRECHECK, "healed", None)
        assert decision.state.resource_tries == 0
        assert decision.events[0][0] == "healed"
    else:
        assert (decision.state.phase, decision.reason) == (Phase.HELD, f"held-{fact.partition(':')[0]}")
        assert decision.next is not None


def test_a_hold_is_looked_at_again_only_after_a_while() -> None:
    """Docker refuses a mount that is there: without the wait a group would be started every few seconds."""
    fresh = held("mount:spark2:/models", since=NOW - 29)
    decision = decide(fresh, seen())
    assert decision.state.phase is Phase.HELD
    assert decision.next is not None
    assert decision.next.at == NOW + 1
    assert decide(fresh, seen(), now=NOW + 1).state.phase is Phase.PRECHECK


def test_an_edited_file_heals_a_wrong_command_only() -> None:
    edited = replace(DEPLOYMENT, digest="d2", image="vllm:2")
    assert decide(held("exit:127"), seen(), deployment=edited).state.phase is Phase.PRECHECK
    missing = seen(node("spark1", images={"vllm:2": None}), node("spark2", images={"vllm:2": None}))
    assert decide(held("image:spark1:vllm:2"), missing, deployment=edited).state.phase is Phase.HELD


def test_a_hold_of_an_older_version_for_the_day_stays() -> None:
    spent = tuple(NOW - 7000 * number for number in range(12))
    assert decide(held("budget", starts=spent), seen()).reason == "held-budget"


def test_what_is_planned_never_lies_in_the_past() -> None:
    """While the group is taken down the pause may end, and with a node unread nobody knows when."""
    over = state(Phase.BACKOFF, retry_at=NOW - 5)
    assert decide(over, both()).next is None
    assert decide(replace(over, retry_at=NOW + 60), both()).next == Planned(NOW + 60, "group restart")
    assert decide(replace(over, retry_at=NOW + 60), seen(node("spark1"), away("spark2"))).next is None


def test_a_hold_within_a_pause_does_not_shorten_it() -> None:
    """Docker hung for five minutes of fifteen, and the next start came ten minutes early."""
    exact = Policy(backoff=Backoff(jitter=0.0))
    failure = Failure(1, FailureClass.TRANSIENT, "exit-137", "killed", NOW - 300, 0.0)
    stuck = held("gone:spark2", since=NOW - 40, failures=8, failure=failure)
    healed = decide(stuck, seen(), policy=exact)
    assert (healed.state.phase, healed.state.retry_at) == (Phase.BACKOFF, NOW + 600)
    assert (
        decide(replace(stuck, failure=replace(failure, generation=0)), seen(), policy=exact).state.phase
        is Phase.PRECHECK
    )


def test_a_reload_that_lowers_the_daily_budget_counts_at_once() -> None:
    waiting = state(Phase.BACKOFF, retry_at=NOW + 600, cause=Cause.CRASH, starts=(NOW - 9000, NOW - 5000))
    assert decide(waiting, seen()).reason == "backoff"
    assert decide(waiting, seen(), policy=Policy(budget=Budget(per_day=2))).reason == "held-budget"


def test_a_hold_of_a_person_plans_nothing() -> None:
    used_up = Hold(FailureClass.TRANSIENT, "budget:12", "used up", "release it", False)
    decision = decide(state(Phase.HELD, hold=used_up), seen())
    assert (decision.sentence, decision.next) == ("held: used up", None)


def test_a_hold_without_a_reason_is_none() -> None:
    assert decide(state(Phase.HELD), seen()).state.phase is Phase.PRECHECK


def test_a_hold_takes_down_what_runs() -> None:
    assert kinds(decide(held("exit:127"), both())) == ["StopRanks"]
