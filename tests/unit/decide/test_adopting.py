"""After sparkd's own start: look before acting, and what serves goes on serving."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sparkd.model.action import CaptureEvidence, StartRanks
from sparkd.model.config import ContainerSpec, Mount
from sparkd.model.decision import Cause, FailureClass, Hold, Phase, State, Watch

from .world import (
    BOOTS,
    DEPLOYMENT,
    NOW,
    OWNER,
    STOPPED,
    UP,
    away,
    both,
    container,
    decide,
    ended,
    kinds,
    node,
    seen,
    serving,
    state,
    young,
)


def adopting(before: Phase | None, **more: Any) -> State:
    return state(Phase.ADOPTING, before=before, **more)


def test_adopting_waits_for_unread_nodes() -> None:
    decision = decide(adopting(Phase.SERVE), seen(node("spark1", container(0)), away("spark2")))
    assert (decision.state.phase, decision.reason, decision.actions) == (Phase.ADOPTING, "node-unknown", ())


def test_what_serves_serves_on() -> None:
    decision = decide(adopting(Phase.SERVE, serving_since=NOW - 400, watch=Watch(tokens=3.0, dead_since=1.0)), both())
    after = decision.state
    assert (after.phase, after.since, after.before, after.ranks_started) == (Phase.SERVE, NOW - 400, None, (0, 1))
    assert after.watch == Watch(tokens=3.0, gap_until=NOW), "clocks stood still while nobody looked"
    assert kinds(decide(after, both())) == [], "tokens moved meanwhile"
    idle = replace(after, watch=Watch(tokens=20.0))
    assert kinds(decide(idle, both())) == ["SendCanary"], "nothing moved: ask once"


def test_adopted_without_a_known_start_it_serves_since_now() -> None:
    after = decide(adopting(Phase.SERVE, boots=(), cause=None), both()).state
    assert (after.since, after.cause, after.boots) == (NOW, Cause.ADOPT, BOOTS)


@pytest.mark.parametrize("before", [Phase.START_WORKERS, Phase.START_HEAD, Phase.WARMUP, None])
def test_what_starts_goes_on_starting(before: Phase | None) -> None:
    after = decide(adopting(before), both()).state
    assert (after.phase, after.started_at, after.watch) == (Phase.START_HEAD, NOW - 600, Watch())


@pytest.mark.parametrize("before", [Phase.BACKOFF, Phase.HELD, Phase.CLEANUP, Phase.PRECHECK])
def test_what_was_being_taken_down_still_goes(before: Phase) -> None:
    decision = decide(adopting(before, cause=Cause.CRASH), both())
    assert (decision.state.phase, decision.state.before, decision.reason) == (before, None, "adopted")


def test_half_a_start_goes_on() -> None:
    after = decide(adopting(Phase.START_WORKERS), seen(node("spark2", container(1)))).state
    assert (after.phase, after.ranks_started) == (Phase.START_WORKERS, (1,))


def test_a_start_cut_before_anything_was_created_costs_nothing() -> None:
    before = adopting(Phase.START_WORKERS, cause=Cause.CRASH, starts=(NOW - 5000, NOW - 600))
    after = decide(before, seen()).state
    assert (after.phase, after.cause, after.starts) == (Phase.PRECHECK, Cause.CRASH, (NOW - 5000,))


def test_a_worker_that_ended_while_nobody_looked_is_a_failure() -> None:
    after = decide(adopting(Phase.START_HEAD), seen(node("spark2", ended(1)))).state
    assert after.phase is Phase.START_HEAD
    decision = decide(after, seen(node("spark2", ended(1))))
    assert (decision.state.phase, decision.reason) == (Phase.BACKOFF, "failed")


def test_a_worker_that_vanished_while_the_head_was_starting_is_not_forgotten() -> None:
    look = seen(node("spark1", container(0)))
    after = decide(adopting(Phase.START_HEAD), look).state
    decision = decide(after, look)
    assert decision.state.failure is not None
    assert decision.state.failure.signature == "rank-removed"


@pytest.mark.parametrize("before", [Phase.SERVE, Phase.WARMUP])
@pytest.mark.parametrize("ranks", [(), (ended(0, 0),)], ids=["removed", "ended"])
def test_f02_a_group_that_died_while_nobody_looked(before: Phase, ranks: tuple[Any, ...]) -> None:
    decision = decide(adopting(before), seen(node("spark1", *ranks)))
    assert (decision.state.phase, decision.state.before, decision.state.cause) == (Phase.BACKOFF, None, Cause.CRASH)


def test_f05_a_group_that_died_with_its_nodes_starts_anew() -> None:
    look = seen(young("spark1", ended(0)), young("spark2", ended(1)))
    decision = decide(adopting(Phase.SERVE), look)
    assert (decision.state.phase, decision.state.cause, decision.state.failures) == (Phase.PRECHECK, Cause.BOOT, 0)
    assert decision.sentence == "spark1 and spark2 rebooted; starting the group anew"


def test_with_nothing_known_and_nothing_there_it_starts() -> None:
    decision = decide(State(), seen())
    assert (decision.state.phase, decision.state.cause, decision.reason) == (Phase.PRECHECK, Cause.BOOT, "start")


def test_with_nothing_known_half_a_group_is_a_failure() -> None:
    decision = decide(State(), seen(node("spark1", container(0, 7)), node("spark2", ended(1, 1, 7))))
    assert (decision.state.phase, decision.state.generation) == (Phase.BACKOFF, 7)


@pytest.mark.parametrize(
    "before",
    [
        State(),
        adopting(Phase.HELD, hold=Hold(FailureClass.HARDWARE, "x", "", "", False), retry_at=NOW),
        adopting(Phase.SERVE),
    ],
    ids=["no journal", "older hold", "older service"],
)
def test_labels_newer_than_the_journal_are_believed(before: State) -> None:
    """The disk was full: generation 7 was begun and never written (faults F42)."""
    look = seen(node("spark1", container(0, 7)), node("spark2", container(1, 7)))
    after = decide(before, look, replace(UP, restart=4, release=4)).state
    assert (after.phase, after.generation, after.cause) == (Phase.START_HEAD, 7, Cause.ADOPT)
    assert (after.hold, after.retry_at, after.boots, after.started_at) == (None, None, BOOTS, NOW)
    assert (after.restart_done, after.release_done) == (4, 4), "what was asked was asked of an earlier sparkd"


def test_a_generation_is_never_numbered_twice_after_a_lost_journal() -> None:
    gone = decide(State(), seen(node("spark1", ended(0, 0, 7))), STOPPED).state
    assert gone.highest == 7
    asked = decide(replace(gone, captured=7), seen(), UP).state
    cleaned = replace(asked, phase=Phase.CLEANUP, cleaned=8)
    decision = decide(cleaned, seen())
    assert decision.state.generation == 8
    following = decide(decision.state, seen())
    assert following.actions == (StartRanks((1,), 8),)


def test_containers_of_others_are_left_alone() -> None:
    look = seen(node("spark1", container(0, 9, owner="somebody")), node("spark2", container(1, owner="")))
    decision = decide(state(Phase.STOPPED), look, STOPPED)
    assert (decision.reason, decision.actions, decision.state.highest) == ("stopped", (), 1)


def test_a_rank_on_a_node_that_the_file_no_longer_names_goes_too() -> None:
    edited = replace(
        DEPLOYMENT, nodes=("spark1", "spark3"), container=ContainerSpec(mounts=(Mount(source="/m", target="/m"),))
    )
    views = {"spark1": node("spark1"), "spark3": node("spark3"), "spark2": node("spark2", container(1))}
    decision = decide(state(Phase.STOPPED, captured=0), replace(seen(), nodes=views), STOPPED, deployment=edited)
    (action,) = decision.actions
    assert isinstance(action, CaptureEvidence)
    assert [one.node for one in action.targets] == ["spark2"]
    unread = decide(
        state(Phase.STOPPED), replace(seen(), nodes=views | {"spark2": away("spark2")}), STOPPED, deployment=edited
    )
    assert unread.reason == "node-unknown", "a rank of the running generation may be there"


def test_a_node_that_was_not_looked_at_is_unknown() -> None:
    decision = decide(serving(), replace(seen(), nodes={"spark1": node("spark1", container(0))}))
    assert decision.reason == "node-unknown"
    assert OWNER not in decision.sentence
