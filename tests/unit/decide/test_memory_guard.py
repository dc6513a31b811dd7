"""The guard of a node's memory: when it is reached, what is told, what is stopped and in which order, when it goes on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sparkd.decide.memory_guard import going, turns
from sparkd.model.action import CaptureEvidence, RemoveRanks, StopRanks
from sparkd.model.config import Deployment
from sparkd.model.decision import Decision, FailureClass, Phase, State
from sparkd.model.machine import Memory
from sparkd.model.memory_trail import Guard, MemoryTrail
from sparkd.model.snapshot import Snapshot, Unknown

from .memory_world import GIB, STOP, WARN, named, pool, trail, with_trail
from .world import AWAY, LOADING, NOW, WORKERS, away, both, container, decide, ended, node, seen, serving, state

RUNS_OUT = trail(3.0, 2.0, 0.9)
STARTING = state(Phase.START_HEAD, ranks_started=(0, 1), memory_before=(("spark2", 100 * GIB),))


def starting(found: MemoryTrail) -> Snapshot:
    return with_trail(found, both(LOADING))


def told(decision: Decision) -> list[str]:
    return [kind for kind, _ in decision.events]


# ---------------------------------------------------------------------------------------------- when it is reached

JUST = 1.0 - 1 / 1024
LEAVES_ALONE: dict[str, MemoryTrail] = {
    "exactly at the threshold": trail(3.0, 2.0, 1.0),
    "above it and falling": trail(30.0, 2.0, 1.5),
    "below it and still": trail(0.5, 0.5, 0.5),
    "below it and rising": trail(0.5, 0.6, 0.7),
    "below it, falling by less than what is idle moves": trail(0.5, 0.499, 0.498),
    "it fell before, and rises now": trail(3.0, 0.4, 0.5),
    "one look": trail(0.5),
    "no look": MemoryTrail(),
    "the last look could not read it": trail(3.0, 0.9, None),
    "only the last look could read it": trail(None, None, 0.4),
    "the look before is from before a gap": trail(3.0, 0.4, every_s=31.0),
    "page cache alone falls": trail(pool(2.0, cache=1.5), pool(2.0, cache=1.0), pool(2.0, cache=0.5)),
    "page cache alone falls, below it": trail(pool(0.8, cache=0.7), pool(0.8, cache=0.4), pool(0.8, cache=0.1)),
}
REACHES: dict[str, MemoryTrail] = {
    "just below it": trail(3.0, JUST),
    "falling": RUNS_OUT,
    "with a look that could not read it in between": trail(3.0, None, 0.9),
    "slowly": trail(0.5, 0.497, 0.494, 0.491, 0.488, 0.484),
    "by the loop's own looks": trail(3.0, 0.9, every_s=5.0),
}


@pytest.mark.parametrize("found", LEAVES_ALONE.values(), ids=LEAVES_ALONE)
@pytest.mark.parametrize("before", [STARTING, serving()], ids=["start", "serve"])
def test_f26_what_is_no_fall_below_the_guard_ends_and_says_nothing(before: State, found: MemoryTrail) -> None:
    snapshot = starting(found) if before is STARTING else with_trail(found)
    decision = decide(before, snapshot, deployment=STOP)
    assert decision.state.phase is before.phase
    assert decision.state.memory == ()
    assert not [kind for kind in told(decision) if kind.startswith("memory")]


@pytest.mark.parametrize("found", REACHES.values(), ids=REACHES)
@pytest.mark.parametrize("before", [STARTING, serving()], ids=["start", "serve"])
def test_f26_a_fall_below_the_guard_stops_the_group_where_that_is_wanted(before: State, found: MemoryTrail) -> None:
    snapshot = starting(found) if before is STARTING else with_trail(found)
    decision = decide(before, snapshot, deployment=STOP)
    failure = decision.state.failure
    assert (decision.state.phase, decision.reason) == (Phase.BACKOFF, "failed")
    assert failure is not None
    assert (failure.cls, failure.signature) == (FailureClass.RESOURCE, "memory-guard")
    assert "spark2 runs out of memory" in failure.text
    assert "the group is stopped before spark2 locks up" in failure.text
    assert told(decision) == ["failed"], "told once: as its failure"


@pytest.mark.parametrize("before", [STARTING, serving(), state(Phase.WARMUP)], ids=["start", "serve", "warmup"])
def test_f26_it_is_only_said_where_nothing_else_is_wanted(before: State) -> None:
    snapshot = with_trail(RUNS_OUT) if before.phase is Phase.SERVE else starting(RUNS_OUT)
    decision = decide(before, snapshot)
    assert decision.state.phase is before.phase
    assert told(decision) == ["memory-low"]
    assert decision.events[0][1] == (
        "spark2 runs out of memory: 922 MiB available, down by 2.1 GiB in 2 s; what takes it is not known"
    )


def test_a_start_of_the_workers_and_a_warm_up_are_stopped_too() -> None:
    one = with_trail(RUNS_OUT, seen(node("spark1"), node("spark2", container(1))))
    assert decide(WORKERS, one, deployment=STOP).state.phase is Phase.BACKOFF
    assert decide(state(Phase.WARMUP), with_trail(RUNS_OUT), deployment=STOP).state.phase is Phase.BACKOFF


def test_memory_that_is_unknown_ends_nothing() -> None:
    """Neither where the node is read and its memory is not, nor where another node of the group is away (rule 1)."""
    unread = with_trail(trail(3.0, 0.9, None), both(LOADING, memory=Unknown("no answer", NOW)))
    assert decide(STARTING, unread, deployment=STOP).state.phase is Phase.START_HEAD
    blind = with_trail(RUNS_OUT, seen(away("spark1", AWAY), node("spark2", container(1))))
    for before in (STARTING, serving()):
        decision = decide(before, blind, deployment=STOP)
        assert decision.state.phase is before.phase
        assert told(decision) == ["memory-low"], "said all the same"


def test_a_rank_that_is_gone_says_more_than_memory() -> None:
    found = seen(node("spark1", container(0)), node("spark2", ended(1, oom_killed=True)), engine=LOADING)
    failure = decide(STARTING, with_trail(RUNS_OUT, found), deployment=STOP).state.failure
    assert failure is not None
    assert failure.signature == "oom-killed"


# ------------------------------------------------------------------------------------------------------- the settings

SETTINGS: list[tuple[dict[str, object], Guard, bool]] = [
    ({}, Guard(), False),
    ({}, Guard(act="stop"), True),
    ({"guard": {"act": "warn"}}, Guard(act="stop"), False),
    ({"guard": {"act": "stop"}}, Guard(), True),
    ({"guard": {"below": "512MiB"}}, Guard(act="stop"), False),
    ({"guard": {"below": "0"}}, Guard(act="stop"), False),
    ({"guard": {"below": 0}}, Guard(act="stop"), False),
    ({}, Guard(act="stop", below="512MiB"), False),
    ({"guard": {"below": "2GiB"}}, Guard(act="stop", below="512MiB"), True),
    ({"gate": "off"}, Guard(act="stop"), True),
]


@pytest.mark.parametrize(("own", "default", "stops"), SETTINGS)
def test_the_deployments_guard_lies_over_that_of_the_cluster(
    own: dict[str, object], default: Guard, stops: bool
) -> None:
    snapshot = replace(starting(RUNS_OUT), guard=default)
    decision = decide(STARTING, snapshot, deployment=replace(STOP, memory=own))
    assert (decision.state.phase is Phase.BACKOFF) is stops


def test_a_guard_that_is_changed_counts_at_once_for_what_runs() -> None:
    """Also where the file says something else about its ranks by now."""
    before = replace(STARTING, started=STOP)
    file = replace(WARN, image="vllm:2", digest="d2")
    assert decide(before, starting(RUNS_OUT), deployment=file).state.phase is Phase.START_HEAD


# ------------------------------------------------------------------------------------------------------------ episodes


def after(decision: Decision, found: MemoryTrail, deployment: Deployment = WARN) -> Decision:
    return decide(replace(decision.state, failures=0), with_trail(found), deployment=deployment)


def test_an_episode_is_told_once_and_ends_when_the_memory_is_back() -> None:
    first = decide(serving(), with_trail(RUNS_OUT))
    again = after(first, trail(2.0, 0.9, 0.5))
    assert (told(again), again.state.memory) == ([], first.state.memory)
    for still in (trail(0.5, 0.5), trail(0.5, 1.1), trail(0.5, None), MemoryTrail()):
        assert after(first, still).state.memory == first.state.memory
    over = after(first, trail(0.5, 1.25))
    assert over.events == (("memory-back", "spark2 has memory again: 1.2 GiB available"),)
    assert over.state.memory == ()
    assert told(after(over, RUNS_OUT)) == ["memory-low"], "another one"


def test_an_episode_outlives_the_group() -> None:
    """With the group taken down the node has its memory back: that ends it, and not the stop."""
    stopped = decide(serving(), with_trail(RUNS_OUT), deployment=STOP)
    assert [(one.kind, one.node, one.acted) for one in stopped.state.memory] == [("low", "spark2", True)]
    down = decide(stopped.state, with_trail(trail(0.9, 0.8)), deployment=STOP)
    assert down.state.memory == stopped.state.memory
    back = decide(stopped.state, with_trail(trail(0.9, 100.0)), deployment=STOP)
    assert "memory-back" in told(back)


# ------------------------------------------------------------------------------------------------------ the way down


def test_the_group_goes_at_once_head_first_and_its_evidence_is_taken_from_what_was_stopped() -> None:
    at = decide(serving(captured=0), with_trail(RUNS_OUT), deployment=STOP).state
    both_run, head_gone = both(), seen(node("spark1", ended(0)), node("spark2", container(1)))
    all_gone = seen(node("spark1", ended(0)), node("spark2", ended(1)))
    (first,), (second,), (third,) = (
        decide(at, look, deployment=STOP).actions for look in (both_run, head_gone, all_gone)
    )
    assert isinstance(first, StopRanks)
    assert ([one.node for one in first.targets], first.grace_s) == (["spark1"], 3.0)
    assert isinstance(second, StopRanks)
    assert [one.node for one in second.targets] == ["spark2"]
    assert isinstance(third, CaptureEvidence)
    assert third.reason == "memory-guard"
    (last,) = decide(replace(at, captured=1), all_gone, deployment=STOP).actions
    assert isinstance(last, RemoveRanks)


def test_any_other_failure_saves_its_evidence_first() -> None:
    lost = decide(serving(captured=0), seen(node("spark1", container(0)), node("spark2", ended(1)))).state
    (first,) = decide(lost, both()).actions
    assert isinstance(first, CaptureEvidence)
    (second,) = decide(replace(lost, captured=1), both()).actions
    assert isinstance(second, StopRanks)


# ------------------------------------------------------------------------------------------- what follows, and the hold


def test_it_is_tried_again_as_often_as_for_memory_and_then_held() -> None:
    at, pauses = STARTING, []
    for _ in range(3):
        decision = decide(at, starting(RUNS_OUT), deployment=STOP)
        assert decision.state.retry_at is not None
        pauses.append(decision.state.retry_at - NOW)
        at = replace(STARTING, resource_tries=decision.state.resource_tries)
    assert pauses == [30.0, 60.0, 120.0]
    hold = decide(at, starting(RUNS_OUT), deployment=STOP).state.hold
    assert hold is not None
    assert (hold.cls, hold.heals_itself) == (FailureClass.RESOURCE, True)
    assert hold.fact == f"memory-guard:spark2:{100 * GIB + GIB - int(0.9 * GIB)}", "what it had, and what it lacked"
    assert "lower gpu-memory-utilization" in hold.fix


HELD = replace(decide(replace(STARTING, resource_tries=3), starting(RUNS_OUT), deployment=STOP).state, captured=1)
AS_BEFORE, MORE = pool(100.0), pool(100.2)
HEALS: list[tuple[Memory | Unknown, Deployment, bool]] = [
    (AS_BEFORE, STOP, False),
    (MORE, STOP, True),
    (Unknown("no answer", NOW), STOP, False),
    (AS_BEFORE, WARN, True),
    (AS_BEFORE, replace(STOP, digest="d2"), True),
    (AS_BEFORE, replace(STOP, nodes=("spark1", "spark3")), True),
]


@pytest.mark.parametrize(("memory", "file", "heals"), HEALS)
def test_the_hold_heals_when_the_node_has_more_or_less_is_asked_of_it(
    memory: Memory | Unknown, file: Deployment, heals: bool
) -> None:
    """The gate alone would let the same start run out of memory over and over."""
    look = seen(node("spark2", memory=memory), node("spark3"))
    decision = decide(HELD, look, now=NOW + 30, deployment=file)
    assert (decision.state.phase is Phase.PRECHECK) is heals


def test_of_a_state_that_knows_no_figure_the_guard_itself_is_what_it_waits_for() -> None:
    """Written by a sparkd that did not remember what a node had before a start."""
    old = replace(STARTING, resource_tries=3, memory_before=())
    hold = decide(old, starting(RUNS_OUT), deployment=STOP).state.hold
    assert hold is not None
    assert hold.fact == f"memory-guard:spark2:{GIB}"


def test_what_a_node_had_before_a_start_is_remembered() -> None:
    before = state(Phase.CLEANUP, cleaned=2)
    look = seen(node("spark1", memory=pool(110.0)), node("spark2", memory=pool(112.0)))
    began = decide(before, look)
    assert began.reason == "begin"
    assert dict(began.state.memory_before) == {"spark1": 110 * GIB, "spark2": 112 * GIB}


# ------------------------------------------------------------------------------------------------------- who goes first

STATES = {
    "a": serving(),
    "b": serving(),
    "c": state(Phase.START_HEAD),
    "d": state(Phase.HELD),
    "e": state(Phase.PAUSED),
}


def test_what_starts_goes_before_what_serves_and_who_is_only_warned_never() -> None:
    here = [named(one) for one in "abcde"]
    assert turns(here, STATES, Guard()) == ("c", "a", "b")
    assert turns([named(one, "warn") for one in "abc"], STATES, Guard(act="stop")) == ()


def test_one_goes_at_a_time() -> None:
    failed = decide(serving(), with_trail(RUNS_OUT), deployment=STOP).state
    here = [named("a"), named("b")]
    assert going(here, {"a": failed, "b": serving()}, NOW + 14) == "a"
    assert going(here, {"a": failed, "b": serving()}, NOW + 15) == ""
    assert going(here, {"a": serving(), "b": serving()}, NOW) == ""


TURNS: list[tuple[MemoryTrail, bool]] = [
    (replace(RUNS_OUT, turns=("demo", "other")), True),
    (replace(RUNS_OUT, turns=("other", "demo")), False),
    (replace(RUNS_OUT, turns=("demo",), going="other"), False),
]


@pytest.mark.parametrize(("found", "goes"), TURNS)
def test_another_one_that_has_its_turn_spares_this_one(found: MemoryTrail, goes: bool) -> None:
    assert (decide(serving(), with_trail(found), deployment=STOP).state.phase is Phase.BACKOFF) is goes


def test_the_evidence_has_the_figures_one_look_after_the_other() -> None:
    failure = decide(STARTING, starting(RUNS_OUT), deployment=STOP).state.failure
    assert failure is not None
    assert failure.evidence == ("spark2: 3.0 GiB, 2.0 GiB, 922 MiB available, one look after the other",)
