"""Facts that end a generation at once, and those that look like it and do not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sparkd.decide.classify import EXITS
from sparkd.model.config import Backoff, Policy
from sparkd.model.decision import Cause, Failure, FailureClass, Phase, Planned, State, Watch
from sparkd.model.machine import Boot
from sparkd.model.snapshot import Container, NodeView, Snapshot, Unknown

from .world import (
    HEALTHY,
    NOW,
    UP,
    away,
    began,
    both,
    close_wait,
    container,
    decide,
    down,
    ended,
    node,
    process,
    seen,
    serving,
    state,
    young,
)


def after(rank0: Container | None, rank1: Container | None, **before: Any) -> Any:
    one, two = [(found,) if found is not None else () for found in (rank0, rank1)]
    return decide(serving(**before), seen(node("spark1", *one), node("spark2", *two), engine=HEALTHY))


RUNS = (container(0), container(1))
ENDS: list[tuple[Container | None, Container | None, str, str]] = [
    (RUNS[0], ended(1, 137), "exit-137", "rank 1 on spark2 was killed (SIGKILL)"),
    (RUNS[0], ended(1, 0), "exit-0", "rank 1 on spark2 ended by itself with status 0 although nobody asked it to"),
    (
        RUNS[0],
        ended(1, 137, oom_killed=True),
        "oom-killed",
        "rank 1 on spark2 was killed for lack of memory (OOMKilled)",
    ),
    (RUNS[0], ended(1, 77), "exit-77", "rank 1 on spark2 ended with status 77"),
    (RUNS[0], container(1, state="dead"), "exit--1", "rank 1 on spark2 ended with status -1"),
    (RUNS[0], None, "rank-removed", "rank 1 on spark2 was removed by somebody"),
    (RUNS[0], container(1, state="created"), "rank-removed", "rank 1 on spark2 was removed by somebody"),
    (None, RUNS[1], "rank-removed", "rank 0 on spark1 was removed by somebody"),
    (ended(0, 0), ended(1, 137), "exit-137", "rank 1 on spark2 was killed (SIGKILL)"),
    (ended(0, 0), None, "rank-removed", "rank 1 on spark2 was removed by somebody"),
    (
        ended(0, 1, finished_at="2026-11-27T07:00:09Z"),
        ended(1, 1, finished_at="2026-11-27T07:00:01Z"),
        "exit-1",
        "rank 1 on",
    ),
    (ended(0, 0), ended(1, 0), "exit-0", "rank 0 on spark1 ended"),
]


@pytest.mark.parametrize(("rank0", "rank1", "signature", "words"), ENDS)
def test_a_rank_that_is_gone_ends_the_group(
    rank0: Container | None, rank1: Container | None, signature: str, words: str
) -> None:
    decision = after(rank0, rank1)
    assert (decision.state.phase, decision.reason, decision.state.cause) == (Phase.BACKOFF, "failed", Cause.CRASH)
    assert decision.state.failure.signature == signature
    assert decision.state.failure.text.startswith(words)
    assert (began(decision), decision.state.failures) == (NOW, 1)
    assert decision.events == (("failed", decision.state.failure.text),)


@pytest.mark.parametrize("state_of_it", ["running", "paused", "restarting", "removing"])
def test_what_may_still_run_is_not_gone(state_of_it: str) -> None:
    assert after(RUNS[0], container(1, state=state_of_it)).state.phase is Phase.SERVE


def test_f23_evidence_of_another_generation_says_nothing() -> None:
    """kubernetes-sigs/lws#804: the late death of the old group restarted the new one."""
    look = seen(node("spark1", container(0, 8)), node("spark2", container(1, 8), replace(ended(1, 1, 7), id="old")))
    decision = decide(serving(generation=8), replace(look, engines={"demo": HEALTHY}))
    assert (decision.state.phase, decision.reason) == (Phase.SERVE, "stale-rank"), "it is cleared away, no more"


def test_a_rank_on_the_wrong_node_is_none() -> None:
    assert decide(serving(), seen(node("spark1", container(0), container(1)))).state.failure is not None


@pytest.mark.parametrize(
    "view", [away("spark2"), node("spark2", containers=Unknown("Docker is stopped there", NOW, "docker-stopped"))]
)
def test_f01_unknown_is_not_dead(view: NodeView) -> None:
    decision = decide(serving(), seen(node("spark1", container(0)), view, engine=HEALTHY))
    assert (decision.state.phase, decision.reason, decision.actions) == (Phase.SERVE, "node-unknown", ())
    assert began(decision) is None


