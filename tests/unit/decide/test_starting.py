"""Prechecks, cleanup and the number of a new generation."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sparkd.model.action import CleanNodes
from sparkd.model.config import Budget, Policy
from sparkd.model.decision import Cause, FailureClass, Phase, Planned, State, Watch
from sparkd.model.snapshot import NodeView, Snapshot, Unknown

from .world import (
    BOOTS,
    DEPLOYMENT,
    NOW,
    UP,
    away,
    both,
    container,
    decide,
    failed,
    kinds,
    listening,
    node,
    seen,
    state,
    young,
)

UNREAD = Unknown("no answer", NOW)
PRECHECK, CLEANUP = state(Phase.PRECHECK), state(Phase.CLEANUP)
BOTH_PHASES = pytest.mark.parametrize("before", [PRECHECK, CLEANUP], ids=["precheck", "cleanup"])

# ------------------------------------------------------------------------------------------------------------ precheck


@BOTH_PHASES
def test_a_start_waits_for_a_lost_node(before: State) -> None:
    decision = decide(before, seen(away("spark2")), replace(UP, lost=frozenset({"spark2"})))
    assert (decision.reason, decision.sentence) == ("node-lost", "waiting for spark2, declared lost")
    assert decision.actions == ()


@BOTH_PHASES
def test_a_start_waits_for_an_unread_node(before: State) -> None:
    decision = decide(before, seen(away("spark2")))
    assert (decision.state.phase, decision.reason, decision.actions) == (before.phase, "node-unknown", ())


@BOTH_PHASES
def test_a_start_waits_for_a_node_that_is_going_down(before: State) -> None:
    decision = decide(before, seen(node("spark2", system="stopping")))
    assert (decision.state.phase, decision.reason, decision.actions) == (before.phase, "node-stopping", ())


NO_IMAGE: dict[str, Any] = {"images": {"vllm:1": None}}
NO_MOUNT: dict[str, Any] = {"paths": {"/models": "missing"}}
SOURCES: list[tuple[NodeView, str, str]] = [
    (node("spark2", **NO_IMAGE), "held-image", "image:spark2:vllm:1"),
    (node("spark2", **NO_MOUNT), "held-mount", "mount:spark2:/models"),
    (young("spark2", **NO_IMAGE), "not-yet-image", ""),
    (young("spark2", **NO_MOUNT), "not-yet-mount", ""),
    (node("spark2", images={}), "precheck", ""),
    (node("spark2", paths={}), "precheck", ""),
    (node("spark2", images=UNREAD), "precheck", ""),
    (node("spark2", paths=UNREAD), "precheck", ""),
]


@pytest.mark.parametrize(("view", "reason", "fact"), SOURCES)
def test_what_a_start_needs_is_looked_at_first(view: NodeView, reason: str, fact: str) -> None:
    decision = decide(PRECHECK, seen(view))
    assert (decision.reason, decision.actions) == (reason, ())
    assert (decision.state.hold.fact if decision.state.hold else "") == fact
    if decision.state.hold is not None:
        assert (decision.state.phase, decision.state.hold.heals_itself) == (Phase.HELD, True)
        assert decision.events == (("held", decision.sentence),)


def test_what_is_missing_for_good_is_not_hidden_by_what_is_not_there_yet() -> None:
    assert decide(PRECHECK, seen(young("spark1", **NO_MOUNT), node("spark2", **NO_IMAGE))).reason == "held-image"


def test_the_sentence_says_why_nothing_was_looked_up() -> None:
    said = decide(PRECHECK, seen(node("spark2", images=UNREAD))).sentence
    assert said == "looking for the image and the mounts on spark2 (no answer)"


def test_without_image_and_mounts_nothing_is_looked_up() -> None:
    plain = replace(DEPLOYMENT, image=None, container=replace(DEPLOYMENT.container, mounts=()))
    look = seen(*(node(name, images=UNREAD, paths=UNREAD) for name in DEPLOYMENT.nodes))
    assert decide(PRECHECK, look, deployment=plain).reason == "cleanup"


BUDGETS: list[tuple[Cause | None, tuple[float, ...], Budget, str]] = [
    (Cause.CRASH, (NOW - 3599, NOW - 9), Budget(starts=2, per=3600), "budget-pause"),
    (Cause.BOOT, (NOW - 3599, NOW - 9), Budget(starts=2, per=3600), "budget-pause"),
    (Cause.WEDGE, (NOW - 3600, NOW - 9), Budget(starts=2, per=3600), "cleanup"),
    (Cause.CRASH, (NOW - 86399, NOW - 9000), Budget(starts=2, per=3600, per_day=2), "held-budget"),
    (Cause.CRASH, (NOW - 86400, NOW - 9000), Budget(starts=2, per=3600, per_day=2), "cleanup"),
    (Cause.OPERATOR, (NOW - 9, NOW - 8), Budget(starts=2, per=3600), "cleanup"),
    (Cause.ADOPT, (NOW - 9, NOW - 8), Budget(starts=2, per=3600), "budget-pause"),
    (None, (NOW - 9, NOW - 8), Budget(starts=2, per=3600), "budget-pause"),
    (Cause.CRASH, (), Budget(starts=0), "held-budget"),
    (Cause.CRASH, (NOW - 9,), Budget(starts=1, per_day=1), "held-budget"),
]


@pytest.mark.parametrize(("cause", "starts", "budget", "reason"), BUDGETS)
def test_automatic_starts_have_a_budget(
    cause: Cause | None, starts: tuple[float, ...], budget: Budget, reason: str
) -> None:
    decision = decide(replace(PRECHECK, cause=cause, starts=starts), seen(), policy=Policy(budget=budget))
    assert decision.reason == reason
    if reason == "held-budget":
        hold = decision.state.hold
        assert hold is not None
        assert (hold.cls, hold.heals_itself) == (FailureClass.TRANSIENT, False)


def test_a_full_hour_is_a_pause_until_the_window_has_room() -> None:
    policy = Policy(budget=Budget(starts=2, per=3600))
    waiting = decide(
        replace(PRECHECK, cause=Cause.CRASH, starts=(NOW - 3000, NOW - 900, NOW - 60)), seen(), policy=policy
    )
    assert waiting.state.phase is Phase.BACKOFF
    assert [kind for kind, _ in waiting.events] == ["budget-pause"]
    assert waiting.next == Planned(NOW + 2700, "group restart"), "two of three have to leave it"
    later = decide(waiting.state, seen(), policy=policy, now=NOW + 2699)
    assert (later.reason, later.events, later.next) == ("budget-pause", (), waiting.next)
    assert "the limit is 2; restarting the group in 1 s" in later.sentence
    assert decide(later.state, seen(), policy=policy, now=NOW + 2700).reason == "retry"


def test_a_window_may_be_longer_than_a_day() -> None:
    week = Policy(budget=Budget(starts=2, per=7 * 86400.0))
    starts = (NOW - 6 * 86400, NOW - 5 * 86400)
    assert decide(replace(PRECHECK, cause=Cause.CRASH, starts=starts), seen(), policy=week).reason == "budget-pause"
    ready = state(Phase.CLEANUP, cleaned=2, cause=Cause.CRASH, starts=(NOW - 8 * 86400, NOW - 6 * 86400))
    assert decide(ready, seen(), policy=week).state.starts == (NOW - 6 * 86400, NOW), "what may count is kept"


def test_a_start_that_was_cut_short_asks_the_budget_again() -> None:
    ready = state(Phase.CLEANUP, cleaned=2, cause=Cause.CRASH, starts=(NOW - 60, NOW - 5))
    assert decide(ready, seen(), policy=Policy(budget=Budget(starts=2))).reason == "budget-pause"


def test_a_reload_that_raises_a_budget_ends_its_pause_and_its_hold() -> None:
    spent = replace(PRECHECK, cause=Cause.CRASH, starts=(NOW - 3000, NOW - 900))
    small, day = Policy(budget=Budget(starts=2)), Policy(budget=Budget(per_day=2))
    paused, held = decide(spent, seen(), policy=small).state, decide(spent, seen(), policy=day).state
    assert decide(paused, seen(), policy=Policy(budget=Budget(starts=3))).reason == "retry"
    assert held.hold is not None
    assert decide(held, seen(), policy=day, now=NOW + 90000).reason == "held-budget", "time alone does not end it"
    assert decide(held, seen(), policy=Policy(budget=Budget(per_day=1)), now=NOW + 9).reason == "held-budget"
    assert decide(held, seen(), policy=Policy(budget=Budget(per_day=3))).reason == "healed"
    none = decide(spent, seen(), policy=Policy(budget=Budget(starts=0))).state
    assert decide(none, seen(), policy=Policy()).reason == "healed"


# ------------------------------------------------------------------------------------------------------------- cleanup


def test_cleanup_tears_down_first() -> None:
    assert kinds(decide(CLEANUP, both())) == ["StopRanks"]


def test_a_name_of_somebody_else_holds() -> None:
    decision = decide(CLEANUP, seen(node("spark2", container(1, owner="somebody"))))
    assert (decision.reason, decision.actions) == ("held-name", ())
    assert decision.state.hold is not None
    assert decision.state.hold.fix == "remove or rename it: docker rm sparkd-demo-1"


@pytest.mark.parametrize("port", [8000, 29501])
def test_a_port_gets_a_moment_and_then_holds(port: int) -> None:
    look = seen(node("spark1", sockets=(listening(port, pid=None),)))
    first = decide(CLEANUP, look)
    assert (first.reason, first.state.since) == ("port-wait", NOW), "however long the teardown took"
    assert decide(first.state, look, now=NOW + 14).reason == "port-wait"
    decision = decide(first.state, look, now=NOW + 15)
    assert decision.reason == "held-port"
    assert decision.state.hold is not None
    assert (decision.state.hold.fact, decision.state.hold.cls) == (f"port:spark1:{port}", FailureClass.RESOURCE)


def test_a_port_that_cannot_be_read_is_not_taken() -> None:
    before = replace(CLEANUP, reason="port-unknown")
    decision = decide(before, seen(node("spark1", sockets=UNREAD)), now=NOW + 900)
    assert (decision.state.phase, decision.reason, decision.actions) == (Phase.CLEANUP, "port-unknown", ())


def test_nodes_are_cleaned_right_before_the_start() -> None:
    fresh = decide(replace(PRECHECK, cleaned=2), seen()).state
    assert (fresh.phase, fresh.cleaned) == (Phase.CLEANUP, 0), "an older cleaning does not count"
    decision = decide(fresh, seen())
    assert decision.actions == (CleanNodes(("spark1", "spark2"), 2, drop_caches=True),)


def test_a_cleaning_that_failed_does_not_stop_the_start() -> None:
    """The engine's own memory check decides."""
    clean = CleanNodes(("spark1", "spark2"), 2, drop_caches=True)
    assert decide(CLEANUP, seen(outcome=failed(clean))).reason == "begin"


