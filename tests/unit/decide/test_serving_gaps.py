"""Serving across unread gaps, when a canary is sent, and how it is said."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from sparkd.model.action import SendCanary, StartRanks
from sparkd.model.decision import State, Watch
from sparkd.model.snapshot import Container, EngineView, Outcome, Snapshot

from .world import (
    BUSY,
    CANARY,
    DEAD,
    EXCEPTION,
    HEALTHY,
    NOW,
    UP,
    Look,
    answer,
    away,
    began,
    both,
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


def gaps(unread: Callable[[float], bool], well: Callable[[float], Snapshot]) -> Look:
    def look(at: float) -> Snapshot:
        found = well(at)
        return replace(found, nodes={**found.nodes, "spark2": away("spark2")}) if unread(at) else found

    return look


def test_while_a_worker_is_unread_nothing_ends_but_the_truth_is_known_afterwards() -> None:
    """Both networks gone for 12 minutes, requests failing: no verdict until the node is back, and then at once."""
    passed, decision = play(serving(), gaps(lambda at: at < 800, lambda at: both()), 1200, canary=never)
    assert passed == 800
    assert decision.state.failure is not None
    assert decision.state.failure.signature == "stalled"
    since = began(decision)
    assert since is not None
    assert since < NOW + 120


def test_a_gap_that_heals_leaves_nothing_behind() -> None:
    passed, decision = play(serving(), gaps(lambda at: at < 800, lambda at: both()), 1200, canary=lambda at: at > 790)
    assert passed == 800, "the last canary before the node was back had failed for ten minutes"
    passed, decision = play(serving(), gaps(lambda at: at < 300, lambda at: both()), 1200, canary=lambda at: at > 290)
    assert passed > 1200, decision.sentence


def test_a_flapping_node_does_not_stop_the_clock_of_failing_requests() -> None:
    passed, _ = play(serving(), gaps(lambda at: at % 40 < 20, lambda at: both()), 1200, canary=never)
    assert 715 <= passed <= 720


def test_silence_counts_only_while_the_node_can_be_read() -> None:
    passed, decision = play(serving(), gaps(lambda at: at < 200, lambda at: silent()), 1200, canary=never)
    assert decision.state.failure is not None
    assert decision.state.failure.signature == "fabric-silent"
    assert passed == 260


def test_while_the_head_is_unread_no_canary_is_sent() -> None:
    due = serving(Watch(tokens=20.0))
    worker_away = seen(node("spark1", container(0)), away("spark2"), engine=HEALTHY)
    assert decide(due, worker_away).actions == (CANARY,)
    assert decide(due, seen(away("spark1"), node("spark2", container(1)))).actions == ()
    lost = replace(UP, lost=frozenset({"spark1"}))
    assert decide(due, seen(away("spark1"), away("spark2")), lost).actions == ()


def test_half_blind_it_says_both() -> None:
    doubtful = serving(Watch(tokens=20.0, canary_at=NOW - 5, canary_failing_since=NOW - 200))
    look = seen(node("spark1", container(0)), away("spark2"), engine=HEALTHY)
    assert decide(doubtful, look).sentence == (
        "serving as far as can be seen: spark2 is unknown (unreachable); canaries fail since 3 min; "
        "nothing is started or stopped until it can be read"
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
