"""Faults of docs/faults.md that a few decisions show whole; each test is named by its fault."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sparkd.decide.evidence import after_canary
from sparkd.engines.vllm.findings import findings
from sparkd.model.action import SendCanary
from sparkd.model.decision import Cause, FailureClass, Phase, State, Watch
from sparkd.model.log_finding import FindingKind, LogFinding
from sparkd.model.snapshot import Canary, Outcome

from .world import HEALTHY, NOW, both, container, decide, ended, kinds, node, seen, serving, state


def failing(generation: int, failures: int = 9) -> Outcome:
    canary = Canary(generation, NOW - 60, NOW, False, "late", kind="late")
    return Outcome(SendCanary(generation, 60.0), True, NOW, value=canary)


def test_f11_what_failed_in_one_generation_is_not_counted_in_the_next() -> None:
    """A probe that had failed nine times killed the healthy container that was started after it."""
    doubted = Watch(canary_failing_since=NOW - 590, canary_failures=9, stuck_since=NOW - 59, silent_since=NOW - 59)
    begun = decide(state(Phase.CLEANUP, cleaned=2, watch=doubted), seen()).state
    assert (begun.generation, begun.watch) == (2, Watch())
    assert after_canary(begun.watch, failing(1), begun.generation) == Watch(), "nor what comes late of the one before"


RPC = "ERROR [multiproc_executor.py:278] TimeoutError: RPC call to execute_model timed out."


def test_f15_an_engine_that_ends_itself_over_a_slow_compile_is_named_and_restarted_once() -> None:
    (found,) = findings([RPC])
    assert (found.name, found.kind) == ("rpc-timeout", FindingKind.FAULT)
    frozen = serving(Watch(tokens=20.0, canary_at=NOW, exception_since=NOW - 31, canary_failing_since=NOW - 31))
    decision = decide(frozen, both(replace(HEALTHY, log_findings=(replace(found, rank=1),))))
    assert (decision.state.phase, decision.state.cause) == (Phase.BACKOFF, Cause.CRASH)
    assert decision.state.failure is not None
    assert "log: 1:rpc-timeout" in decision.state.failure.evidence
    assert decide(decision.state, both()).state.failures == 1


def test_f19_a_dead_engine_in_a_container_that_stays_up_ends_the_whole_group() -> None:
    """`EngineDeadError`, the server gone, the container `running`, and 106 GB held by the worker for good."""
    dead = replace(HEALTHY, health=503, metrics=None, log_findings=(LogFinding("engine-dead", FindingKind.FAULT),))
    first = decide(serving(), both(dead))
    assert first.state.phase is Phase.SERVE
    second = decide(first.state, both(dead), now=NOW + 31)
    assert second.state.failure is not None
    assert second.state.failure.signature == "engine-dead"
    assert kinds(decide(second.state, both(dead), now=NOW + 32)) == ["StopRanks"]
    worker = seen(node("spark1", ended(0, 0)), node("spark2", container(1)))
    (stop,) = decide(second.state, worker, now=NOW + 40).actions
    assert [one.rank for one in stop.targets] == [1]  # type: ignore[union-attr]


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("before", [serving(), state(Phase.START_HEAD, ranks_started=(0, 1)), state(Phase.WARMUP)])
def test_f20_a_rank_that_ends_with_0_while_it_is_wanted_has_failed(before: State, rank: int) -> None:
    """Restart policies of the kind `on-failure` leave it down."""
    other = container(1 - rank)
    look = seen(
        node("spark1", ended(0, 0) if rank == 0 else other), node("spark2", ended(1, 0) if rank == 1 else other)
    )
    failure = decide(before, look).state.failure
    assert failure is not None
    assert (failure.signature, failure.cls, failure.rank) == ("exit-0", FailureClass.TRANSIENT, rank)
