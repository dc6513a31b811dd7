"""Is it serving? Every row of the verdict table against the clock, and everything that must not be a verdict."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from sparkd.model.decision import Cause, Failure, SendCanary, StartRanks, State, Watch
from sparkd.model.snapshot import Container, EngineMetrics, EngineView, Outcome, Ping, Snapshot, Unknown

from .world import (
    HEALTHY,
    NOW,
    UP,
    answer,
    away,
    both,
    container,
    decide,
    failed,
    kinds,
    node,
    play,
    process,
    seen,
    serving,
)

Look = Callable[[float], Snapshot]
CANARY = SendCanary(1, 60.0)
LOST, SENT = Ping("10.0.0.2", None), Ping("10.0.0.2", 0.2)
DEAD, REFUSED, LATE = EngineView(health=503), EngineView(health=None), EngineView(health=Unknown("late", NOW))
EXCEPTION = replace(HEALTHY, log_findings=("1:worker-exception",))
BUSY = replace(HEALTHY, metrics=EngineMetrics(1.0, 4.0, 10.0, 10.0, 0.0))


def moving(at: float, **more: Any) -> EngineView:
    return replace(HEALTHY, metrics=EngineMetrics(1.0, 0.0, 10.0, 10.0 + at, 0.1), **more)


def stuck(state: str = "T", rank: int = 1, pid: int = 501, engine: EngineView = HEALTHY) -> Snapshot:
    ranks = (container(0), container(1))
    facts = {"processes": (process(ranks[rank], pid, state),)}
    head, worker = (facts, {}) if rank == 0 else ({}, facts)
    return seen(node("spark1", ranks[0], **head), node("spark2", ranks[1], **worker), engine=engine)


def silent(engine: EngineView = HEALTHY, ping: Ping = LOST) -> Snapshot:
    return both(engine, pings=(ping,))


def never(at: float) -> bool:
    return False


# A look by seconds passed, whether canaries are answered, and when it is acted on for what (None: not within 20 minutes).
VERDICTS: dict[str, tuple[Look, Callable[[float], bool], float | None, str, Cause]] = {
    "503": (lambda at: both(DEAD), never, 30, "engine-dead", Cause.CRASH),
    "the API refuses": (lambda at: both(REFUSED), never, 30, "engine-dead", Cause.CRASH),
    "503, then too late to answer": (lambda at: both(DEAD if at < 10 else LATE), never, 30, "engine-dead", Cause.CRASH),
    "an exception, and canaries fail": (lambda at: both(EXCEPTION), never, 60, "worker-exception", Cause.CRASH),
    "an exception, and requests freeze": (
        lambda at: both(replace(BUSY, log_findings=("1:worker-exception",))),
        never,
        30,
        "worker-exception",
        Cause.CRASH,
    ),
    "an exception that scrolled away": (
        lambda at: both(EXCEPTION if at < 10 else HEALTHY),
        never,
        60,
        "worker-exception",
        Cause.CRASH,
    ),
    "a dead engine in the log": (
        lambda at: both(replace(HEALTHY, log_findings=("0:engine-dead",))),
        never,
        60,
        "worker-exception",
        Cause.CRASH,
    ),
    "a worker is stopped": (lambda at: stuck("T"), never, 60, "rank-stuck", Cause.WEDGE),
    "a head hangs in the kernel": (lambda at: stuck("D", rank=0, pid=500), never, 60, "rank-stuck", Cause.WEDGE),
    "a container is paused": (
        lambda at: seen(node("spark1", container(0)), node("spark2", container(1, state="paused")), engine=HEALTHY),
        never,
        60,
        "rank-stuck",
        Cause.WEDGE,
    ),
    "the fabric is silent": (lambda at: silent(), never, 60, "fabric-silent", Cause.WEDGE),
    "there is no way to the peer": (
        lambda at: silent(ping=Ping("10.0.0.2", None, "[Errno 101] Network is unreachable")),
        never,
        60,
        "fabric-silent",
        Cause.WEDGE,
    ),
    "nothing moves at all": (lambda at: both(), never, 715, "stalled", Cause.WEDGE),
    "nothing moves and no metrics": (
        lambda at: both(replace(HEALTHY, metrics=None)),
        never,
        715,
        "stalled",
        Cause.WEDGE,
    ),
    "metrics cannot be read": (
        lambda at: both(replace(HEALTHY, metrics=Unknown("late", NOW))),
        never,
        715,
        "stalled",
        Cause.WEDGE,
    ),
    "health is late for ever": (lambda at: both(LATE), never, 715, "stalled", Cause.WEDGE),
    "requests hang and nothing else": (lambda at: both(BUSY), never, 715, "stalled", Cause.WEDGE),
}


@pytest.mark.parametrize(("look", "canary", "seconds", "signature", "cause"), VERDICTS.values(), ids=VERDICTS.keys())
def test_verdicts(look: Look, canary: Any, seconds: float, signature: str, cause: Cause) -> None:
    passed, decision = play(serving(), look, 1200, canary=canary)
    assert decision.state.failure is not None, decision.sentence
    assert (decision.state.failure.signature, decision.state.cause) == (signature, cause)
    # A canary that is needed for the verdict is sent at once and known to have failed 60 s later.
    assert seconds <= passed <= seconds + 10


NOTHING: dict[str, tuple[Look, Callable[[float], bool]]] = {
    "all is well": (lambda at: both(moving(at)), never),
    "idle": (lambda at: both(), lambda at: True),
    "counters frozen, but a canary answers": (lambda at: both(BUSY), lambda at: True),
    "canaries late while tokens flow": (lambda at: both(moving(at // 50)), never),
    "a long prefill that fills the cache": (
        lambda at: both(replace(HEALTHY, metrics=EngineMetrics(1.0, 0.0, 10.0, 10.0, at / 2000))),
        never,
    ),
    "stopped, but tokens flow": (lambda at: stuck(engine=moving(at)), never),
    "stopped, but it answers": (lambda at: stuck(), lambda at: True),
    "silent, but tokens flow": (lambda at: silent(moving(at)), never),
    "silent, but it answers": (lambda at: silent(), lambda at: True),
    "an exception, but it answers": (lambda at: both(EXCEPTION), lambda at: True),
    "pings are forbidden": (lambda at: silent(moving(at), Ping("10.0.0.2", None, "Operation not permitted")), never),
    "503 now and then": (lambda at: both(DEAD if at % 30 < 10 else moving(at)), never),
    "another status": (lambda at: both(replace(moving(at), health=404)), never),
    "findings without a name": (
        lambda at: both(moving(at, log_findings=("1:peer-hint", "0:shutdown-triggered"))),
        never,
    ),
}


@pytest.mark.parametrize(("look", "canary"), NOTHING.values(), ids=NOTHING.keys())
def test_no_verdict(look: Look, canary: Any) -> None:
    passed, decision = play(serving(), look, 1200, canary=canary)
    assert passed > 1200, decision.sentence


def test_pings_that_cannot_be_sent_shorten_nothing() -> None:
    forbidden = Ping("10.0.0.2", None, "Operation not permitted")
    passed, _ = play(serving(), lambda at: silent(ping=forbidden), 1200, canary=never)
    assert passed >= 715


def test_ordinary_io_is_not_stuck() -> None:
    """Another process is in state D at every look: that is a busy disk, not a stuck rank."""
    passed, decision = play(serving(), lambda at: stuck("D", pid=int(at)), 600, canary=never)
    assert passed > 600, decision.sentence
    assert decide(serving(Watch(stuck_since=NOW - 50, stuck=("x",))), stuck()).state.watch.stuck_since == NOW


def test_the_same_process_is_followed_among_others() -> None:
    def look(at: float) -> Snapshot:
        worker = container(1)
        found = (process(worker, 501, "D"), process(worker, int(600 + at), "D"))
        return seen(node("spark1", container(0)), node("spark2", worker, processes=found), engine=HEALTHY)

    _, decision = play(serving(), look, 1200, canary=never)
    assert decision.state.failure is not None
    assert decision.state.failure.evidence == tuple(
        f"rank 1: VLLM::Worker (pid {pid}) is in state D" for pid in (501, int(decision.state.failure.at - NOW) + 600)
    )


def test_evidence_that_goes_takes_its_clock_along() -> None:
    before = serving(Watch(tokens=20.0, dead_since=NOW - 20, stuck_since=NOW - 50, silent_since=NOW - 50))
    watch = decide(before, both()).state.watch
    assert (watch.dead_since, watch.stuck_since, watch.silent_since, watch.stuck) == (None, None, None, ())


def test_a_verdict_says_what_was_seen() -> None:
    before = serving(
        Watch(tokens=20.0, canary_failing_since=NOW - 90, canary_failures=2, silent_since=NOW - 70, canary_at=NOW - 5)
    )
    decision = decide(before, silent())
    failure: Failure | None = decision.state.failure
    assert failure is not None
    text = "a peer is silent on the fabric and requests fail, for 70 s (2 canary requests failed)"
    assert (failure.text, failure.evidence) == (text, ("10.0.0.2 does not answer spark1 on the fabric",))
    assert decision.state.down_since == NOW - 90, "the outage began with the first failed request"


def test_a_verdict_without_a_canary() -> None:
    decision = decide(serving(Watch(dead_since=NOW - 30)), both(DEAD))
    assert decision.state.failure is not None
    assert decision.state.failure.text == "the engine says that it is dead, for 30 s (no canary was needed)"
    assert decision.state.down_since == NOW - 30


def test_facts_that_are_unread_are_no_evidence() -> None:
    why = Unknown("no answer", NOW)
    look = seen(node("spark1", container(0), processes=why, pings=why), node("spark2", container(1)), engine=HEALTHY)
    watch = decide(serving(Watch(tokens=20.0, stuck_since=NOW - 50, silent_since=NOW - 50)), look).state.watch
    assert (watch.stuck_since, watch.silent_since) == (None, None)
    nothing = decide(serving(Watch(dead_since=NOW - 50)), both(None)).state
    assert nothing.watch.dead_since is None


# -------------------------------------------------------------------------------------------------- across unread gaps


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
    assert decision.state.down_since is not None
    assert decision.state.down_since < NOW + 120


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