def begun(before: State, look: Snapshot | None = None) -> State:
    decision = decide(replace(before, cleaned=max(before.generation, before.highest) + 1), look or seen())
    assert decision.reason == "begin"
    return decision.state


def test_a_generation_is_numbered_before_anything_starts() -> None:
    before = replace(CLEANUP, cause=Cause.CRASH, starts=(NOW - 90000, NOW - 100), watch=Watch(canary_failures=3))
    after = begun(before)
    assert (after.phase, after.generation, after.started_at, after.ranks_started) == (Phase.START_WORKERS, 2, NOW, ())
    assert (after.starts, after.boots, after.watch, after.digest) == ((NOW - 100, NOW), BOOTS, Watch(), "d1")


@pytest.mark.parametrize(("cause", "starts"), [(Cause.OPERATOR, ()), (Cause.BOOT, (NOW,)), (None, (NOW,))])
def test_a_start_by_hand_costs_nothing(cause: Cause | None, starts: tuple[float, ...]) -> None:
    after = begun(replace(CLEANUP, cause=cause))
    assert (after.starts, after.cause) == (starts, cause or Cause.BOOT)


def test_the_number_is_above_every_label_ever_seen() -> None:
    assert begun(replace(CLEANUP, generation=2, highest=9)).generation == 10


def test_the_events_say_what_was_verified() -> None:
    decision = decide(replace(CLEANUP, cleaned=2), seen())
    gone = (
        "verified on spark1 and spark2: no container and no process of an earlier generation, ports 8000 and 29501 free"
    )
    assert decision.events == (("gone", gone), ("starting", "starting generation 2 (operator)"))


def test_one_node_has_no_workers() -> None:
    alone = replace(DEPLOYMENT, nodes=("spark1",))
    decision = decide(replace(CLEANUP, cleaned=2), seen(), deployment=alone)
    assert decision.state.phase is Phase.START_HEAD
    assert "ports 8000 free" in decision.events[0][1]
