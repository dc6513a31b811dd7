"""The ranks in their order, refusals, and the wait for the engine."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest

from sparkd.decide import machine
from sparkd.engines.vllm import Vllm
from sparkd.model.action import RemoveRanks, StartRanks, Target
from sparkd.model.check import Checked, Finding, Level, Status
from sparkd.model.config import Deployment
from sparkd.model.decision import FailureClass, Phase
from sparkd.model.failure_code import FailureCode
from sparkd.model.snapshot import EngineView, Outcome, Unknown

from .world import (
    DEPLOYMENT,
    HEAD,
    LOADING,
    NOW,
    WORKERS,
    away,
    both,
    container,
    decide,
    failed,
    kinds,
    node,
    seen,
    state,
    young,
)

START_1, START_0 = StartRanks((1,), 1), StartRanks((0,), 1)


def test_workers_first_then_the_head() -> None:
    assert decide(WORKERS, seen()).actions == (START_1,)
    worker = seen(node("spark2", container(1)), outcome=Outcome(START_1, True, NOW))
    following = decide(WORKERS, worker)
    assert (following.state.phase, following.state.ranks_started, following.actions) == (Phase.START_HEAD, (1,), ())
    assert decide(following.state, worker).actions == (START_0,)


def test_three_nodes_start_their_workers_at_once() -> None:
    three = replace(DEPLOYMENT, nodes=("spark1", "spark2", "spark3"))
    look = replace(seen(), nodes={**seen().nodes, "spark3": node("spark3")})
    decision = decide(WORKERS, look, deployment=three)
    assert decision.actions == (StartRanks((1, 2), 1),)
    assert decision.sentence == "starting rank 1, 2 on spark2 and spark3"


@dataclass(frozen=True, slots=True)
class HeadFirst(Vllm):
    """Ray's order."""

    name: str = "head-first"
    start_order: tuple[str, ...] = ("head", "workers")


@pytest.fixture
def head_first(monkeypatch: pytest.MonkeyPatch) -> Deployment:
    monkeypatch.setattr(machine, "ENGINES", {"head-first": HeadFirst()})
    return replace(DEPLOYMENT, engine="head-first")


def test_an_engine_may_want_its_head_first(head_first: Deployment) -> None:
    assert decide(HEAD, seen(), deployment=head_first).actions == (START_0,)
    running = seen(node("spark1", container(0)))
    assert decide(HEAD, running, deployment=head_first).state.phase is Phase.START_WORKERS
    assert decide(WORKERS, running, deployment=head_first).actions == (START_1,)
    assert decide(WORKERS, both(LOADING), deployment=head_first).reason == "loading"
    gone = decide(WORKERS, seen(node("spark2", container(1))), deployment=head_first)
    assert gone.sentence.startswith("rank 0 on spark1 was removed")
    adopting = state(Phase.ADOPTING, before=Phase.WARMUP)
    assert decide(adopting, both(), deployment=head_first).state.phase is Phase.START_WORKERS


def test_a_phase_that_the_edited_file_no_longer_has_ends() -> None:
    alone = replace(DEPLOYMENT, nodes=("spark1",))
    assert decide(WORKERS, seen(), deployment=alone).reason == "failed"


def test_nothing_starts_while_a_node_is_unread_or_going_down() -> None:
    assert decide(WORKERS, seen(away("spark1"))).reason == "node-unknown"
    refused = failed(START_1, FailureCode.REFUSED)
    decision = decide(WORKERS, seen(node("spark2", system="stopping"), outcome=refused))
    assert (decision.reason, decision.actions, decision.state.failures) == ("node-stopping", (), 0)


def test_a_rank_that_was_created_and_never_started_goes_first() -> None:
    look = seen(node("spark2", container(1, state="created")))
    assert decide(WORKERS, look).actions == (RemoveRanks((Target("spark2", "sparkd-demo-1-g1", 1, 1),)),)


# ------------------------------------------------------------------------------------------------------------ refusals


def refusal(code: FailureCode, **look: Any) -> Any:
    return decide(WORKERS, seen(*look.values(), outcome=failed(START_1, code)))


