"""When nobody asked, or nobody could: canaries that were not sent, keys that are not ours, starts after a gap."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sparkd.decide.launching import AFTER_GAP_S
from sparkd.model.action import RemoveRanks, WarmUp
from sparkd.model.decision import Phase, State, Watch
from sparkd.model.failure_code import FailureCode
from sparkd.model.snapshot import Canary, EngineMetrics, EngineView, Outcome, Snapshot

from .world import (
    CANARY,
    DEAD,
    HEAD,
    HEALTHY,
    LATE,
    NOW,
    WARMUP,
    answer,
    away,
    both,
    container,
    decide,
    down,
    ended,
    failed,
    kinds,
    never,
    node,
    play,
    seen,
    serving,
    silent,
)

IDLE = Watch(tokens=20.0, tokens_at=NOW - 130, canary_at=NOW - 130)
SECRET = failed(CANARY, FailureCode.SECRET, error="secret VLLM_API_KEY cannot be read from /etc/key: no such file")
OTHER_KEY = Outcome(
    CANARY, True, NOW, value=Canary(1, NOW - 1, NOW, False, "the engine refuses the key in /etc/key", kind="key")
)


def at(look: Snapshot, now: float, outcome: Outcome | None = None) -> Snapshot:
    return replace(look, at=now, outcomes={"demo": replace(outcome, ended_at=now)} if outcome is not None else {})


@pytest.mark.parametrize("nothing", [SECRET, OTHER_KEY], ids=["its secret is unread", "the engine has another key"])
def test_between_a_canary_that_failed_and_one_that_counts_nobody_looked(nothing: Outcome) -> None:
    """Its clock ran through eleven minutes in which none could be sent, and the next one that failed was the verdict."""
    state = decide(serving(IDLE), both(outcome=answer(CANARY, ok=False, why="cannot connect"))).state
    for passed in range(5, 665, 5):
        state = decide(state, at(both(), NOW + passed, nothing), now=NOW + passed).state
    now = NOW + 665
    again = answer(CANARY, ok=False, sent_at=now - 5, why="cannot connect")
    once = decide(state, at(both(), now, again), now=now)
    assert (once.state.phase, once.reason) == (Phase.SERVE, "not-answering")
    assert once.state.watch.failed_first is None, "it was sent before anybody knew that canaries can be sent again"


@pytest.mark.parametrize("nothing", [SECRET, OTHER_KEY], ids=["its secret is unread", "the engine has another key"])
def test_our_own_trouble_with_a_key_restarts_nothing_and_is_said(nothing: Outcome) -> None:
    state = serving(IDLE)
    for passed in range(0, 7200, 5):
        decision = decide(state, at(both(), NOW + passed, nothing), now=NOW + passed)
        state = decision.state
    assert (state.phase, state.watch.canary_failures, decision.reason) == (Phase.SERVE, 0, "suspect")
    assert str(nothing.error or nothing.value.why) in decision.sentence  # type: ignore[attr-defined]
    assert decide(state, both(outcome=answer(CANARY, ok=True)), now=NOW + 7200).reason == "serving"


def test_canaries_that_are_not_sent_are_a_gap() -> None:
    """Something else was in hand for eleven minutes, and then the first look at the clock of one canary decided."""
    state = decide(serving(IDLE), both(outcome=answer(CANARY, ok=False, why="cannot connect"))).state
    for passed in range(5, 665, 5):
        decision = decide(state, at(both(), NOW + passed), now=NOW + passed)
        state = decision.state
    assert (state.phase, decision.actions) == (Phase.SERVE, (CANARY,))


def test_canaries_that_fail_in_time_are_none() -> None:
    passed, decision = play(serving(), lambda at: both(), 900, canary=never)
    assert (decision.state.failure is not None, 700 <= passed < 735) == (True, True), decision.sentence


def test_canaries_that_were_late_in_our_own_time_have_failed_although_sparkd_stood_still_meanwhile() -> None:
    """A machine that stutters for ever would otherwise hide an engine that never answers."""
    before = serving(replace(IDLE, canary_at=NOW - 60), looked_at=NOW - 40)
    late = Canary(1, NOW - 75, NOW - 1, False, "not finished within 60 s", kind="late")
    after = decide(before, both(outcome=Outcome(CANARY, True, NOW - 1, value=late)))
    assert (after.state.watch.late_until, after.state.watch.canary_failures) == (NOW, 1)
    broken = replace(late, kind="", why="connection lost")
    assert decide(before, both(outcome=Outcome(CANARY, True, NOW - 1, value=broken))).state.watch.canary_failures == 0


def test_a_boot_that_cannot_be_seen_is_no_dead_engine() -> None:
    """With its node unread a refused connection may be a node that boots; the clock begins when it can be read again."""
    before = serving(replace(IDLE, dead_since=NOW - 20))
    look = seen(away("spark1"), node("spark2", container(1)), engine=DEAD)
    assert decide(before, look).state.watch.dead_since is None


# ------------------------------------------------------------------------------------------------------- stale ranks

STALE = seen(
    node("spark1", container(0)),
    node("spark2", container(1), replace(container(0, 0, "exited"), id="old")),
    engine=HEALTHY,
)


def test_a_stale_rank_that_cannot_be_removed_keeps_no_canary_from_being_sent() -> None:
    """Its removal was tried at every look, and nothing was asked for as long as it failed."""
    assert kinds(decide(serving(replace(IDLE, canary_at=NOW - 5)), STALE)) == ["RemoveRanks"]
    assert decide(serving(IDLE), STALE).actions == (CANARY,)
    asked = replace(STALE, busy={"demo": CANARY})
    assert decide(serving(replace(IDLE, canary_at=NOW - 5)), asked).actions == ()
    failing = replace(IDLE, canary_at=NOW - 5, canary_failing_since=NOW - 40, canary_failures=2)
    decision = decide(serving(failing), STALE)
    assert (decision.reason, decision.actions) == ("not-answering", ())


def test_a_stale_rank_goes_also_while_something_else_is_doubted() -> None:
    doubted = replace(STALE, nodes={**STALE.nodes, "spark1": silent().nodes["spark1"]})
    decision = decide(serving(replace(IDLE, canary_at=NOW - 5)), doubted)
    assert (decision.reason, [type(one) for one in decision.actions]) == ("suspect", [RemoveRanks])


# ----------------------------------------------------------------------------------------------------------- serving


def test_a_rank_that_is_gone_is_said_although_another_node_cannot_be_read() -> None:
    gone = seen(node("spark1", ended(0)), away("spark2"))
    decision = decide(serving(IDLE), gone)
    assert decision.sentence == (
        "not serving: rank 0 on spark1 is gone; spark2 is unknown (unreachable); "
        "nothing is started or stopped until it can be read"
    )
    assert decision.actions == (), "nobody is there to answer"
    worker = seen(away("spark1"), node("spark2", ended(1)))
    assert decide(serving(IDLE), worker).sentence.startswith("not serving: rank 1 on spark2 is gone; spark1 is unknown")


def test_half_an_hour_in_which_requests_fail_forgives_nothing() -> None:
    failing = replace(IDLE, canary_at=NOW, canary_failing_since=NOW - 40, canary_failures=2)
    before = serving(failing, serving_since=NOW - 86400, failures=3, resource_tries=2)
    assert decide(before, both()).state.failures == 3
    assert decide(replace(before, watch=IDLE), both()).state.failures == 0


# ------------------------------------------------------------------------------------------------- starts after a gap


def long_ago(before: State) -> State:
    """A start whose budget is used up."""
    return replace(before, started_at=NOW - 50_000, looked_at=NOW - 5, outage=down(NOW - 50_000))


@pytest.mark.parametrize("gap", ["a node was unread", "sparkd stood still"])
def test_a_start_is_not_given_up_on_the_first_look_after_a_gap(gap: str) -> None:
    """It had become ready meanwhile, and its answer to that one look was late."""
    before = long_ago(HEAD)
    if gap == "a node was unread":
        blind = seen(node("spark1", container(0)), away("spark2"), engine=LATE)
        before = replace(decide(before, blind, now=NOW - 5).state, looked_at=NOW - 5)
    else:
        before = replace(before, looked_at=NOW - 700)
    first = decide(before, both(LATE))
    assert (first.state.phase, first.reason) == (Phase.START_HEAD, "loading")
    ready = decide(first.state, both(), now=NOW + 5)
    assert ready.state.phase is Phase.WARMUP
    state = first.state
    for passed in range(5, int(AFTER_GAP_S) + 5, 5):
        decision = decide(state, both(LATE), now=NOW + passed)
        state = decision.state
    assert state.failure is not None, "but not for ever"
    assert state.failure.signature == "start-timeout"


def test_a_warm_up_that_failed_before_a_gap_is_asked_again_first() -> None:
    before = replace(
        long_ago(WARMUP), watch=Watch(canary_at=NOW - 600, canary_failing_since=NOW - 700, canary_failures=1)
    )
    blind = decide(before, seen(node("spark1", container(0)), away("spark2"), engine=HEALTHY), now=NOW - 5)
    assert (blind.state.phase, blind.actions) == (Phase.WARMUP, ())
    first = decide(blind.state, both())
    assert first.actions == (WarmUp(1, 60.0),)
    asked = answer(WarmUp(1, 60.0), ok=False, why="not finished within 60 s")
    second = decide(replace(first.state, looked_at=NOW + 56), at(both(), NOW + 61, asked), now=NOW + 61)
    assert second.state.failure is not None
    assert second.state.failure.signature == "start-timeout"


# --------------------------------------------------------------------------------------------- canaries that err


def erring(now: float) -> Outcome:
    canary = Canary(1, now - 2, now, False, "error chunk under status 200, after 1 tokens", kind="error")
    return Outcome(CANARY, True, now, value=canary)


def counted(tokens: float) -> EngineView:
    return replace(HEALTHY, metrics=EngineMetrics(0.0, 0.0, 10.0, tokens, 0.0))


def test_tokens_that_only_a_canary_moved_are_no_answer() -> None:
    """Every canary was counted by the engine and answered with an error: for hours it was said to serve."""
    state, tokens, sent = serving(IDLE), 10.0, None
    reasons: list[str] = []
    for passed in range(0, 900, 5):
        now = NOW + passed
        ended = sent is not None and now - sent >= 5
        look = replace(both(counted(tokens)), at=now, outcomes={"demo": erring(now)} if ended else {})
        look = replace(look, busy={"demo": CANARY} if sent is not None and not ended else {})
        decision = decide(state, look, now=now)
        state, reasons = decision.state, [*reasons, decision.reason]
        sent = None if ended else sent
        if state.phase is not Phase.SERVE:
            break
        if decision.actions and sent is None:
            sent, tokens = now, tokens + 1
    assert reasons[10:-1] == ["not-answering"] * len(reasons[10:-1])
    assert state.failure is not None
    assert (state.failure.signature, 600 <= passed < 700) == ("stalled", True)


def test_tokens_of_others_end_the_doubt_that_a_canary_answered_with_an_error_made() -> None:
    state = decide(serving(IDLE), both(counted(10.0), erring(NOW))).state
    assert state.watch.erring
    own = decide(state, at(both(counted(11.0)), NOW + 5), now=NOW + 5).state
    assert own.watch.canary_failures == 1
    others = decide(own, at(both(counted(12.0)), NOW + 15), now=NOW + 15).state
    assert (others.watch.canary_failures, others.watch.erring) == (0, False)
    late = answer(CANARY, ok=False, why="not finished within 60 s")
    moving = decide(
        decide(serving(IDLE), both(counted(10.0), late)).state, at(both(counted(11.0)), NOW + 5), now=NOW + 5
    )
    assert moving.state.watch.canary_failures == 0, "late is not dead"
