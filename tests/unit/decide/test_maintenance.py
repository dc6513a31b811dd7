"""Planned work on a node: drained, stopped in order, held, and gone on with; a person's wish that outlives everything."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sparkd.decide.standing import woken
from sparkd.decide.upkeep import over
from sparkd.model.decision import Cause, FailureClass, Hold, Phase, State
from sparkd.model.machine import Boot
from sparkd.model.snapshot import EngineView, NodeView, Snapshot
from sparkd.model.upkeep import Maintenance, Upkeep
from sparkd.verbs import verbs

from .world import (
    BUSY,
    DEPLOYMENT,
    HEALTHY,
    NOW,
    PAUSED,
    STOPPED,
    UP,
    away,
    both,
    container,
    decide,
    down,
    ended,
    kinds,
    node,
    seen,
    serving,
    state,
)

WORK = Maintenance(NOW - 1, NOW + 3600, 1.7e9, "spark2-boot1:10", "milo", "new firmware")


def at_work(look: Snapshot, work: Maintenance | None = WORK, where: str = "spark2") -> Snapshot:
    return replace(look, upkeep={where: Upkeep(maintenance=work)})


def test_what_serves_is_drained_first_and_for_a_bounded_time() -> None:
    now = decide(serving(), at_work(both(BUSY)))
    assert (now.state.phase, now.reason, now.actions) == (Phase.SERVE, "draining", ())
    assert now.sentence == (
        "draining for the maintenance of spark2: 5 requests in flight, stopping in 59 s at the latest"
    )
    done = decide(now.state, at_work(both(HEALTHY)), now=NOW + 5)
    assert (done.state.phase, done.reason) == (Phase.HELD, "maintenance")
    stuck = decide(now.state, at_work(both(BUSY)), now=NOW + 60)
    assert stuck.state.phase is Phase.HELD, "an engine may count a request that nobody waits for"


NOT_DRAINED: list[tuple[State, Snapshot]] = [
    (serving(replace(serving().watch, canary_failures=2, canary_failing_since=NOW - 60)), both(BUSY)),
    (state(Phase.WARMUP), both(BUSY)),
    (state(Phase.BACKOFF, retry_at=NOW + 60), seen()),
    (state(Phase.HELD, hold=Hold(FailureClass.TRANSIENT, "budget:12", "used up", "", False)), seen()),
]


@pytest.mark.parametrize(("before", "look"), NOT_DRAINED, ids=lambda one: getattr(one, "phase", ""))
def test_what_does_not_answer_is_held_at_once(before: State, look: Snapshot) -> None:
    decision = decide(before, at_work(look))
    assert decision.state.hold == Hold(
        FailureClass.OPERATOR,
        "maintenance:spark2",
        "spark2 is under maintenance by milo: new firmware",
        "sparkd ctl maintenance spark2 --end",
        heals_itself=True,
    )
    assert (decision.state.phase, decision.reason) == (Phase.HELD, "maintenance")
    assert [kind for kind, _ in decision.events] == ["maintenance"]


def test_metrics_that_cannot_be_read_are_no_empty_queue() -> None:
    unread = EngineView(health=200, metrics=None)
    assert decide(serving(), at_work(both(unread))).reason == "draining"


HELD = decide(serving(captured=0), at_work(both())).state


def test_it_is_stopped_in_order_on_all_of_its_nodes_then_held_at_no_cost() -> None:
    looks = [
        (both(), ["CaptureEvidence"]),
        (both(), ["StopRanks"]),
        (seen(node("spark1", ended(0, 0)), node("spark2", container(1))), ["StopRanks"]),
        (seen(node("spark1", ended(0, 0)), node("spark2", ended(1, 137))), ["RemoveRanks"]),
        (seen(), []),
    ]
    at = HELD
    for number, (look, expected) in enumerate(looks):
        decision = decide(at, at_work(look), now=NOW + number)
        at = replace(decision.state, captured=1)
        assert kinds(decision) == expected
        assert decision.next is not None
        assert decision.next.at == WORK.until
    assert (at.phase, at.cause, at.failures, at.starts, at.started) == (Phase.HELD, Cause.OPERATOR, 0, (), None)


GONE = replace(HELD, captured=1, started=None)


def test_a_node_that_is_off_for_it_is_as_expected() -> None:
    decision = decide(GONE, at_work(seen(away("spark2"))), now=NOW + 60)
    assert (decision.state.phase, decision.reason, decision.actions) == (Phase.HELD, "maintenance", ())
    assert decision.sentence.endswith("it cannot be asked, as is to be expected")


def test_a_node_that_goes_before_its_ranks_are_seen_gone_is_unknown() -> None:
    before = replace(HELD, started=DEPLOYMENT)
    decision = decide(before, at_work(seen(node("spark1", container(0)), away("spark2"))), now=NOW + 60)
    assert (decision.state.phase, decision.reason, decision.actions) == (Phase.HELD, "node-unknown", ())


def test_it_goes_on_by_itself_and_costs_nothing_of_the_budget() -> None:
    decision = decide(GONE, at_work(seen(), None), now=NOW + 900)
    assert (decision.state.phase, decision.reason, decision.state.hold) == (Phase.PRECHECK, "healed", None)
    assert decision.state.cause is Cause.OPERATOR
    assert decision.events == (("healed", "the maintenance of spark2 is over; going on"),)


def test_its_outage_is_one_that_was_asked_for() -> None:
    outage = HELD.outage
    assert outage is not None
    assert (outage.asked, outage.code, outage.text) == (
        True,
        "operator",
        "spark2 is under maintenance by milo: new firmware",
    )
    earlier = decide(state(Phase.BACKOFF, retry_at=NOW + 9, outage=down(NOW - 50)), at_work(seen())).state.outage
    assert earlier is not None
    assert earlier.code == "exit-137", "what had failed before keeps its cause"


LEFT_ALONE: list[tuple[State, Any]] = [
    (state(Phase.PAUSED, before=Phase.SERVE), PAUSED),
    (state(Phase.STOPPED), STOPPED),
    (serving(), PAUSED),
]


@pytest.mark.parametrize(("before", "intent"), LEFT_ALONE)
def test_what_is_paused_or_stopped_stays_so(before: State, intent: Any) -> None:
    decision = decide(before, at_work(both()), intent)
    assert decision.state.phase in (Phase.PAUSED, Phase.STOPPED)
    assert decision.actions == () or decision.state.phase is Phase.STOPPED


def test_a_stop_during_it_stays_a_stop_and_a_start_waits_for_its_end() -> None:
    stopped = decide(GONE, at_work(seen()), STOPPED)
    assert stopped.state.phase is Phase.STOPPED
    asked = decide(state(Phase.STOPPED), at_work(seen()), UP).state
    assert asked.phase is Phase.PRECHECK
    assert decide(asked, at_work(seen()), UP).state.hold is not None


def test_a_restart_or_a_release_during_it_is_refused_with_the_way_out() -> None:
    for verb in ("restart", "release"):
        assert verbs()[verb].conflict(UP, GONE) == (
            "spark2 is under maintenance, and it goes on by itself after that",
            "sparkd ctl maintenance spark2 --end",
        )
    assert verbs()["stop"].conflict(UP, GONE) is None


def test_another_node_concerns_nobody_here() -> None:
    assert decide(serving(), at_work(both(), where="spark3")).state.phase is Phase.SERVE


def test_the_node_of_the_next_start_counts_as_well() -> None:
    """Its file names other nodes by now."""
    running = replace(DEPLOYMENT, digest="d0", nodes=("spark1", "spark3"))
    before = serving(started=running)
    assert decide(before, at_work(both())).state.hold is not None


@pytest.mark.parametrize("look", [seen(), seen(away("spark2"))], ids=["node is there", "node is off"])
def test_it_survives_a_restart_of_sparkd(look: Snapshot) -> None:
    at = woken(GONE, NOW + 10)
    for seconds in (10, 15):
        decision = decide(at, at_work(look), now=NOW + seconds)
        at = decision.state
        assert decision.actions == ()
    assert (at.phase, at.reason) == (Phase.HELD, "maintenance")


def test_a_sparkd_restarted_while_it_drained_looks_first() -> None:
    at = decide(woken(serving(), NOW), at_work(both())).state
    assert at.phase is Phase.SERVE
    assert decide(at, at_work(both()), now=NOW + 5).state.phase is Phase.HELD


# ----------------------------------------------------------------------------------------------------- when it is over

SAME, ANEW = Boot("spark2-boot1", 10, 86400.0), Boot("spark2-boot2", 10, 40.0)
UNREAD = replace(WORK, boot="")


def box(boot: Boot, system: str = "running") -> NodeView:
    return node("spark2", boot=boot, system=system)


OVER: list[tuple[Maintenance, NodeView | None, float, str]] = [
    (WORK, box(SAME), NOW + 60, ""),
    (WORK, away("spark2"), NOW + 60, ""),
    (WORK, None, NOW + 60, ""),
    (WORK, box(SAME), NOW + 3600, "its time is over"),
    (WORK, away("spark2"), NOW + 3600, "its time is over"),
    (WORK, box(SAME, "stopping"), NOW + 60, ""),
    (WORK, box(ANEW, "starting"), NOW + 60, ""),
    (WORK, box(ANEW), NOW + 60, "it has booted"),
    (WORK, box(ANEW, "degraded"), NOW + 60, "it has booted"),
    (WORK, box(ANEW, "unknown"), NOW + 60, "it has booted"),
    # A job of systemd that hangs keeps it `starting` for ever.
    (WORK, box(replace(ANEW, uptime_s=700.0), "starting"), NOW + 800, "it has booted"),
    # It could not be read when the work was planned: what counts is when it booted.
    (UNREAD, box(SAME), NOW + 60, ""),
    (UNREAD, box(ANEW), NOW + 60, "it has booted"),
]


@pytest.mark.parametrize(("work", "view", "now", "why"), OVER)
def test_when_it_is_over(work: Maintenance, view: NodeView | None, now: float, why: str) -> None:
    assert over(work, view, 600.0, now) == why


# ------------------------------------------------------------------------------------------- a reboot ordered by hand

LEAVING = node("spark2", ended(1, 143), system="stopping")


@pytest.mark.parametrize("phase", [Phase.SERVE, Phase.START_HEAD, Phase.WARMUP])
def test_a_reboot_by_hand_is_no_failure_and_costs_nothing(phase: Phase) -> None:
    before = serving() if phase is Phase.SERVE else state(phase, ranks_started=(0, 1))
    took = decide(before, seen(node("spark1", container(0)), LEAVING, engine=HEALTHY))
    assert (took.state.phase, took.reason, took.actions) == (phase, "node-stopping", ())
    gone = decide(took.state, seen(node("spark1", ended(0, 0)), away("spark2")), now=NOW + 20)
    assert (gone.state.phase, gone.reason) == (phase, "node-unknown")
    back = node("spark2", boot=Boot("spark2-boot2", 10, 30.0))
    anew = decide(gone.state, seen(node("spark1", ended(0, 0)), back), now=NOW + 90)
    assert (anew.state.phase, anew.reason, anew.state.failures) == (Phase.PRECHECK, "rebooted", 0)
    assert [kind for kind, _ in anew.events] == ["rebooted"]


@pytest.mark.parametrize("phase", [Phase.PRECHECK, Phase.CLEANUP])
def test_nothing_is_started_on_a_node_that_shuts_down(phase: Phase) -> None:
    decision = decide(state(phase), seen(node("spark2", system="stopping")))
    assert (decision.state.phase, decision.reason, decision.actions) == (phase, "node-stopping", ())