def test_an_unknown_refusal_is_tried_again() -> None:
    decision = refusal(FailureCode.TIMEOUT)
    assert (decision.state.phase, decision.reason) == (Phase.BACKOFF, "failed")
    assert decision.sentence.startswith(
        "a rank could not be started on spark2: it did not work; restarting the group in"
    )
    assert decision.state.failure is not None
    assert (decision.state.failure.signature, decision.state.failure.cls) == ("timeout", FailureClass.TRANSIENT)


HELD = [
    (FailureCode.IMAGE_MISSING, "image:spark2:vllm:1"),
    (FailureCode.MOUNT_MISSING, "mount:spark2:mount-missing"),
    (FailureCode.GPU, "gpu:spark2:gpu"),
    (FailureCode.DEVICE_MISSING, "device:spark2:device-missing"),
    (FailureCode.NOT_EXECUTABLE, "exit:spark2:not-executable"),
]


@pytest.mark.parametrize(("code", "fact"), HELD)
def test_a_refusal_that_proves_its_cause_holds_at_once(code: FailureCode, fact: str) -> None:
    decision = refusal(code)
    assert decision.state.hold is not None
    assert (decision.state.phase, decision.state.hold.fact) == (Phase.HELD, fact)
    assert [kind for kind, _ in decision.events] == ["failed", "held"]


def test_a_secret_that_cannot_be_read_holds_until_the_check_passes() -> None:
    """The file was good when the checks ran, and lies on the head, whatever node the rank is for."""
    outcome = replace(
        failed(START_1, FailureCode.SECRET), node="", error="secret HF_TOKEN cannot be read from /t: it is empty"
    )
    decision = decide(WORKERS, seen(outcome=outcome))
    assert decision.sentence == "held: a rank could not be started: secret HF_TOKEN cannot be read from /t: it is empty"
    held = decision.state.hold
    assert held is not None
    assert (held.fact, held.heals_itself) == ("check::secret", True)
    bad = Finding(code="secret", severity=Level.FAIL, status=Status.FAIL)
    assert bad.fact == held.fact
    good = replace(bad, status=Status.OK, node="spark1")
    for found, phase in ((bad, Phase.HELD), (good, Phase.PRECHECK)):
        look = replace(seen(), checks={DEPLOYMENT.name: Checked(NOW + 1, 0.1, (found,))})
        assert decide(decision.state, look, now=NOW + 31).state.phase is phase


@pytest.mark.parametrize(
    "code", [FailureCode.IMAGE_MISSING, FailureCode.MOUNT_MISSING, FailureCode.DEVICE_MISSING, FailureCode.GPU]
)
def test_soon_after_a_boot_it_is_not_there_yet(code: FailureCode) -> None:
    before = replace(WORKERS, starts=(NOW - 600,), boots=())
    decision = decide(before, seen(young("spark2"), outcome=failed(START_1, code)))
    after = decision.state
    assert (after.phase, decision.reason, after.failures, after.failure) == (Phase.BACKOFF, "not-yet", 0, None)
    assert (after.starts, after.retry_at) == ((), NOW + 30), "it costs no budget"


def test_a_wrong_command_is_wrong_after_a_boot_too() -> None:
    decision = decide(
        replace(WORKERS, boots=()), seen(young("spark2"), outcome=failed(START_1, FailureCode.NOT_EXECUTABLE))
    )
    assert decision.state.phase is Phase.HELD


def test_a_taken_port_is_measured_again_and_then_held() -> None:
    before, pauses = WORKERS, []
    for generation in range(1, 4):
        action = StartRanks((1,), generation)
        decision = decide(
            replace(before, phase=Phase.START_WORKERS, generation=generation),
            seen(outcome=failed(action, FailureCode.PORT)),
        )
        assert decision.state.retry_at is not None
        pauses.append(decision.state.retry_at - NOW)
        before = decision.state
    assert pauses == [30, 60, 120]
    again = replace(before, phase=Phase.START_WORKERS)
    decision = decide(again, seen(outcome=failed(StartRanks((1,), 3), FailureCode.PORT)))
    assert (decision.state.phase, decision.reason) == (Phase.HELD, "held-port")


