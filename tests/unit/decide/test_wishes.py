"""What people want comes before everything else, is done once, and is never undone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sparkd.model.decision import Cause, Failure, FailureClass, Hold, Intent, Phase, State
from sparkd.model.snapshot import Snapshot
from sparkd.verbs import Verb, changed, verbs

from .world import NOW, PAUSED, STOPPED, UP, away, began, both, container, decide, down, node, seen, serving, state

BUDGET = Hold(FailureClass.TRANSIENT, "budget", "used up", "release it", False)
ACTIVE = [phase for phase in Phase if phase not in (Phase.STOPPED, Phase.PAUSED)]


@pytest.mark.parametrize("phase", ACTIVE)
def test_stop_ends_every_phase(phase: Phase) -> None:
    before = state(phase, before=Phase.SERVE, hold=BUDGET, retry_at=NOW, failures=3, outage=down(NOW - 9))
    decision = decide(before, both(), replace(STOPPED, restart=4, release=2))
    after = decision.state
    assert (after.phase, decision.reason, decision.actions) == (Phase.STOPPED, "stopping", ())
    assert decision.events == (("stopping", "stop asked"),)
    assert (after.hold, after.retry_at, after.failures, after.outage, after.before) == (None, None, 0, None, None)
    assert (after.restart_done, after.release_done) == (4, 2)


@pytest.mark.parametrize(
    "before", [State(), state(Phase.ADOPTING, before=Phase.STOPPED)], ids=["new file", "was stopped"]
)
def test_a_new_sparkd_does_not_report_an_old_stop_again(before: State) -> None:
    decision = decide(before, seen(), STOPPED)
    assert (decision.state.phase, decision.events) == (Phase.STOPPED, ())


def test_a_stop_ends_the_outage_and_keeps_the_failure() -> None:
    """The next person to ask why was not there when it failed."""
    open_failure = Failure(1, FailureClass.TRANSIENT, "exit-0", "ended", NOW - 900, 0.0)
    failed = state(Phase.BACKOFF, failure=open_failure, outage=down(NOW - 1000, starts=2))
    stopped = decide(failed, seen(), STOPPED).state
    assert stopped.failure == replace(open_failure, outage_s=1000.0)
    assert stopped.last_outage == replace(down(NOW - 1000, starts=2), ended=NOW, ended_wall=1.7e9, answered=None)
    told = replace(open_failure, outage_s=7.0)
    assert decide(state(Phase.SERVE, failure=told), seen(), STOPPED).state.failure == told


def test_start_begins_anew() -> None:
    old = Failure(1, FailureClass.TRANSIENT, "exit-0", "ended", NOW - 900, 0.0)
    decision = decide(state(Phase.STOPPED, failure=old, failures=2), seen(), replace(UP, restart=3, release=5))
    after = decision.state
    assert (after.phase, after.cause, after.failure, after.failures) == (Phase.PRECHECK, Cause.OPERATOR, old, 0)
    assert (after.restart_done, after.release_done) == (3, 5)
    assert decision.events == (("start-asked", "start asked"),)


def test_f32_a_restart_asked_before_a_stop_stays_undone() -> None:
    decision = decide(state(Phase.STOPPED), seen(), replace(STOPPED, restart=1))
    assert (decision.state.phase, decision.reason) == (Phase.STOPPED, "stopped")


RESTARTED = [
    (serving(), NOW),
    (serving(outage=down(NOW - 50)), NOW - 50),
    (state(Phase.START_HEAD), None),
    (state(Phase.WARMUP, outage=down(NOW - 50)), NOW - 50),
    (state(Phase.BACKOFF, outage=down(NOW - 50), retry_at=NOW + 99), NOW - 50),
    (state(Phase.HELD, hold=BUDGET, starts=(NOW - 5,)), None),
]


@pytest.mark.parametrize(("before", "since"), RESTARTED, ids=lambda one: getattr(one, "phase", ""))
def test_restart_is_free_at_once_and_once(before: State, since: float | None) -> None:
    asked = replace(UP, restart=1, by="milo")
    decision = decide(before, both(), asked)
    after = decision.state
    assert (after.phase, after.cause, after.hold, after.retry_at) == (Phase.PRECHECK, Cause.OPERATOR, None, None)
    assert began(decision) == since, "an outage that goes on began earlier; a start that never served is none"
    assert decision.events == (("restart-asked", "restart asked"),)
    assert decide(after, both(), asked).reason != "restart"


@pytest.mark.parametrize("phase", [Phase.ADOPTING, Phase.PAUSED])
def test_restart_and_release_wait_until_sparkd_knows_what_runs(phase: Phase) -> None:
    asked = Intent(wanted="up", paused=phase is Phase.PAUSED, restart=1, release=1)
    before = state(phase, before=Phase.HELD, hold=BUDGET)
    after = decide(before, seen(away("spark2")), asked).state
    assert (after.restart_done, after.release_done, after.hold) == (0, 0, BUDGET)


@pytest.mark.parametrize("phase", [Phase.HELD, Phase.BACKOFF])
def test_release_starts_at_once_with_a_new_budget(phase: Phase) -> None:
    before = state(phase, hold=BUDGET, starts=(NOW - 9, NOW - 8), failures=5, resource_tries=3, retry_at=NOW + 500)
    decision = decide(before, seen(), replace(UP, release=1))
    after = decision.state
    assert (after.phase, decision.reason) == (Phase.PRECHECK, "released")
    assert (after.hold, after.starts, after.failures, after.resource_tries) == (None, (), 0, 0)
    assert (after.cause, after.release_done) == (Cause.OPERATOR, 1)


def test_a_release_of_what_serves_does_not_free_the_next_failure() -> None:
    after = decide(serving(), both(), replace(UP, release=7)).state
    assert (after.phase, after.release_done) == (Phase.SERVE, 7)


@pytest.mark.parametrize("phase", [one for one in Phase if one is not Phase.PAUSED])
def test_pause_remembers_what_it_interrupts_and_acts_on_nothing(phase: Phase) -> None:
    decision = decide(state(phase, before=Phase.SERVE), both(), PAUSED)
    expected = Phase.SERVE if phase is Phase.ADOPTING else phase
    assert (decision.state.phase, decision.state.before, decision.actions) == (Phase.PAUSED, expected, ())
    again = decide(decision.state, both(), replace(PAUSED, wanted="stopped", restart=3, release=3))
    assert (again.state.phase, again.actions, again.reason) == (Phase.PAUSED, (), "paused")


def test_paused_says_what_it_sees() -> None:
    look = seen(node("spark1", container(0)), away("spark2"))
    decision = decide(state(Phase.PAUSED), look, replace(PAUSED, by="milo"))
    assert decision.sentence == "paused by milo: observing only; 1 of 2 ranks run, spark2 unknown"


def test_resume_looks_first() -> None:
    decision = decide(state(Phase.PAUSED, before=Phase.SERVE), both(), UP)
    assert (decision.state.phase, decision.state.before, decision.reason) == (Phase.ADOPTING, Phase.SERVE, "resumed")
    assert decision.events == (("resumed", "resumed"),)


# --------------------------------------------------------------------------------------------------- a wish that is lost


@pytest.mark.parametrize("phase", [None, *(phase for phase in Phase if phase is not Phase.PAUSED)])
@pytest.mark.parametrize("seen_now", [seen(), both()], ids=["nothing runs", "all runs"])
def test_what_nobody_knows_to_be_wanted_is_neither_started_nor_stopped(phase: Phase | None, seen_now: Snapshot) -> None:
    """Rule 8: a guess would start what a person stopped, or stop what answers."""
    lost = replace(UP, unread=True)
    now = state(Phase.ADOPTING, before=phase)
    for _ in range(3):
        decision = decide(now, seen_now, lost)
        now = decision.state
        assert (now.phase, decision.actions) == (Phase.PAUSED, ())
    assert decision.reason == "intent-unread"
    assert "sparkd ctl start demo, or sparkd ctl stop demo" in decision.sentence
    for verb, wanted in (("start", "up"), ("stop", "stopped"), ("restart", "up")):
        assert verbs()[verb].conflict(lost, now) is None
        said = changed(lost, verbs()[verb], {}, "milo", "", 0.0)
        assert (said.wanted, said.unread) == (wanted, False)
        assert decide(now, seen_now, said).state.phase is Phase.ADOPTING, "it looks, then does it"
    held_back = changed(changed(lost, verbs()["pause"], {}, "", "", 0.0), verbs()["resume"], {}, "", "", 0.0)
    assert held_back.unread, "nobody has said what is wanted yet"


# --------------------------------------------------------------------------------------------------- what history has of it

HELD = state(Phase.HELD, hold=BUDGET)
MEANT: dict[str, tuple[State, Intent]] = {
    "start": (state(Phase.STOPPED), STOPPED),
    "stop": (serving(), UP),
    "restart": (serving(), UP),
    "pause": (serving(), UP),
    "resume": (state(Phase.PAUSED, before=Phase.SERVE), PAUSED),
    "release": (HELD, UP),
}


@pytest.mark.parametrize("verb", verbs().values(), ids=lambda verb: verb.name)
def test_a_verb_leaves_its_kind_of_event(verb: Verb) -> None:
    """By this kind history knows that a person asked for it, and names them."""
    assert verb.name in MEANT, "say in MEANT in which state and with which intent it makes sense"
    before, intent = MEANT[verb.name]
    assert verb.conflict(intent, before) is None
    decision = decide(before, both(), changed(intent, verb, {}, "milo", "because", 0.0))
    assert [kind for kind, _ in decision.events] == [verb.event], (
        "WISHES in decide/machine.py has no row that writes it"
    )
