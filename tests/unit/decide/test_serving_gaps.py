"""Serving across unread gaps, when a canary is sent, and how it is said."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from sparkd.model.action import SendCanary, StartRanks
from sparkd.model.decision import Phase, State, Watch
from sparkd.model.failure_code import FailureCode
from sparkd.model.snapshot import Canary, Container, EngineView, NodeView, Outcome, Snapshot

from .world import (
    BUSY,
    CANARY,
    DEAD,
    EXCEPTION,
    HEALTHY,
    LATE,
    NOW,
    UP,
    Look,
    answer,
    away,
    began,
    both,
    close_wait,
    container,
    decide,
    failed,
    kinds,
    never,
    node,
    play,
    seen,
    serving,
    silent,
    stuck,
)

NODES = ("spark1", "spark2")


def gaps(unread: Callable[[float], bool], well: Callable[[float], Snapshot]) -> Look:
    def look(at: float) -> Snapshot:
        found = well(at)
        return replace(found, nodes={**found.nodes, "spark2": away("spark2")}) if unread(at) else found

    return look


def gone_for(seconds: float) -> Look:
    return gaps(lambda at: at < seconds, lambda at: both())


def test_after_a_gap_canaries_have_to_fail_anew() -> None:
    """Both networks gone for 12 minutes, requests failing: the clock runs on, but what failed meanwhile is no evidence."""
    passed, decision = play(serving(), gone_for(800), 2000, canary=never)
    assert 800 + 300 < passed < 800 + 300 + 150, "two more canaries, sent over half of the ten minutes"
    assert decision.state.failure is not None
    assert decision.state.failure.signature == "stalled"
    since = began(decision)
    assert since is not None
    assert since < NOW + 120, "the outage began with the first that failed"


def test_a_gap_that_heals_leaves_nothing_behind() -> None:
    for seconds in (800, 300):
        passed, decision = play(serving(), gone_for(seconds), 2000, canary=lambda at, until=seconds: at > until - 10)  # type: ignore[misc]
        assert passed > 2000, decision.sentence
        assert decision.reason == "serving"


def test_while_a_node_comes_and_goes_nothing_is_done_and_the_truth_is_said() -> None:
    passed, decision = play(serving(), gaps(lambda at: at % 40 < 20, lambda at: both()), 1200, canary=never)
    assert (passed > 1200, decision.reason) == (True, "not-answering")


def test_silence_counts_only_while_the_node_can_be_read() -> None:
    passed, decision = play(serving(), gaps(lambda at: at < 200, lambda at: silent()), 1200, canary=never)
    assert decision.state.failure is not None
    assert decision.state.failure.signature == "fabric-silent"
    assert 260 <= passed <= 200 + 3 * 60 + 2 * 15, "the canary on its way and two more, each of a minute"


GAPS: dict[str, Callable[[State, Outcome], State]] = {
    "the loop stood still": lambda before, outcome: decide(before, both(outcome=outcome), now=NOW + 5).state,
    "the head's node was unread": lambda before, outcome: through(before, outcome, away("spark1")),
    "a worker's node was unread": lambda before, outcome: through(before, outcome, away("spark2")),
}


def through(before: State, outcome: Outcome, lost: NodeView) -> State:
    """Eleven minutes of looks in which this node is unread; the outcome is shown in the first."""
    for at in range(5, 675, 5):
        look = replace(both(outcome=outcome if at == 5 else None), at=NOW + at)
        look = replace(look, nodes={**look.nodes, lost.name: lost})
        before = decide(before, look, now=NOW + at).state
    return before


@pytest.mark.parametrize("gap", GAPS.values(), ids=GAPS.keys())
def test_one_stale_canary_never_restarts_an_idle_healthy_group(gap: Callable[[State, Outcome], State]) -> None:
    """The first complete look after eleven minutes took the clock of one canary for eleven minutes of failing."""
    before = serving(Watch(tokens=20.0, tokens_at=NOW - 130, canary_at=NOW - 130))
    after = gap(before, answer(CANARY, ok=False, sent_at=NOW, why="cannot connect"))
    first = decide(after, both(), now=NOW + 675)
    assert (first.state.phase, first.actions) == (Phase.SERVE, (CANARY,)), first.sentence
    assert "serving" in (first.reason, decide(first.state, both(outcome=late_answer(True)), now=NOW + 680).reason)


def late_answer(ok: bool, sent_at: float = NOW + 676, ended_at: float = NOW + 679) -> Outcome:
    return Outcome(CANARY, True, ended_at, value=Canary(1, sent_at, ended_at, ok))


@pytest.mark.parametrize(
    ("look", "signature", "limit"),
    [
        (both(), "stalled", 600.0),
        (stuck(), "rank-stuck", 60.0),
        (silent(), "fabric-silent", 60.0),
        (both(EXCEPTION), "worker-exception", 30.0),
    ],
    ids=["stalled", "stuck", "silent", "exception"],
)
def test_after_a_gap_each_verdict_on_canaries_needs_two_sent_since(
    look: Snapshot, signature: str, limit: float
) -> None:
    """Everything had failed for an hour when the loop stood still; what was shown by then never counts alone."""
    long_ago = NOW - 3600
    before = serving(
        Watch(
            tokens=20.0,
            canary_at=NOW - 1,
            canary_failing_since=long_ago,
            canary_failures=9,
            exception_since=long_ago if signature == "worker-exception" else None,
            stuck_since=long_ago if signature == "rank-stuck" else None,
            stuck=tuple(stuck_at(look)) if signature == "rank-stuck" else (),
            silent_since=long_ago if signature == "fabric-silent" else None,
        ),
        looked_at=NOW - 700,
    )
    state = decide(before, look).state
    assert (state.phase, state.watch.gap_until) == (Phase.SERVE, NOW)
    # One, however long it took, and two that were sent too close together, are not enough.
    for sent, phase in ((1.0, "serve"), (limit / 2 - 1, "serve"), (limit / 2 + 1, "backoff")):
        outcome = Outcome(CANARY, True, NOW + sent + 10, value=Canary(1, NOW + sent, NOW + sent + 10, False))
        at = NOW + sent + 10
        state = decide(replace(state, looked_at=at - 5), replace(look, outcomes={"demo": outcome}), now=at).state
        assert state.phase == phase, (sent, state.sentence)
    assert state.failure is not None
    assert state.failure.signature == signature


def stuck_at(look: Snapshot) -> list[str]:
    return list(decide(serving(), look).state.watch.stuck)


def test_gone_widowed_dead_and_a_persons_wish_wait_for_no_canary() -> None:
    before = serving(Watch(tokens=20.0, canary_at=NOW, dead_since=NOW - 20), looked_at=NOW - 700)
    lost = seen(node("spark1", container(0)), node("spark2", container(1, state="exited", exit_code=0)), engine=HEALTHY)
    assert decide(before, lost).state.phase is Phase.BACKOFF
    assert decide(replace(before, watch=Watch(dead_since=NOW - 31)), both(DEAD)).state.phase is Phase.BACKOFF
    widow = seen(
        node("spark1", container(0)),
        node("spark2", container(1), sockets=(close_wait(pid=501),)),
        engine=HEALTHY,
    )
    again = decide(decide(before, widow).state, widow)
    assert again.state.failure.signature == "widowed"  # type: ignore[union-attr]
    assert decide(before, both(), replace(UP, restart=1)).state.phase is Phase.PRECHECK


def test_a_dead_engine_that_says_nothing_after_a_gap_is_asked_again() -> None:
    """One refused connection before a standstill of eleven minutes is not eleven minutes of refusing."""
    before = serving(Watch(tokens=20.0, canary_at=NOW, dead_since=NOW - 700), looked_at=NOW - 695)
    after = decide(before, both(LATE))
    assert (after.state.phase, after.state.watch.dead_since) == (Phase.SERVE, None)


def test_a_canary_that_sparkd_slept_over_has_not_failed() -> None:
    before = serving(Watch(tokens=20.0, canary_at=NOW - 130, tokens_at=NOW - 130), looked_at=NOW - 700)
    slept = Outcome(CANARY, True, NOW - 1, value=Canary(1, NOW - 699, NOW - 1, False, "not finished within 60 s"))
    after = decide(before, both(outcome=slept))
    assert (after.state.watch.canary_failures, after.reason, after.actions) == (0, "serving", (CANARY,))
    # Also when it ends after the first look.
    first = decide(before, both())
    again = decide(first.state, both(outcome=replace(slept, ended_at=NOW + 3)), now=NOW + 5)
    assert (again.state.watch.canary_failures, again.reason) == (0, "serving")


def test_waiting_for_others_within_their_deadlines_is_no_gap() -> None:
    quiet = Watch(tokens=20.0, canary_at=NOW - 5)
    for looked_at, took_s, late in ((NOW - 15, 0.0, False), (NOW - 24, 10.0, False), (NOW - 16, 0.0, True)):
        look = replace(both(), took_s=took_s)
        after = decide(serving(quiet, looked_at=looked_at), look).state.watch
        assert (after.late_until, after.gap_until) == ((NOW, NOW) if late else (None, None))


def test_what_could_not_be_sent_is_no_canary_that_failed() -> None:
    before = serving(Watch(tokens=20.0, canary_at=NOW - 130))
    outcome = failed(CANARY, FailureCode.SECRET, error="secret VLLM_API_KEY cannot be read from /etc/key: no such file")
    after = decide(before, both(outcome=outcome))
    assert after.state.watch.canary_failures == 0
    assert (after.reason, after.state.watch.canary_failing_since) == ("suspect", None)
    assert after.sentence == f"not sure that it serves: no canary can be sent: {outcome.error}"
    assert decide(after.state, both(outcome=answer(CANARY, ok=True))).reason == "serving"


# ------------------------------------------------------------------------------------------------------- not answering


def test_two_canaries_in_a_row_that_failed_are_said_at_once() -> None:
    one = decide(serving(Watch(tokens=20.0)), both(outcome=answer(CANARY, ok=False)))
    assert one.reason == "serving"
    two = decide(one.state, both(outcome=answer(CANARY, ok=False)))
    assert (two.reason, two.state.watch.not_answering) == ("not-answering", True)
    assert two.sentence == "not answering: 2 canaries in a row failed, the first 2 s ago"
    assert decide(two.state, both(outcome=answer(CANARY, ok=True))).reason == "serving"


@pytest.mark.parametrize("lost", ["spark1", "spark2"])
def test_with_a_node_unread_canaries_go_on_and_their_failing_is_said(lost: str) -> None:
    look = seen(*(away(name) if name == lost else node(name, container(rank)) for rank, name in enumerate(NODES)))
    due = serving(Watch(tokens=20.0))
    assert decide(due, look).actions == (CANARY,)
    failing = serving(Watch(tokens=20.0, canary_at=NOW - 5, canary_failing_since=NOW - 40, canary_failures=2))
    after = decide(failing, look)
    assert after.sentence == (
        f"not answering: 2 canaries in a row failed, the first 40 s ago; {lost} is unknown (unreachable); "
        "nothing is started or stopped until it can be read"
    )
    assert (after.reason, after.state.phase) == ("not-answering", Phase.SERVE)


def test_a_head_that_a_person_declared_lost_is_not_asked() -> None:
    lost = replace(UP, lost=frozenset({"spark1"}))
    assert decide(serving(Watch(tokens=20.0)), seen(away("spark1"), away("spark2")), lost).actions == ()


def test_requests_that_hang_with_a_node_unread_are_asked_about_soon() -> None:
    hanging = serving(Watch(tokens=20.0, canary_at=NOW - 15, tokens_at=NOW - 15))
    assert decide(hanging, both(BUSY)).actions == ()
    assert decide(hanging, seen(node("spark1", container(0)), away("spark2"), engine=BUSY)).actions == (CANARY,)


def test_half_blind_it_says_both() -> None:
    doubtful = serving(Watch(tokens=20.0, canary_at=NOW - 5, canary_failing_since=NOW - 200))
    look = seen(node("spark1", container(0)), away("spark2"), engine=HEALTHY)
    assert decide(doubtful, look).sentence == (
        "serving as far as can be seen: spark2 is unknown (unreachable); a canary failed 3 min ago, before or while not "
        "everything could be looked at; asking again; nothing is started or stopped until it can be read"
    )


# ------------------------------------------------------------------------------------------------------------ canaries

DUE: list[tuple[Watch, EngineView, bool]] = [
    (Watch(), HEALTHY, True),
    (Watch(tokens=20.0, canary_at=NOW - 119), HEALTHY, False),
    (Watch(tokens=20.0, canary_at=NOW - 120), HEALTHY, True),
    (Watch(tokens=20.0, canary_at=NOW - 900, tokens_at=NOW - 119), HEALTHY, False),
    (Watch(tokens=20.0, canary_at=NOW - 900, tokens_at=NOW - 120), HEALTHY, True),
    (Watch(tokens=19.0, canary_at=NOW - 900), HEALTHY, False),
    (Watch(tokens=20.0, canary_at=NOW - 15, canary_failing_since=NOW - 15), HEALTHY, True),
    (Watch(tokens=20.0, canary_at=NOW - 14, canary_failing_since=NOW - 14), HEALTHY, False),
    (Watch(tokens=20.0, canary_at=NOW - 15, tokens_at=NOW - 15), DEAD, True),
    (Watch(tokens=20.0, canary_at=NOW - 60, tokens_at=NOW - 60, frozen_since=NOW - 30), BUSY, False),
]


@pytest.mark.parametrize(("watch", "engine", "due"), DUE)
def test_a_canary_is_sent_only_when_no_token_moved(watch: Watch, engine: EngineView, due: bool) -> None:
    assert decide(serving(watch), both(engine)).actions == ((CANARY,) if due else ())


def test_a_canary_that_answers_clears_every_doubt() -> None:
    doubts = Watch(
        tokens=20.0, canary_failing_since=NOW - 99, canary_failures=3, exception_since=NOW - 99, frozen_since=1.0
    )
    watch = decide(serving(doubts), both(outcome=answer(CANARY, ok=True))).state.watch
    assert watch == Watch(tokens=20.0, canary_at=NOW)


FAILING: list[tuple[Watch, Outcome, float | None]] = [
    (Watch(tokens=20.0), answer(CANARY, ok=False, sent_at=NOW - 60), NOW - 60),
    (Watch(tokens=20.0, canary_failing_since=NOW - 90), answer(CANARY, ok=False, sent_at=NOW - 60), NOW - 90),
    (Watch(tokens=20.0, tokens_at=NOW - 20), answer(CANARY, ok=False, sent_at=NOW - 60), NOW - 20),
    (Watch(tokens=20.0, tokens_at=NOW - 80), answer(CANARY, ok=False, sent_at=NOW - 60), NOW - 60),
    (Watch(tokens=19.0), answer(CANARY, ok=False, sent_at=NOW - 60), None),
    (Watch(tokens=20.0), failed(CANARY), NOW),
    (Watch(tokens=20.0), Outcome(CANARY, True, NOW), None),
    (Watch(tokens=20.0), answer(CANARY, ok=False, generation=7), None),
    (Watch(tokens=20.0), failed(SendCanary(7, 60.0)), None),
]
IDS = ["sent", "since the first", "after the last token", "long after a token", "tokens move", "ran out of time", "no value",
       "another generation's", "another generation"]  # fmt: skip


@pytest.mark.parametrize(("watch", "outcome", "since"), FAILING, ids=IDS)
def test_since_when_requests_fail(watch: Watch, outcome: Outcome, since: float | None) -> None:
    assert decide(serving(watch), both(outcome=outcome)).state.watch.canary_failing_since == since


def test_tokens_that_move_end_every_doubt() -> None:
    doubts = Watch(
        tokens=5.0, canary_failing_since=NOW - 599, canary_failures=9, exception_since=NOW - 99, frozen_since=NOW
    )
    after = decide(serving(doubts), both())
    assert (after.state.watch, after.reason) == (Watch(tokens=20.0, tokens_at=NOW), "serving")


def test_the_first_look_at_the_counters_is_no_progress() -> None:
    assert decide(serving(Watch(canary_at=NOW)), both()).state.watch.tokens_at is None


def test_frozen_counters_make_sparkd_read_the_logs() -> None:
    watch = decide(serving(), both(BUSY)).state.watch
    assert (watch.frozen_since, watch.suspicious, watch.alarmed) == (NOW, True, False)


# --------------------------------------------------------------------------------------------------------------- words

WORDS: list[tuple[Watch, Snapshot, str, str]] = [
    (Watch(tokens=20.0), both(), "serving", "serving (generation 1)"),
    (Watch(tokens=20.0, canary_failing_since=NOW - 179), both(), "serving", "serving (generation 1)"),
    (Watch(tokens=20.0, canary_failing_since=NOW - 180), both(), "suspect", "canaries fail since 3 min"),
    (Watch(), both(DEAD), "suspect", "the engine's API refuses or says 503"),
    (Watch(tokens=20.0, exception_since=NOW), both(), "suspect", "a rank logged an exception"),
    (Watch(tokens=20.0), both(EXCEPTION), "suspect", "log: 1:worker-exception"),
    (Watch(tokens=20.0), stuck(), "suspect", "rank 1: VLLM::Worker (pid 501) is in state T"),
]


@pytest.mark.parametrize(("watch", "look", "reason", "words"), WORDS)
def test_words(watch: Watch, look: Snapshot, reason: str, words: str) -> None:
    decision = decide(serving(watch), look)
    expected = words if reason == "serving" else f"not sure that it serves: {words}"
    assert (decision.reason, decision.sentence) == (reason, expected)


def test_outcomes_of_other_actions_change_no_clock() -> None:
    before: State = serving()
    outcome = Outcome(StartRanks((1,), 9), True, NOW)
    assert decide(before, both(outcome=outcome), UP).state.ranks_started == (0, 1)


def test_a_stale_rank_of_ours_is_cleared_while_it_serves() -> None:
    old: Container = replace(container(0, 0, "exited"), id="old")
    look = seen(node("spark1", container(0)), node("spark2", container(1), old), engine=HEALTHY)
    assert kinds(decide(serving(), look)) == ["RemoveRanks"]