def test_a_name_taken_by_somebody_else_holds() -> None:
    decision = refusal(FailureCode.NAME_TAKEN, spark2=node("spark2", container(1, owner="somebody")))
    assert (decision.state.phase, decision.reason) == (Phase.HELD, "held-name")


def test_f03_a_name_taken_by_an_earlier_request_of_ours_is_no_failure() -> None:
    """A sparkd died within the start, and Docker finished it."""
    same = refusal(FailureCode.NAME_TAKEN, spark2=node("spark2", container(1)))
    assert (same.state.phase, same.state.failures) == (Phase.START_HEAD, 0)
    older = refusal(FailureCode.NAME_TAKEN, spark2=node("spark2", container(1, generation=0)))
    assert (older.reason, kinds(older), older.state.failures) == ("stale-rank", ["StopRanks"], 0)
    created = refusal(FailureCode.NAME_TAKEN, spark2=node("spark2", container(1, generation=0, state="created")))
    assert (created.reason, kinds(created)) == ("stale-rank", ["RemoveRanks"])
    assert refusal(FailureCode.NAME_TAKEN).state.phase is Phase.BACKOFF, "taken by what nobody sees"


def test_the_refusal_of_another_generation_says_nothing() -> None:
    decision = decide(WORKERS, seen(outcome=failed(StartRanks((1,), 0))))
    assert decision.actions == (START_1,)


# ---------------------------------------------------------------------------------------------------------------- wait


def test_it_waits_and_says_how_far_it_is() -> None:
    decision = decide(replace(HEAD, stage="ranks", stages=(("ranks", NOW - 600),)), both(LOADING))
    assert decision.sentence == "waiting for the engine: loading weights, 0 s so far"
    assert decision.state.stages == (("ranks", NOW - 600), ("weights", NOW))
    assert decision.next is not None
    assert decision.next.at == NOW - 600 + 2700
    again = decide(decision.state, both(LOADING), now=NOW + 10)
    assert again.state.stages == decision.state.stages
    assert again.sentence == "waiting for the engine: loading weights, 10 s so far"


@pytest.mark.parametrize("engine", [None, EngineView(health=Unknown("late", NOW)), EngineView(health=404)])
def test_no_answer_yet(engine: EngineView | None) -> None:
    assert (
        decide(replace(HEAD, started_at=None), both(engine)).sentence == "waiting for the engine: starting, 0 s so far"
    )


TIMEOUTS = [("d1", 1800.0), ("d0", 2700.0), ("", 2700.0)]


@pytest.mark.parametrize(("warm_digest", "limit"), TIMEOUTS, ids=["warm", "another file served", "never served"])
def test_a_start_has_a_budget(warm_digest: str, limit: float) -> None:
    before = replace(HEAD, warm_digest=warm_digest)
    assert decide(before, both(LOADING), now=NOW - 600 + limit - 1).reason == "loading"
    decision = decide(before, both(LOADING), now=NOW - 600 + limit)
    assert decision.state.failure is not None
    assert (decision.state.failure.signature, decision.state.failure.cls) == ("start-timeout", FailureClass.TRANSIENT)


def test_an_engine_that_is_dead_before_it_was_ready() -> None:
    dead = EngineView(health=503)
    first = decide(HEAD, both(dead))
    assert (first.reason, first.state.watch.dead_since) == ("loading", NOW)
    assert decide(first.state, both(dead), now=NOW + 29).reason == "loading"
    decision = decide(first.state, both(dead), now=NOW + 30)
    assert decision.state.failure is not None
    assert (decision.reason, decision.state.failure.signature) == ("failed", "engine-dead")
    late = decide(first.state, both(EngineView(health=Unknown("late", NOW))), now=NOW + 15)
    assert late.state.watch.dead_since == NOW, "late says neither yes nor no"
    slept = decide(first.state, both(EngineView(health=Unknown("late", NOW))), now=NOW + 700)
    assert (slept.reason, slept.state.watch.dead_since) == ("loading", None), "nobody looked for eleven minutes"
    assert decide(first.state, both(LOADING), now=NOW + 20).state.watch.dead_since is None, (
        "refused is normal in a start"
    )