def test_an_outage_that_can_be_seen_begins_while_a_node_is_unread() -> None:
    look = seen(node("spark1", ended(0, 0)), away("spark2"))
    before = decide(serving(), look)
    assert (before.state.phase, began(before)) == (Phase.SERVE, NOW)
    back = decide(before.state, seen(node("spark1", ended(0, 0)), node("spark2", ended(1))), now=NOW + 180)
    assert (back.state.phase, began(back)) == (Phase.BACKOFF, NOW)


# -------------------------------------------------------------------------------------------------- shutdowns and boots


@pytest.mark.parametrize("rank1", [(ended(1, 143),), ()], ids=["ended", "removed"])
def test_a_rank_that_ends_with_its_node_is_no_failure(rank1: tuple[Container, ...]) -> None:
    look = seen(node("spark1", ended(0, 0)), node("spark2", *rank1, system="stopping"))
    decision = decide(serving(), look)
    assert (decision.state.phase, decision.reason, decision.state.failures) == (Phase.SERVE, "node-stopping", 0)
    assert began(decision) == NOW
    assert began(decide(decision.state, look, now=NOW + 60)) == NOW


def test_a_node_that_is_going_down_still_serves() -> None:
    look = seen(node("spark1", container(0)), node("spark2", container(1), system="stopping"), engine=HEALTHY)
    assert decide(serving(), look).reason == "serving"


BOOTED = Boot("spark2-boot2", 0, 40.0)


@pytest.mark.parametrize("phase", [Phase.START_WORKERS, Phase.START_HEAD, Phase.WARMUP, Phase.SERVE])
def test_a_reboot_starts_the_group_anew_and_is_no_failure(phase: Phase) -> None:
    look = seen(node("spark1", container(0)), node("spark2", ended(1), boot=BOOTED))
    decision = decide(state(phase), look)
    assert (decision.state.phase, decision.state.cause, decision.state.failures) == (Phase.PRECHECK, Cause.BOOT, 0)
    assert decision.sentence == "spark2 rebooted; starting the group anew"
    assert began(decision) == NOW - 40, "it was down before it booted"


OUTAGES = [
    ({"outage": down(NOW - 300)}, NOW - 300),
    ({"started_at": NOW - 10}, NOW - 10),
    ({"started_at": None}, NOW),
]


@pytest.mark.parametrize(("before", "since"), OUTAGES)
def test_the_outage_of_a_reboot(before: dict[str, Any], since: float) -> None:
    look = seen(node("spark1", container(0)), node("spark2", boot=BOOTED))
    assert began(decide(serving(**before), look)) == since


def test_two_nodes_that_rebooted() -> None:
    look = seen(node("spark1", boot=Boot("spark1-boot2", 0, 200.0)), young("spark2"))
    decision = decide(serving(), look)
    assert (decision.sentence[:31], began(decision)) == ("spark1 and spark2 rebooted; sta", NOW - 200)


def test_the_same_boot_id_with_another_init_is_a_reboot() -> None:
    """Containers share the host's boot id: a node container that was restarted has another PID 1."""
    look = seen(node("spark1", container(0)), node("spark2", boot=Boot("spark2-boot1", 11, 5.0)))
    assert decide(serving(), look).reason == "rebooted"


def test_a_rank_of_a_node_declared_lost_is_lost() -> None:
    look = seen(node("spark1", container(0)), away("spark2"))
    decision = decide(serving(), look, replace(UP, lost=frozenset({"spark2"})))
    assert decision.state.failure is not None
    assert decision.state.failure.signature == "node-lost"


# --------------------------------------------------------------------------------------------------------------- widows


def widow(worker: Container, **facts: Any) -> Snapshot:
    known: dict[str, Any] = {"sockets": (close_wait(pid=501),), "processes": (process(worker, 501),)}
    return seen(node("spark1", container(0)), node("spark2", worker, **known | facts), engine=HEALTHY)


def test_a_widow_ends_the_group() -> None:
    first = decide(serving(), widow(container(1)))
    assert (first.reason, first.state.phase, first.actions) == ("widow-seen", Phase.SERVE, ())
    decision = decide(first.state, widow(container(1)))
    assert decision.state.failure is not None
    assert (decision.state.failure.signature, decision.state.failure.rank) == ("widowed", 1)
    assert first.state.watch.widow_since == NOW
    later = decide(first.state, widow(container(1)), now=NOW + 5)
    assert later.lost_at == NOW, "when it was first seen"


