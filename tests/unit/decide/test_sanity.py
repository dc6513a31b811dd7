"""When the fixed question is asked, what two bad answers in a row are, and what ends that."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sparkd.decide.machine import step
from sparkd.decide.standing import woken
from sparkd.model.action import AskSanity, SendCanary, WarmUp
from sparkd.model.config import Backoff, Budget, Deployment, Health, Policy, Warmup
from sparkd.model.decision import Cause, Decision, Phase, State, Watch
from sparkd.model.failure_code import FailureCode
from sparkd.model.log_finding import FindingKind, LogFinding
from sparkd.model.sanity import Known, Said, Sanity
from sparkd.model.snapshot import Canary, EngineMetrics, EngineView, Outcome, Snapshot, Unknown

from .world import (
    ASKED,
    CANARY,
    DEPLOYMENT,
    HEALTHY,
    NOW,
    PAUSED,
    UP,
    WARMUP,
    answer,
    away,
    both,
    container,
    decide,
    moving,
    node,
    seen,
    serving,
)

ASK = AskSanity(1, 60.0)
GOOD, BAD = Said("lantern 4729 copper. Paris."), Said("!" * 32, cut=True)
IDLE = Watch(tokens=20.0, tokens_at=NOW - 130, canary_at=NOW - 130)
RECENT = Watch(tokens=20.0, tokens_at=NOW - 20, canary_at=NOW - 20)
KNOWN = Known("lantern 4729 copper. Paris.", 1.7e9 - 7200, 1)
NEVER = Sanity(generation=1)
LONG_AGO = replace(ASKED, asked_at=NOW - 3601)
ONCE = replace(ASKED, asked_at=NOW - 5, bad=1, since=NOW - 6, why="w", text="!!!", known=KNOWN)
TWICE = replace(ONCE, bad=2)


def said(text: Said | None, at: float = NOW, generation: int = 1, **more: Any) -> Outcome:
    ok = text is not None and not more.get("why")
    return Outcome(AskSanity(generation, 60.0), True, at, value=Canary(generation, at - 2, at, ok, said=text, **more))


def off(deployment: Deployment = DEPLOYMENT) -> Deployment:
    return replace(deployment, health=Health(sanity=False))


# ---------------------------------------------------------------------------------------------------------- when

USED = EngineView(200, EngineMetrics(1.0, 0.0, 10.0, 10.0, 0.0))
WAITED = EngineView(200, EngineMetrics(0.0, 2.0, 10.0, 10.0, 0.0))
FAULT = replace(HEALTHY, log_findings=(LogFinding("worker-exception", FindingKind.FAULT, 1),))
BUSY_WITH_IT = replace(both(), busy={"demo": ASK})

DUE: dict[str, tuple[Sanity, Watch, Snapshot, list[str]]] = {
    "after the warm-up, nobody there": (NEVER, RECENT, both(), ["AskSanity"]),
    "after the warm-up, with a request that runs": (NEVER, RECENT, both(USED), []),
    "after the warm-up, with requests that wait": (NEVER, RECENT, both(WAITED), []),
    "after the warm-up, tokens have just moved": (NEVER, RECENT, both(moving(5)), []),
    "a generation that another was asked of": (replace(ASKED, generation=7), RECENT, both(), ["AskSanity"]),
    "within the hour": (ASKED, IDLE, both(), ["SendCanary"]),
    "after an hour, idle": (LONG_AGO, IDLE, both(), ["AskSanity"]),
    "after an hour, tokens moved a moment ago": (LONG_AGO, RECENT, both(), []),
    "after an hour, a request runs": (LONG_AGO, IDLE, both(USED), ["SendCanary"]),
    "after an hour, its counters are unread": (
        LONG_AGO,
        IDLE,
        both(replace(HEALTHY, metrics=Unknown("late", NOW))),
        ["SendCanary"],
    ),
    "after an hour, it counts nothing": (LONG_AGO, IDLE, both(replace(HEALTHY, metrics=None)), ["AskSanity"]),
    "after an hour, canaries fail": (
        LONG_AGO,
        replace(IDLE, canary_failing_since=NOW - 200, canary_failures=1),
        both(),
        ["SendCanary"],
    ),
    "after an hour, a log speaks of a fault": (LONG_AGO, IDLE, both(FAULT), ["SendCanary"]),
    "after an hour, our key is refused": (LONG_AGO, replace(IDLE, unsent="no key"), both(), ["SendCanary"]),
    "it is being asked": (NEVER, IDLE, BUSY_WITH_IT, []),
    "a canary is on its way": (NEVER, IDLE, replace(both(), busy={"demo": CANARY}), ["SendCanary"]),
    "one bad answer": (ONCE, RECENT, both(), ["AskSanity"]),
    "one bad answer, with a request that runs": (ONCE, RECENT, both(USED), []),
    "nonsense, a moment ago": (TWICE, RECENT, both(), []),
    "nonsense, as long ago as a canary": (replace(TWICE, asked_at=NOW - 121), RECENT, both(), ["AskSanity"]),
}


@pytest.mark.parametrize(("known", "watch", "look", "actions"), DUE.values(), ids=DUE.keys())
def test_when_it_is_asked(known: Sanity, watch: Watch, look: Snapshot, actions: list[str]) -> None:
    decision = decide(serving(watch, sanity=known), look)
    assert [type(one).__name__ for one in decision.actions] == actions, decision.sentence


def test_it_is_never_asked_of_a_deployment_that_says_no() -> None:
    for known in (NEVER, LONG_AGO, ONCE):
        decision = decide(serving(IDLE, sanity=known), both(), deployment=off())
        assert decision.actions == (SendCanary(1, 60.0),)


def test_it_is_not_asked_while_a_node_is_unread_nor_before_it_serves_nor_while_paused() -> None:
    blind = seen(node("spark1", container(0)), away("spark2"), engine=HEALTHY)
    assert not asks(decide(serving(IDLE, sanity=NEVER), blind))
    assert not asks(decide(replace(WARMUP, sanity=NEVER), both()))
    assert not asks(decide(serving(IDLE, sanity=NEVER), both(), PAUSED))


def asks(decision: Decision) -> bool:
    return any(isinstance(one, AskSanity) for one in decision.actions)


def test_the_first_look_after_the_warm_up_asks_and_that_answer_is_a_canary_too() -> None:
    warm = decide(WARMUP, both(outcome=answer(WarmUp(1, 60.0), ok=True)))
    assert warm.state.phase is Phase.SERVE
    first = decide(replace(warm.state, sanity=NEVER), both(), now=NOW + 1)
    assert first.actions == (ASK,)
    after = decide(first.state, both(outcome=said(GOOD, NOW + 2)), now=NOW + 2)
    assert (after.state.watch.canary_at, after.reason, after.actions) == (NOW + 2, "serving", ())


# --------------------------------------------------------------------------------------------------------- verdict


def after(known: Sanity, outcome: Outcome, **more: Any) -> Decision:
    return decide(serving(RECENT, sanity=known), both(outcome=outcome), **more)


def test_f18_one_bad_answer_is_asked_again_and_two_in_a_row_are_nonsense() -> None:
    """/health is 200, canaries are answered, tokens move; and what comes out is nothing."""
    once = after(replace(ASKED, known=KNOWN), said(BAD))
    assert (once.reason, once.state.nonsense, once.actions, once.events) == ("serving", False, (ASK,), ())
    twice = decide(once.state, both(outcome=said(BAD, NOW + 5)), now=NOW + 5)
    assert (twice.reason, twice.state.nonsense, twice.state.phase) == ("nonsense", True, Phase.SERVE)
    assert twice.sentence == (
        "answers nonsense: '!' again and again: \"" + "!" * 32 + '"; when it was well (2023-11-14T20:13:20Z, '
        'generation 1): "lantern 4729 copper. Paris."'
    )
    assert [kind for kind, _ in twice.events] == ["nonsense"]
    assert twice.state.outage is not None
    assert (twice.state.outage.code, twice.state.outage.began, twice.state.failure) == ("nonsense", NOW - 2, None)
    third = decide(twice.state, both(), now=NOW + 10)
    assert (third.reason, third.events, third.actions) == ("nonsense", (), ())


def test_a_good_answer_between_two_bad_ones_is_no_row() -> None:
    good = after(ONCE, said(GOOD))
    assert (good.state.sanity.bad, good.state.sanity.since) == (0, None)
    assert not after(good.state.sanity, said(BAD)).state.nonsense


def test_it_ends_when_an_answer_makes_sense_again_and_with_nothing_else() -> None:
    state = after(ONCE, said(BAD)).state
    for passed, outcome in ((5, answer(CANARY, ok=True)), (10, None)):
        look = replace(both(moving(passed)), outcomes={"demo": outcome} if outcome else {})
        decision = decide(state, look, now=NOW + passed)
        state = decision.state
        assert (decision.reason, state.nonsense, state.last_outage) == ("nonsense", True, None)
    over = decide(state, both(moving(10), outcome=said(GOOD, NOW + 130)), now=NOW + 130)
    assert (over.reason, over.state.nonsense, over.state.outage) == ("serving", False, None)
    assert over.state.sanity.known == Known("lantern 4729 copper. Paris.", 1.7e9, 1)
    assert [kind for kind, _ in over.events] == ["recovered"]
    assert over.state.last_outage is not None
    assert (over.state.last_outage.code, over.state.last_outage.answered) == ("nonsense", 1)


NOT_JUDGED: dict[str, Outcome] = {
    "of another generation": said(BAD, generation=3),
    "it could not be sent": Outcome(ASK, False, NOW, "secret cannot be read", FailureCode.SECRET),
    "the action ran out of time": Outcome(ASK, False, NOW, "not done within 65 s", FailureCode.TIMEOUT),
    "late": said(BAD, why="not finished within 60 s", kind="late"),
    "late after its first token": said(BAD, why="not finished within 60 s", kind="late", first_token_s=0.5),
    "broken off": said(Said("\ufffd\ufffd"), why="error chunk", kind="error"),
    "another key": said(Said(""), why="the engine wants a key", kind="key"),
}


@pytest.mark.parametrize("outcome", NOT_JUDGED.values(), ids=NOT_JUDGED.keys())
def test_what_is_no_answer_is_not_judged(outcome: Outcome) -> None:
    decision = after(ONCE, outcome)
    assert (decision.state.sanity.bad, decision.state.nonsense) == (1, False)


def test_a_question_that_fails_is_a_canary_that_fails_unless_its_answer_had_begun() -> None:
    assert after(ASKED, NOT_JUDGED["late"]).state.watch.canary_failures == 1
    assert after(ASKED, NOT_JUDGED["broken off"]).state.watch.canary_failures == 1
    begun = after(ASKED, NOT_JUDGED["late after its first token"]).state
    assert (begun.watch.canary_failures, begun.watch.canary_at) == (0, NOW), "slow is not dead"


def test_no_false_verdict_for_a_model_that_answers_in_another_script() -> None:
    state = serving(RECENT, sanity=NEVER)
    for passed in range(0, 60, 5):
        chinese = said(Said("灯笼 四七二九 铜。法国的首都是巴黎。"), NOW + passed)
        state = decide(state, both(outcome=chinese), now=NOW + passed).state
    assert (state.nonsense, state.sanity.bad) == (False, 0)


@pytest.mark.parametrize(
    ("changes", "text", "nonsense"),
    [
        ({}, Said("", cut=True), True),
        ({"args": {"reasoning-parser": "qwen3"}}, Said("", cut=True), False),
        ({"warmup": Warmup(api="completions")}, Said(" lantern 4729 copper. Paris.\n" + "Task: " * 9, cut=True), False),
        ({"warmup": Warmup(api="completions")}, Said(" green\nlantern 4729", cut=True), True),
    ],
)
def test_it_is_judged_by_how_the_deployment_is_asked(changes: dict[str, Any], text: Said, nonsense: bool) -> None:
    assert after(ONCE, said(text), deployment=replace(DEPLOYMENT, **changes)).state.nonsense is nonsense


def test_long_and_odd_answers_are_one_short_line() -> None:
    known = replace(ONCE, known=replace(KNOWN, text="lantern 4729 copper. " + "x" * 200))
    sentence = after(known, said(Said("\x1b[31m\n" + "!" * 1900, cut=True))).sentence
    assert sentence.isprintable()
    assert len(sentence) < 400


def test_a_model_that_has_never_made_sense_may_be_none_that_is_to_be_asked() -> None:
    """A guard model says `safe` to anything: who reads of it has to learn how that is said."""
    guard = after(replace(ONCE, known=None), said(Said("safe")))
    assert guard.reason == "nonsense"
    assert guard.sentence.endswith("write `health: {sanity: false}`)")


def test_a_new_generation_begins_anew_and_knows_what_made_sense() -> None:
    begun = replace(serving(RECENT, sanity=TWICE), generation=2, highest=2)
    assert not begun.nonsense
    look = seen(node("spark1", container(0, 2)), node("spark2", container(1, 2)), engine=HEALTHY)
    decision = decide(begun, look)
    assert decision.actions == (AskSanity(2, 60.0),)
    heard = decide(begun, replace(look, outcomes={"demo": said(BAD, generation=2)})).state.sanity
    assert (heard.bad, heard.generation, heard.known) == (1, 2, KNOWN)


def test_nonsense_outlives_a_restart_of_sparkd_and_an_unread_node() -> None:
    state = after(ONCE, said(BAD)).state
    adopted = decide(woken(state, NOW + 5), both(), now=NOW + 5).state
    assert (adopted.nonsense, adopted.outage is not None) == (True, True)
    blind = decide(adopted, seen(node("spark1", container(0)), away("spark2"), engine=HEALTHY), now=NOW + 10)
    assert (blind.reason, "spark2 is unknown" in blind.sentence) == ("nonsense", True)
    assert blind.state.outage is not None


def test_what_became_a_verdict_while_a_node_was_unread_is_told_too() -> None:
    look = seen(node("spark1", container(0)), away("spark2"), engine=HEALTHY, outcome=said(BAD))
    decision = decide(serving(RECENT, sanity=ONCE), look)
    assert (decision.reason, [kind for kind, _ in decision.events]) == ("nonsense", ["nonsense"])


def test_who_takes_the_question_away_ends_the_verdict() -> None:
    state = after(ONCE, said(BAD)).state
    look = both(moving(5), outcome=answer(CANARY, ok=True))
    decision = decide(state, replace(look, at=NOW + 5), now=NOW + 5, deployment=off())
    assert (decision.reason, decision.state.nonsense) == ("serving", False)


def test_requests_that_fail_are_worse_than_nonsense() -> None:
    failing = replace(RECENT, canary_failing_since=NOW - 100, canary_failures=3)
    assert decide(serving(failing, sanity=TWICE), both()).reason == "not-answering"


# --------------------------------------------------------------------------------------------------------- restart-once

ONCE_ANEW = Policy(on_nonsense="restart-once")


def test_f18_restart_once_starts_the_group_anew_one_time_and_then_tells() -> None:
    before = serving(RECENT, sanity=ONCE, serving_since=NOW - 7200)
    first = decide(before, both(outcome=said(BAD)), policy=ONCE_ANEW)
    assert (first.state.phase, first.state.cause, first.state.sanity.restarted) == (Phase.BACKOFF, Cause.WEDGE, True)
    failure = first.state.failure
    assert failure is not None
    assert (failure.signature, "4729" in failure.text, first.state.retry_at) == ("nonsense", True, NOW)
    again = replace(serving(RECENT, sanity=first.state.sanity), generation=2, highest=2)
    look = seen(node("spark1", container(0, 2)), node("spark2", container(1, 2)), engine=HEALTHY)
    for passed in (0, 5):
        outcome = said(BAD, NOW + passed, generation=2)
        told = decide(again, replace(look, outcomes={"demo": outcome}), policy=ONCE_ANEW, now=NOW + passed)
        again = told.state
    assert (told.state.phase, told.reason, told.actions) == (Phase.SERVE, "nonsense", ())
    assert told.sentence.endswith("it was restarted for that once")
    good = replace(look, outcomes={"demo": said(GOOD, NOW + 130, generation=2)})
    assert not decide(again, good, policy=ONCE_ANEW, now=NOW + 130).state.sanity.restarted, "the row has ended"


def test_restart_once_takes_nothing_down_that_may_not_be_started_again() -> None:
    spent = tuple(NOW - 60 * number for number in range(1, 6))
    decision = decide(serving(RECENT, sanity=TWICE, starts=spent), both(), policy=ONCE_ANEW)
    assert (decision.state.phase, decision.reason) == (Phase.SERVE, "nonsense")
    today = Policy(on_nonsense="restart-once", budget=Budget(starts=50, per_day=5))
    assert decide(serving(RECENT, sanity=TWICE, starts=spent), both(), policy=today).reason == "nonsense"


def test_nothing_is_restarted_by_itself() -> None:
    state = serving(RECENT, sanity=TWICE)
    for passed in range(0, 7200, 5):
        outcomes = {"demo": said(BAD, NOW + passed)} if passed % 120 == 0 else {}
        decision = decide(state, replace(both(), outcomes=outcomes), now=NOW + passed)
        state = decision.state
        assert (state.phase, decision.reason) == (Phase.SERVE, "nonsense")


def test_the_clock_of_the_answers_is_the_one_of_people() -> None:
    """`wall` is when it was answered, not when it was looked at."""
    late = replace(both(outcome=said(GOOD, NOW - 30)), wall=1.7e9)
    state: State = step(DEPLOYMENT, serving(RECENT), late, UP, Policy(backoff=Backoff()), NOW).state
    assert state.sanity.wall == 1.7e9 - 30
