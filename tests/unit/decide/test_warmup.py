"""The warm-up: ready is a correct completion, streamed to its end, by our own rank."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sparkd.model.action import WarmUp
from sparkd.model.config import Start
from sparkd.model.decision import Cause, Failure, FailureClass, Phase, Watch
from sparkd.model.snapshot import EngineMetrics, EngineView, Outcome, Unknown

from .world import (
    DEPLOYMENT,
    HEAD,
    HEALTHY,
    LOADING,
    NOW,
    UP,
    WARMUP,
    WORKERS,
    answer,
    away,
    both,
    container,
    decide,
    down,
    ended,
    kinds,
    listening,
    node,
    process,
    seen,
    serving,
)


def test_an_engine_that_answers_is_warmed_up() -> None:
    ready = decide(HEAD, both())
    assert (ready.state.phase, ready.reason) == (Phase.WARMUP, "warmup")
    assert decide(ready.state, both()).actions == (WarmUp(1, 2100.0),)


def warm(**outcome: Any) -> Outcome:
    return answer(WarmUp(1, 60.0), **outcome)


def test_ready_is_a_correct_completion() -> None:
    before = replace(WARMUP, outage=down(NOW - 100), stages=(("ranks", NOW - 600),), digest="d9")
    decision = decide(before, both(outcome=warm(ok=True)))
    after = decision.state
    assert (after.phase, after.serving_since, after.serving_since_wall) == (Phase.SERVE, NOW, 1.7e9)
    assert (after.outage, after.warm_digest, after.stage) == (None, "d9", None)
    assert after.last_outage == replace(down(NOW - 100), ended=NOW, ended_wall=1.7e9, answered=1)
    assert decision.sentence == "serving: generation 1 answered after 10 min; it was down for 2 min"
    assert after.watch == Watch(canary_at=NOW, tokens_at=NOW)


@pytest.mark.parametrize(("before", "after"), [(None, 100.0), (7.0, 7.0)], ids=["this outage", "one long over"])
def test_an_outage_belongs_to_its_own_failure(before: float | None, after: float) -> None:
    failure = Failure(0, FailureClass.TRANSIENT, "exit-0", "ended", NOW - 100, 0.0, outage_s=before)
    served = decide(replace(WARMUP, failure=failure, outage=down(NOW - 100)), both(outcome=warm(ok=True))).state
    assert served.failure is not None
    assert served.last_outage is not None
    assert (served.failure.outage_s, served.last_outage.lasted_s(NOW)) == (after, 100)


def test_a_first_start_ends_no_outage() -> None:
    decision = decide(replace(WARMUP, started_at=None), both(outcome=warm(ok=True)))
    assert (decision.state.outage, decision.state.last_outage) == (None, None)
    assert decision.sentence == "serving: generation 1 answered after unknown time"


def test_the_rate_is_said_where_it_is_known() -> None:
    outcome = warm(ok=True)
    canary = replace(outcome.value, tokens_per_second=37.16)  # type: ignore[type-var]
    assert "after 10 min, 37.2 tok/s" in decide(WARMUP, both(outcome=replace(outcome, value=canary))).sentence


def test_an_answer_counts_even_while_a_worker_is_unread() -> None:
    look = seen(node("spark1", container(0)), away("spark2"), outcome=warm(ok=True))
    assert decide(WARMUP, look).state.phase is Phase.SERVE
    assert decide(WARMUP, replace(look, outcomes={})).reason == "node-unknown"


@pytest.mark.parametrize("outcome", [warm(ok=True, generation=7), Outcome(WarmUp(7, 1.0), False, NOW)])
def test_an_answer_of_another_generation_is_none(outcome: Outcome) -> None:
    decision = decide(WARMUP, both(outcome=outcome))
    assert (decision.state.phase, kinds(decision)) == (Phase.WARMUP, ["WarmUp"])


def test_a_warm_up_that_fails_is_tried_again_after_a_pause() -> None:
    first = decide(WARMUP, both(outcome=warm(ok=False, why="error chunk")))
    assert (first.sentence, first.actions) == ("warming up with a real completion (last answer: error chunk)", ())
    assert decide(first.state, both(), now=NOW + 14).actions == ()
    assert kinds(decide(first.state, both(), now=NOW + 15)) == ["WarmUp"]


def test_the_first_warm_up_is_sent_however_late_it_is() -> None:
    """Paused for an hour while it loaded: it is ready now, and nobody has asked it yet."""
    before = replace(WARMUP, started_at=NOW - 9000)
    assert decide(before, both()).actions == (WarmUp(1, 60.0),)
    decision = decide(before, both(outcome=warm(ok=False)))
    assert decision.state.failure is not None
    assert decision.state.failure.signature == "start-timeout"


@pytest.mark.parametrize("health", [503, None])
def test_an_engine_that_dies_of_its_first_request(health: int | None) -> None:
    first = decide(WARMUP, both(EngineView(health=health)))
    assert first.state.phase is Phase.WARMUP
    decision = decide(first.state, both(EngineView(health=health)), now=NOW + 30)
    assert decision.state.failure is not None
    assert decision.state.failure.signature == "engine-dead"


def test_a_rank_that_ends_of_the_first_request() -> None:
    look = seen(node("spark1", ended(0, 0)), node("spark2", container(1)), outcome=warm(ok=False))
    decision = decide(WARMUP, look)
    assert decision.sentence.startswith("rank 0 on spark1 ended by itself with status 0 although nobody asked it to;")


LISTENERS: list[tuple[dict[str, Any], bool]] = [
    ({"sockets": (listening(8000, pid=77),)}, True),
    ({"sockets": (listening(8000, pid=500),)}, False),
    ({"sockets": (listening(8000, pid=None),)}, False),
    ({"sockets": (listening(8001, pid=77),)}, False),
    ({"sockets": Unknown("no answer", NOW)}, False),
    ({"sockets": (listening(8000, pid=77),), "processes": Unknown("no answer", NOW)}, False),
    ({"sockets": (listening(8000, pid=77),), "processes": (process("other"),)}, False),
]


@pytest.mark.parametrize(("facts", "strange"), LISTENERS)
def test_the_listener_must_be_our_rank(facts: dict[str, Any], strange: bool) -> None:
    decision = decide(WARMUP, both(**facts))
    assert (decision.reason == "failed") is strange
    if strange:
        assert decision.state.failure is not None
        assert decision.state.failure.signature == "port-taken"


def test_stale_ranks_go_without_disturbing_the_start() -> None:
    look = seen(
        node("spark1", container(0)), node("spark2", container(1), replace(container(0, 0), id="old")), engine=HEALTHY
    )
    for before in (HEAD, WARMUP, serving()):
        decision = decide(before, look)
        assert (decision.reason, decision.state.phase) == ("stale-rank", before.phase)
        assert [one.container for one in decision.actions[0].targets] == ["old"]  # type: ignore[union-attr]


def test_on_a_lost_node_nothing_is_started() -> None:
    decision = decide(WORKERS, seen(away("spark2")), replace(UP, lost=frozenset({"spark2"})))
    assert (decision.state.phase, decision.actions) == (Phase.BACKOFF, ())
    assert decision.sentence.startswith("spark2 was declared lost, and rank 1 with it")


def test_tokens_of_others_do_not_replace_the_warm_up() -> None:
    moving = replace(HEALTHY, metrics=EngineMetrics(1.0, 0.0, 99.0, 99.0))
    before = replace(WARMUP, started_at=NOW - 9000, watch=Watch(tokens=1.0))
    assert decide(before, both(moving, outcome=warm(ok=False))).reason == "failed"


def test_the_start_budget_is_the_files() -> None:
    quick = replace(DEPLOYMENT, start=Start(timeout=10.0, warm_timeout=5.0))
    assert decide(HEAD, both(LOADING), deployment=quick).reason == "failed"


def test_causes_stay_with_the_start() -> None:
    assert decide(replace(WARMUP, cause=Cause.WEDGE), both(outcome=warm(ok=True))).state.cause is Cause.WEDGE