def test_a_widow_is_remembered_while_its_heads_node_comes_and_goes() -> None:
    first = decide(serving(), widow(container(1)))
    unread = decide(first.state, seen(away("spark1"), node("spark2", container(1))), now=NOW + 5)
    assert unread.reason == "node-unknown"
    failure = decide(unread.state, widow(container(1)), now=NOW + 10).state.failure
    assert failure is not None
    assert failure.signature == "widowed"
    well = decide(first.state, both(), now=NOW + 5)
    assert well.state.watch.widow_since is None


def test_how_the_head_ended_is_told_and_not_its_widow() -> None:
    """The head ended between the moments in which its node and the worker's were read."""
    first = decide(serving(), widow(container(1)))
    killed = container(0, state="exited", exit_code=137, oom_killed=True)
    worker = node("spark2", container(1), sockets=(close_wait(pid=501),), processes=(process(container(1), 501),))
    decision = decide(first.state, seen(node("spark1", killed), worker))
    assert decision.state.failure is not None
    assert (decision.state.failure.signature, decision.state.failure.rank) == ("oom-killed", 0)


NO_WIDOW: list[dict[str, Any]] = [
    {"sockets": (close_wait(port=8000, pid=501),)},
    {"sockets": (close_wait(pid=None),)},
    {"sockets": (close_wait(pid=777),)},
    {"processes": (process("older", 501),)},
    {"sockets": Unknown("no answer", NOW)},
    {"processes": Unknown("no answer", NOW)},
]


@pytest.mark.parametrize(
    "facts", NO_WIDOW, ids=["another port", "no pid", "stranger", "older rank", "no sockets", "no pids"]
)
def test_only_its_own_socket_makes_a_widow(facts: dict[str, Any]) -> None:
    assert decide(serving(), widow(container(1), **facts)).state.phase is Phase.SERVE


def test_a_worker_that_is_not_there_yet_is_no_widow() -> None:
    decision = decide(state(Phase.START_WORKERS), seen(node("spark2", sockets=(close_wait(),))))
    assert decision.reason == "start-ranks"


# --------------------------------------------------------------------------------------------------- what happens next


@pytest.mark.parametrize(("code", "kind"), EXITS.items())
def test_exits_have_a_class(code: int, kind: Any) -> None:
    decision = after(RUNS[0], ended(1, code))
    assert (decision.state.failure.cls, decision.state.failure.signature) == (kind.cls, f"exit-{code}")
    assert decision.state.phase is Phase.BACKOFF, "an exit alone proves nothing the first time"


def earlier(signature: str, generation: int = 0) -> Failure:
    return Failure(generation, FailureClass.PERMANENT, signature, "", NOW - 60, 0.0)


REPEATS: list[tuple[int, dict[str, Any], bool]] = [
    (127, {"failure": earlier("exit-127"), "failures": 1}, True),
    (2, {"failure": earlier("exit-2"), "failures": 4}, True),
    (2, {"failure": earlier("exit-127"), "failures": 1}, False),
    (127, {"failure": earlier("exit-127"), "failures": 0}, False),
    (127, {"failure": earlier("exit-127", generation=1), "failures": 1}, False),
    (127, {"failure": None, "failures": 1}, False),
    (1, {"failure": earlier("exit-1"), "failures": 9}, False),
]


@pytest.mark.parametrize(("code", "before", "held"), REPEATS)
def test_the_second_identical_permanent_failure_holds(code: int, before: dict[str, Any], held: bool) -> None:
    decision = after(RUNS[0], ended(1, code), **before)
    assert (decision.state.phase is Phase.HELD) is held
    if held:
        assert decision.state.hold.fact == f"exit:{code}"
        assert decision.state.hold.fix
        assert [kind for kind, _ in decision.events] == ["failed", "held"]


