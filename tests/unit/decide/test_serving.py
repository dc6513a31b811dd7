"""Is it serving? Every row of the verdict table against the clock, and everything that must not be a verdict."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from sparkd.model.decision import Cause, Failure, Watch
from sparkd.model.log_finding import FindingKind, LogFinding
from sparkd.model.machine import Ping
from sparkd.model.snapshot import EngineMetrics, Snapshot, Unknown

from .world import (
    BUSY,
    DEAD,
    EXCEPTION,
    HEALTHY,
    LATE,
    NOW,
    REFUSED,
    Look,
    began,
    both,
    container,
    decide,
    moving,
    never,
    node,
    play,
    process,
    seen,
    serving,
    silent,
    stuck,
)

HINTS = (LogFinding("peer-hint", FindingKind.HINT, 1), LogFinding("shutdown-triggered", FindingKind.ENDING))

# A look by seconds passed, whether canaries are answered, and when it is acted on for what (None: not within 20 minutes).
VERDICTS: dict[str, tuple[Look, Callable[[float], bool], float | None, str, Cause]] = {
    "503": (lambda at: both(DEAD), never, 30, "engine-dead", Cause.CRASH),
    "the API refuses": (lambda at: both(REFUSED), never, 30, "engine-dead", Cause.CRASH),
    "503, then too late to answer": (lambda at: both(DEAD if at < 10 else LATE), never, 30, "engine-dead", Cause.CRASH),
    "an exception, and canaries fail": (lambda at: both(EXCEPTION), never, 60, "worker-exception", Cause.CRASH),
    "an exception, and requests freeze": (
        lambda at: both(replace(BUSY, log_findings=(LogFinding("worker-exception", FindingKind.FAULT, 1),))),
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
        lambda at: both(replace(HEALTHY, log_findings=(LogFinding("engine-dead", FindingKind.FAULT),))),
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
        lambda at: both(
            moving(
                at,
                log_findings=(
                    LogFinding("peer-hint", FindingKind.HINT, 1),
                    LogFinding("shutdown-triggered", FindingKind.ENDING),
                ),
            )
        ),
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
    assert began(decision) == NOW - 90, "the outage began with the first failed request"


def test_a_verdict_without_a_canary() -> None:
    decision = decide(serving(Watch(dead_since=NOW - 30)), both(DEAD))
    assert decision.state.failure is not None
    assert decision.state.failure.text == "the engine says that it is dead, for 30 s (no canary was needed)"
    assert began(decision) == NOW - 30


def test_facts_that_are_unread_are_no_evidence() -> None:
    why = Unknown("no answer", NOW)
    look = seen(node("spark1", container(0), processes=why, pings=why), node("spark2", container(1)), engine=HEALTHY)
    watch = decide(serving(Watch(tokens=20.0, stuck_since=NOW - 50, silent_since=NOW - 50)), look).state.watch
    assert (watch.stuck_since, watch.silent_since) == (None, None)
    nothing = decide(serving(Watch(dead_since=NOW - 50)), both(None)).state
    assert nothing.watch.dead_since is None
