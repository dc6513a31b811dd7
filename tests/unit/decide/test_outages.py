"""When an outage begins and ends, what it is put down to, and how much of it nobody could tell."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sparkd.decide.standing import woken
from sparkd.model.decision import Decision, FailureClass, Phase, State, Watch
from sparkd.model.machine import Boot
from sparkd.model.outage import Outage
from sparkd.model.snapshot import Canary, Outcome, Snapshot, Unknown

from .world import (
    CANARY,
    HEALTHY,
    NOW,
    PAUSED,
    STOPPED,
    UP,
    away,
    began,
    both,
    container,
    decide,
    down,
    ended,
    moving,
    node,
    seen,
    serving,
    state,
)

NODES = ("spark1", "spark2")
LOST_RANK = seen(node("spark1", container(0)), node("spark2", ended(1)), engine=HEALTHY)


def at(now: float, look: Snapshot) -> Snapshot:
    return replace(look, at=now, wall=look.wall + now - NOW)


def asked(now: float, *, ok: bool) -> Outcome:
    """A canary that ended now."""
    return Outcome(CANARY, True, now, value=Canary(1, now - 2, now, ok))


def after(before: State, look: Snapshot, now: float, **more: Any) -> Decision:
    return decide(before, at(now, look), now=now, **more)


def record(decision: Decision) -> Outage:
    assert decision.state.last_outage is not None
    assert decision.state.outage is None
    return decision.state.last_outage


def goes_on(decision: Decision) -> Outage:
    assert decision.state.outage is not None
    return decision.state.outage


# ------------------------------------------------------------------------------------- sparkd was killed and adopts


def test_an_outage_that_a_killed_sparkd_left_open_is_over_when_it_answers_and_not_the_begin_of_the_next() -> None:
    left = woken(serving(outage=down(NOW - 180)), NOW)
    adopted = after(left, both(), NOW)
    assert (adopted.state.phase, adopted.reason) == (Phase.SERVE, "adopted")
    answers = after(adopted.state, both(outcome=asked(NOW + 5, ok=True)), NOW + 7)
    over = record(answers)
    assert (over.began, over.ended, over.answered, over.unwatched) == (NOW - 180, NOW + 5, 1, True)
    assert [kind for kind, _ in answers.events] == ["recovered"]
    assert answers.events[0][1] == "answers again; it was down for 3 min: rank 1 on spark2 was killed"
    watched = after(answers.state, both(), NOW + 595)
    lost = after(watched.state, LOST_RANK, NOW + 600)
    assert (began(lost), goes_on(lost).unwatched) == (NOW + 600, False)


def test_what_began_while_sparkd_was_away_is_marked_so() -> None:
    """All lost power, and sparkd with them: it began when the nodes booted at the latest, before anybody looked again."""
    # Containers as nodes share the uptime of the machine below, on which their PID 1 is young.
    one, two = (node(name, ended(at), boot=Boot(f"{name}-boot2", 4000, 100.0)) for at, name in enumerate(NODES))
    found = goes_on(after(woken(serving(), NOW), seen(one, two), NOW + 5))
    assert (found.code, found.began, found.unwatched) == ("rebooted", NOW - 55, True)
    # The other node may come back later: until then only that a rank is gone was known.
    half = after(woken(serving(), NOW), seen(node("spark1", ended(0)), away("spark2")), NOW + 5)
    assert (goes_on(half).code, goes_on(half).unwatched) == ("rank-gone", False)
    whole = goes_on(after(half.state, seen(one, two), NOW + 5))
    assert (whole.code, whole.began, whole.unwatched) == ("rebooted", NOW - 55, True)


def test_tokens_that_move_after_an_adoption_end_it_too() -> None:
    adopted = after(woken(serving(outage=down(NOW - 180)), NOW), both(moving(1)), NOW)
    first = after(adopted.state, both(moving(1)), NOW + 5)
    assert record(after(first.state, both(moving(9)), NOW + 10)).ended == NOW + 10


def test_that_it_was_adopted_ends_no_outage_while_nobody_has_seen_an_answer() -> None:
    """Two records with a gap between them would say that it had answered meanwhile."""
    adopted = after(woken(serving(outage=down(NOW - 180, code="not-answering")), NOW), both(), NOW)
    failing = after(adopted.state, both(outcome=asked(NOW + 60, ok=False)), NOW + 60)
    again = after(failing.state, both(outcome=asked(NOW + 130, ok=False)), NOW + 130)
    assert (began(again), again.state.last_outage) == (NOW - 180, None)


def test_what_ran_with_a_younger_label_than_the_journal_and_failed_is_named_by_that_label() -> None:
    look = seen(node("spark1", container(0, 4)), node("spark2", ended(1, 1, 4)))
    failed = after(woken(serving(), NOW), look, NOW)
    assert (goes_on(failed).generation, goes_on(failed).code) == (4, "exit-1")


def test_a_restart_of_sparkd_alone_is_no_outage() -> None:
    adopted = after(woken(serving(), NOW), both(), NOW)
    answers = after(adopted.state, both(outcome=asked(NOW + 5, ok=True)), NOW + 7)
    assert (answers.state.outage, answers.state.last_outage) == (None, None)


# ------------------------------------------------------------------------------------------------- reboots, and causes


def rebooted(uptime_s: float = 40.0) -> Snapshot:
    return seen(node("spark1", container(0)), node("spark2", boot=Boot("spark2-boot2", 0, uptime_s)))


def test_a_reboot_is_the_last_failure_that_why_names_and_counts_as_none() -> None:
    older = after(serving(), LOST_RANK, NOW - 9000).state.failure
    decision = after(serving(failure=older, failures=1, starts=(NOW - 9000,)), rebooted(), NOW)
    failure, outage = decision.state.failure, goes_on(decision)
    assert failure is not None
    assert (failure.signature, failure.text, failure.generation) == ("rebooted", "spark2 rebooted", 1)
    assert failure.evidence == ("spark2 has been up for 40 s",)
    assert (decision.state.failures, decision.state.starts) == (1, (NOW - 9000,)), "no failure for pause and budget"
    assert (outage.code, outage.text, outage.began, outage.cls) == (
        "rebooted",
        "spark2 rebooted",
        NOW - 40,
        "transient",
    )
    assert outage.began_wall == 1.7e9 - 40


def test_the_first_cause_found_stays_and_every_start_is_counted() -> None:
    lost = after(serving(), LOST_RANK, NOW)
    assert (goes_on(lost).code, goes_on(lost).starts) == ("exit-137", 0)
    started = replace(lost.state, phase=Phase.START_HEAD, generation=2, captured=2)
    outage = replace(goes_on(lost), starts=1)
    dead = seen(node("spark1", ended(0, 1, 2)), node("spark2", container(1, 2)))
    again = after(replace(started, outage=outage), dead, NOW + 99)
    assert (goes_on(again).code, goes_on(again).generation, began(again)) == ("exit-137", 1, NOW)


def test_a_start_within_it_is_counted() -> None:
    before = state(Phase.CLEANUP, outage=down(NOW - 90), cleaned=2, generation=1, captured=1)
    begun = after(before, seen(), NOW)
    assert (begun.reason, begun.state.generation, goes_on(begun).starts) == ("begin", 2, 1)


@pytest.mark.parametrize(
    ("failures", "code"), [(1, None), (2, "not-answering"), (9, "not-answering")], ids=["one", "two", "many"]
)
def test_two_requests_without_an_answer_begin_it_at_the_first(failures: int, code: str | None) -> None:
    watch = Watch(canary_at=NOW - 1, canary_failing_since=NOW - 70, canary_failures=failures)
    decision = after(serving(watch=watch), both(), NOW)
    assert began(decision) == (NOW - 70 if code else None)
    assert (decision.state.outage.code if decision.state.outage else None) == code


def test_requests_that_are_answered_again_end_it_without_a_restart() -> None:
    watch = Watch(canary_at=NOW - 1, canary_failing_since=NOW - 70, canary_failures=2)
    failing = after(serving(watch=watch), both(), NOW)
    over = after(failing.state, both(outcome=asked(NOW + 20, ok=True)), NOW + 22)
    assert (record(over).lasted_s(0.0), record(over).answered, record(over).starts) == (90.0, 1, 0)


def test_a_verdict_later_names_the_cause_and_a_rank_gone_meanwhile_leaves_the_begin() -> None:
    watch = Watch(canary_at=NOW - 1, canary_failing_since=NOW - 70, canary_failures=2)
    failing = after(serving(watch=watch), both(), NOW)
    lost = after(failing.state, LOST_RANK, NOW + 30)
    assert (goes_on(lost).code, began(lost)) == ("exit-137", NOW - 70)


def test_a_person_who_restarts_it_is_the_cause_until_that_fails() -> None:
    restarted = after(serving(), both(), NOW, intent=replace(UP, restart=1, by="milo", message="new image"))
    outage = goes_on(restarted)
    assert (outage.code, outage.text, outage.asked) == ("operator", "restart asked by milo: new image", True)
    started = replace(restarted.state, phase=Phase.START_HEAD, generation=2, ranks_started=(0, 1))
    dead = seen(node("spark1", ended(0, 1, 2)), node("spark2", container(1, 2)))
    failed = after(started, dead, NOW + 99, intent=replace(UP, restart=1))
    assert (goes_on(failed).code, goes_on(failed).asked, began(failed)) == ("exit-1", False, NOW)


@pytest.mark.parametrize("phase", [Phase.BACKOFF, Phase.HELD, Phase.SERVE, Phase.START_HEAD])
def test_a_person_who_stops_it_ends_it_and_nothing_answers(phase: Phase) -> None:
    stopped = after(state(phase, outage=down(NOW - 60)), both(), NOW, intent=STOPPED)
    assert (record(stopped).ended, record(stopped).answered) == (NOW, None)
    assert after(stopped.state, seen(), NOW + 5, intent=STOPPED).state.outage is None


def test_a_first_start_is_none_and_one_that_fails_is() -> None:
    started = after(state(Phase.STOPPED, generation=0), seen(), NOW)
    assert (started.state.phase, started.state.outage) == (Phase.PRECHECK, None)
    failed = after(state(Phase.START_HEAD), LOST_RANK, NOW)
    assert (goes_on(failed).code, began(failed)) == ("exit-137", NOW)


def test_it_does_not_begin_before_the_last_one_ended() -> None:
    last = replace(down(NOW - 900), ended=NOW - 20, ended_wall=1.7e9 - 20, answered=1)
    assert began(after(serving(last_outage=last), rebooted(40.0), NOW)) == NOW - 20


# ------------------------------------------------------------------------------------------------------- unknown


SPARK1_AWAY = seen(away("spark1", Unknown("no route", NOW, "unreachable")), node("spark2", container(1)))
IDLE = Watch(tokens=20.0, canary_at=NOW)


def test_while_nobody_can_tell_it_is_unread_and_not_down() -> None:
    blip = after(serving(watch=IDLE), SPARK1_AWAY, NOW + 170)
    assert blip.state.outage is None, "requests are no closer together than that"
    blind = after(blip.state, SPARK1_AWAY, NOW + 190)
    outage = goes_on(blind)
    assert (outage.code, outage.began, outage.unread_since) == ("unread", NOW, NOW)
    assert (outage.unknown_s(NOW + 190), outage.down_s(NOW + 190)) == (190.0, 0.0)
    back = after(blind.state, both(), NOW + 600)
    answers = after(back.state, both(outcome=asked(NOW + 603, ok=True)), NOW + 604)
    over = record(answers)
    assert (over.ended, over.unread_s, over.down_s(0.0)) == (NOW + 603, 603.0, 0.0)
    assert answers.events == (
        ("recovered", "answers; for 10 min nobody could tell: spark1 could not be read (no route)"),
    )


def test_a_canary_that_could_not_be_sent_is_no_look_at_it() -> None:
    unsent = replace(IDLE, canary_at=NOW + 299, unsent="no canary can be sent: no such file")
    assert goes_on(after(serving(watch=unsent), SPARK1_AWAY, NOW + 300)).code == "unread"


def test_a_worker_that_cannot_be_read_leaves_nobody_in_doubt() -> None:
    look = seen(node("spark1", container(0)), away("spark2"), engine=HEALTHY)
    assert after(serving(watch=IDLE), look, NOW + 500).state.outage is None


def test_what_turns_out_to_have_been_down_was_unread_only_until_then() -> None:
    blind = after(serving(watch=IDLE), SPARK1_AWAY, NOW + 300)
    booted = seen(node("spark1", boot=Boot("spark1-boot2", 0, 100.0)), node("spark2", container(1)))
    back = after(blind.state, booted, NOW + 400)
    outage = goes_on(back)
    assert (outage.code, outage.began, outage.unread_s, outage.unread_since) == ("rebooted", NOW, 300.0, None)
    assert outage.down_s(NOW + 400) == 100.0


def test_what_was_seen_to_be_gone_stays_down_while_its_node_is_unread() -> None:
    gone = serving(watch=IDLE, outage=down(NOW - 60, code="rank-gone"))
    assert goes_on(after(gone, SPARK1_AWAY, NOW + 500)).unknown_s(NOW + 500) == 0.0


def test_requests_that_failed_may_be_answered_again_while_nobody_can_look() -> None:
    watch = Watch(canary_at=NOW - 1, canary_failing_since=NOW - 70, canary_failures=2)
    failing = after(serving(watch=watch), both(), NOW)
    blind = after(failing.state, SPARK1_AWAY, NOW + 300)
    back = after(blind.state, both(), NOW + 400)
    outage = goes_on(back)
    assert (outage.began, outage.unread_s, outage.down_s(NOW + 400)) == (NOW - 70, 400.0, 70.0)


# --------------------------------------------------------------------------------------------------------- pauses


def test_what_is_lost_in_a_pause_is_an_outage_and_what_is_unread_is_not() -> None:
    before = state(Phase.PAUSED, before=Phase.SERVE)
    lost = after(before, LOST_RANK, NOW, intent=PAUSED)
    assert (goes_on(lost).code, goes_on(lost).text) == ("rank-gone", "rank 1 on spark2 is gone")
    assert after(before, SPARK1_AWAY, NOW + 900, intent=PAUSED).state.outage is None
    unwanted = replace(PAUSED, wanted="stopped")
    assert after(before, LOST_RANK, NOW, intent=unwanted).state.outage is None


def test_a_class_of_a_failure_is_in_its_record() -> None:
    outage = goes_on(after(serving(), seen(node("spark1", container(0)), node("spark2", ended(1, 127))), NOW))
    assert (outage.code, outage.cls) == ("exit-127", FailureClass.PERMANENT.value)