@pytest.mark.parametrize(
    ("failures", "pause"), [(0, 15), (1, 30), (2, 60), (3, 120), (6, 900), (50, 900), (100_000, 900)]
)
def test_the_pause_doubles_to_its_maximum(failures: int, pause: float) -> None:
    exact = Policy(backoff=Backoff(jitter=0.0))
    decision = decide(serving(failures=failures), seen(node("spark1", container(0))), policy=exact)
    assert decision.state.retry_at == NOW + pause
    spread = decide(serving(failures=failures), seen(node("spark1", container(0)))).state.retry_at
    assert spread is not None
    assert 0.75 * pause <= spread - NOW <= 1.25 * pause
    assert spread == decide(serving(failures=failures), seen(node("spark1", container(0)))).state.retry_at


FIRST: list[tuple[float, Cause | None, dict[str, Any], float]] = [
    (1800, Cause.CRASH, {}, 0),
    (1799, Cause.CRASH, {}, 15),
    (600, Cause.OPERATOR, {}, 0),
    (600, Cause.CONFIG, {}, 0),
    (599, Cause.OPERATOR, {}, 15),
    (600, Cause.BOOT, {}, 15),
    (1800, Cause.CRASH, {"failures": 4, "failure": earlier("exit-127")}, 0),
    (2400, Cause.CRASH, {"watch": Watch(canary_at=NOW, canary_failing_since=NOW - 599)}, 0),
    (2400, Cause.CRASH, {"watch": Watch(canary_at=NOW, canary_failing_since=NOW - 601)}, 15),
    (9000, Cause.CRASH, {"watch": Watch(tokens_at=NOW - 8700)}, 15),  # then it was paused, and nobody looked
    (9000, Cause.CRASH, {"watch": Watch(canary_at=NOW, unsent="no key")}, 15),
    (9000, Cause.CRASH, {"watch": Watch()}, 15),
]


@pytest.mark.parametrize(("served", "cause", "facts", "pause"), FIRST)
def test_the_first_failure_after_long_serving_costs_no_pause(
    served: float, cause: Cause, facts: dict[str, Any], pause: float
) -> None:
    exact = Policy(backoff=Backoff(jitter=0.0))
    before = serving(**{"serving_since": NOW - served, "cause": cause, "watch": Watch(tokens_at=NOW), **facts})
    look = seen(node("spark1", container(0)), node("spark2", ended(1, 127)), engine=HEALTHY)
    decision = decide(before, look, policy=exact)
    assert (decision.state.phase, decision.state.retry_at) == (Phase.BACKOFF, NOW + pause), decision.sentence
    assert decision.state.failures == 1
    assert decision.sentence.endswith("restarting the group now" if pause == 0 else "in 15 s")
    next_start = state(Phase.START_HEAD, **kept(decision.state))
    following = decide(next_start, seen(node("spark2", ended(1, 137))), policy=exact)
    assert following.state.failures == 2
    assert following.state.retry_at == NOW + (15 if pause == 0 else 30)


def kept(before: State) -> dict[str, Any]:
    """What a start takes over of the failure before it."""
    return {"failures": before.failures, "spared": before.spared, "failure": before.failure, "ranks_started": (0, 1)}


def test_the_last_start_of_a_day_is_followed_by_a_hold() -> None:
    spent = serving(starts=tuple(NOW - 7000 * number for number in range(12)))
    decision = decide(spent, seen(node("spark1", container(0))))
    assert (decision.state.phase, decision.reason) == (Phase.HELD, "held-budget")
    assert "was removed by somebody; the daily budget is used up: 12 automatic starts" in decision.sentence


def test_a_failure_with_a_full_hour_says_when_it_goes_on() -> None:
    spent = serving(starts=tuple(NOW - 600 * number for number in range(5)), cause=Cause.CRASH)
    decision = decide(spent, seen(node("spark1", container(0))))
    assert decision.next == Planned(NOW + 1200, "group restart")
    assert [kind for kind, _ in decision.events] == ["failed", "budget-pause"]
    assert "the limit is 5; restarting the group in 20 min" in decision.sentence
    assert decision.state.retry_at is not None
    assert decision.state.retry_at < NOW + 20, "what the failure costs itself"


def test_half_an_hour_of_serving_forgets() -> None:
    before = serving(failures=3, resource_tries=2, serving_since=NOW - 1804, cause=Cause.CRASH)
    assert decide(before, both()).state.failures == 3
    answered = replace(before, watch=Watch(tokens_at=NOW - 4, canary_at=NOW - 30))
    forgiven = decide(answered, both(), now=NOW + 1).state
    assert (forgiven.failures, forgiven.resource_tries) == (0, 0)
    assert decide(replace(before, serving_since=None), both()).state.failures == 3
