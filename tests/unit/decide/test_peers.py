"""A rank that waits for one which cannot come is recognised in a minute; one that is late, or works, is left alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from sparkd.model.decision import Cause, Decision, FailureClass, Phase, State
from sparkd.model.launch import Launch
from sparkd.model.machine import Boot, Socket, Work
from sparkd.model.snapshot import Container, EngineView, NodeView, Snapshot, Unknown
from sparkd.model.start_times import StageTimes

from .world import DEPLOYMENT, HEAD, NOW, away, close_wait, container, decide, kinds, listening, node, process, seen

WAITS, MET, SERVER, SHELL = (
    "VLLM::Worker",
    "VLLM::Worker_TP{}",
    "/opt/bin/python3 /opt/bin/vllm serve /m",
    "bash start.sh",
)
RENDEZVOUS = EngineView(health=None, stage="rendezvous")
BEGUN = replace(HEAD, stage="rendezvous", stages=(("ranks", NOW - 40), ("rendezvous", NOW)), started_at=NOW - 40)
KNOWN = (StageTimes("", False, (("rendezvous", 8.0),)),)
JOINED = Socket("ESTABLISHED", "10.0.0.2", 40000, "10.0.0.1", 29501, 0, 0, 3)
CALLING = replace(JOINED, state="SYN_SENT")


def rank(number: int, *titles: str, state: str = "S", work: int | None = None, **facts: Any) -> NodeView:
    """The node of a rank of generation 1 whose container runs these processes, and has done so much."""
    one: Container = facts.pop("container", container(number))
    own = tuple(process(one, 500 + 10 * number + n, state, title) for n, title in enumerate(titles))
    done = (Work(one.id, work, 0),) if work is not None else ()
    return node(f"spark{number + 1}", one, **{"processes": own, "work": done, **facts})


def look(*nodes: NodeView) -> Snapshot:
    return seen(*nodes, engine=RENDEZVOUS)


HEAD_WAITS = rank(0, SERVER, "VLLM::EngineCore", WAITS)


def play(at: Callable[[float], Snapshot], seconds: float, before: State = BEGUN) -> tuple[float, Decision]:
    """Looks every 5 s until something else than waiting is decided; (seconds passed, last decision)."""
    state, passed = before, 0.0
    while True:
        decision = decide(state, replace(at(passed), at=NOW + passed), now=NOW + passed)
        state = decision.state
        if decision.reason not in ("loading", "node-unknown") or passed >= seconds:
            return passed, decision
        passed += 5.0


def lived(*ranks: int, **more: Any) -> State:
    return replace(BEGUN, launch=Launch(lived=ranks), **more)


GROUPS: list[tuple[str, str, Callable[[], tuple[NodeView, NodeView]], State, float, str]] = [
    (
        "dead engine in a container that runs on",
        "engine-gone",
        lambda: (HEAD_WAITS, rank(1, SHELL)),
        lived(0, 1),
        60,
        "rank 1 on spark2 has no engine process any more, although it counts as running, and rank 0 on spark1 waits for it",
    ),
    (
        "zombie",
        "engine-gone",
        lambda: (HEAD_WAITS, rank(1, SERVER, "[VLLM::Worker]", state="Z")),
        lived(0, 1),
        60,
        "rank 1 on spark2 has no engine process any more, although it counts as running, and rank 0 on spark1 waits for it",
    ),
    (
        "dead head",
        "engine-gone",
        lambda: (rank(0, SHELL), rank(1, SERVER, WAITS)),
        lived(0, 1),
        60,
        "rank 0 on spark1 has no engine process any more, although it counts as running, and rank 1 on spark2 waits for it",
    ),
    (
        "dead while nobody waits",
        "engine-gone",
        lambda: (rank(0, SERVER, MET.format(0)), rank(1, SHELL)),
        lived(0, 1),
        60,
        "rank 1 on spark2 has no engine process any more, although it counts as running",
    ),
    (
        "stopped",
        "peer-stopped",
        lambda: (HEAD_WAITS, rank(1, SERVER, state="T")),
        BEGUN,
        60,
        "rank 1 on spark2 is stopped (a process of it is in state T), and rank 0 on spark1 waits for it",
    ),
    (
        "paused container",
        "peer-stopped",
        lambda: (HEAD_WAITS, rank(1, SERVER, state="D", container=container(1, state="paused"))),
        BEGUN,
        60,
        "rank 1 on spark2 is stopped (its container is paused), and rank 0 on spark1 waits for it",
    ),
    (
        "worker of an earlier head",
        "peer-stale",
        lambda: (HEAD_WAITS, rank(1, SERVER, MET.format(1))),
        BEGUN,
        60,
        "rank 1 on spark2 met its peers in an earlier start and joins no other, and rank 0 on spark1 waits for it",
    ),
    (
        "firewall",
        "peer-unreachable",
        lambda: (
            rank(0, WAITS, sockets=(listening(29501, 500),)),
            rank(1, WAITS, sockets=(CALLING,)),
        ),
        BEGUN,
        60,
        "rank 1 on spark2 has no connection to port 29501 of rank 0 on spark1, and both wait for each other: a firewall "
        "between the nodes, or a wrong `data_address`",
    ),
    (
        "never came, known",
        "peer-absent",
        lambda: (HEAD_WAITS, rank(1, "sleep infinity", work=10)),
        replace(BEGUN, learned=KNOWN),
        60,
        "rank 1 on spark2 has not started its engine and does nothing, and rank 0 on spark1 waits for it",
    ),
    (
        "never came, first start",
        "peer-absent",
        lambda: (HEAD_WAITS, rank(1, "sleep infinity", work=10)),
        BEGUN,
        180,
        "rank 1 on spark2 has not started its engine and does nothing, and rank 0 on spark1 waits for it",
    ),
]


@pytest.mark.parametrize(
    ("signature", "views", "before", "after_s", "text"), [row[1:] for row in GROUPS], ids=[row[0] for row in GROUPS]
)
def test_a_peer_that_cannot_come_is_recognised_and_named(
    signature: str, views: Callable[[], tuple[NodeView, NodeView]], before: State, after_s: float, text: str
) -> None:
    passed, decision = play(lambda at: look(*views()), 300, before)
    failure = decision.state.failure
    assert failure is not None
    assert (passed, failure.signature, failure.text) == (after_s, signature, text)
    assert (failure.cls, decision.state.cause) == (FailureClass.TRANSIENT, Cause.WEDGE)
    assert failure.rank == int(text.split()[1])
    assert failure.evidence[0].startswith("rank 0 on spark1, started some time ago: ")
    assert decision.state.phase is Phase.BACKOFF


@pytest.mark.parametrize(("views", "before"), [row[2:4] for row in GROUPS], ids=[row[0] for row in GROUPS])
def test_it_is_told_before_it_is_acted_on(views: Callable[[], tuple[NodeView, NodeView]], before: State) -> None:
    _, decision = play(lambda at: look(*views()), 25, before)
    assert ";" not in decision.sentence
    _, decision = play(lambda at: look(*views()), 30, before)
    assert "; rank " in decision.sentence


# ------------------------------------------------------------------------------------------------------ what is left alone


def late(peer: Callable[[float], NodeView]) -> Callable[[float], Snapshot]:
    return lambda at: look(HEAD_WAITS, peer(at))


PATIENT: list[tuple[str, Callable[[float], Snapshot]]] = [
    ("it computes", late(lambda at: rank(1, SHELL, work=int(at * 300)))),
    ("it asks in a loop", late(lambda at: rank(1, SHELL, work=int(at)))),
    ("it reads", late(lambda at: rank(1, SHELL, work=5, processes=()) if at < 5 else _reads(at))),
    ("its engine runs and is slow", late(lambda at: rank(1, SERVER, work=10))),
    ("its work is not known", late(lambda at: rank(1, SHELL))),
    ("its work cannot be read", late(lambda at: replace(rank(1, SHELL), work=Unknown("mute", NOW)))),
    ("its processes cannot be read", late(lambda at: rank(1, SHELL, work=1, processes=Unknown("mute", NOW)))),
    ("both wait and are connected", lambda at: look(_listening(), rank(1, WAITS, sockets=(JOINED,)))),
    ("the head does not listen yet", lambda at: look(HEAD_WAITS, rank(1, WAITS, sockets=(CALLING,)))),
    ("another process listens", lambda at: look(_listening(77), rank(1, WAITS, sockets=(CALLING,)))),
    ("sockets cannot be read", lambda at: look(_listening(), rank(1, WAITS, sockets=Unknown("mute", NOW)))),
    ("all have met", lambda at: look(rank(0, MET.format(0)), rank(1, MET.format(1), state="T"))),
    (
        "its script works on after the engine",
        late(lambda at: rank(1, SERVER) if at < 5 else rank(1, SHELL, work=int(at * 30))),
    ),
    ("nobody waits", lambda at: look(rank(0, SERVER), rank(1, SHELL, work=1))),
]


def _reads(at: float) -> NodeView:
    one = container(1)
    return replace(rank(1, SHELL), work=(Work(one.id, 5, int(at * 1e6)),))


def _listening(pid: int = 500) -> NodeView:
    return rank(0, WAITS, sockets=(listening(29501, pid),))


@pytest.mark.parametrize("at", [row[1] for row in PATIENT], ids=[row[0] for row in PATIENT])
def test_ten_minutes_late_is_no_failure(at: Callable[[float], Snapshot]) -> None:
    passed, decision = play(at, 600)
    assert (passed, decision.reason, decision.actions) == (600, "loading", ())
    assert decision.state.failures == 0


@pytest.mark.parametrize("missing", ["peer-absent", "peer-unreachable"])
def test_soon_after_a_boot_it_is_not_yet_there(missing: str) -> None:
    """Mounts, links and daemons of its node may still come."""

    def at(passed: float) -> Snapshot:
        boot = Boot("spark2-boot1", 10, 130.0 + passed)
        if missing == "peer-absent":
            return look(HEAD_WAITS, rank(1, "sleep 600", work=10, boot=boot))
        return look(_listening(), rank(1, WAITS, sockets=(CALLING,), boot=boot))

    passed, decision = play(at, 400, replace(BEGUN, learned=KNOWN))
    assert (passed, decision.reason) == (400, "loading")
    assert decision.sentence.endswith(", not yet (a node booted recently)")
    passed, decision = play(at, 900, replace(BEGUN, learned=KNOWN))
    assert decision.state.failure is not None
    assert (passed, decision.state.failure.signature) == (470, missing), "ten minutes after the boot"


def test_a_node_that_cannot_be_read_ends_nothing_and_the_minute_begins_anew() -> None:
    def at(passed: float) -> Snapshot:
        stale = rank(1, SERVER, MET.format(1))
        return look(HEAD_WAITS, away("spark2") if passed == 50 else stale)

    passed, decision = play(at, 300)
    assert decision.state.failure is not None
    # 55 is the first look after the gap, and shows how it was before: 60 begins.
    assert (passed, decision.state.failure.signature) == (115, "peer-stale")


def test_a_peer_that_comes_within_the_minute_is_no_failure() -> None:
    at = late(lambda passed: rank(1, SERVER, MET.format(1)) if passed % 60 else rank(1, SERVER))
    assert play(at, 600)[1].reason == "loading"


def test_ranks_meet_one_after_the_other() -> None:
    """In a healthy start one has its new title some seconds before the others (evidence 15: 4 s)."""

    def at(passed: float) -> Snapshot:
        head = MET.format(0) if passed >= 50 else WAITS
        return look(rank(0, SERVER, head), rank(1, SERVER, MET.format(1)))

    assert play(at, 600)[1].reason == "loading"


def test_f23_what_another_generation_shows_says_nothing() -> None:
    """A dead engine of generation 1 beside generation 2, and processes that belong to none of its containers."""
    two = replace(BEGUN, generation=2, highest=2)
    old, new = container(1, generation=1), container(1, generation=2)
    head = rank(0, SERVER, WAITS, container=container(0, generation=2))

    def at(passed: float) -> Snapshot:
        own = (process(new, 511, "S", SERVER), process(new, 512, "S", "python3 -c from multiprocessing"))
        others = (process(old, 611, "S", MET.format(1)), process("-", 612, "T", MET.format(1)))
        return look(head, node("spark2", new, processes=(*own, *others)))

    assert play(at, 300, two)[1].reason == "loading"
    running = decide(two, look(head, node("spark2", new, old)))
    assert (running.reason, kinds(running)) == ("stale-rank", ["StopRanks"]), (
        "and what runs of it is ended at the next look"
    )


def test_a_group_of_one_waits_for_nobody_and_may_die_silently_too() -> None:
    alone = replace(DEPLOYMENT, nodes=("spark1",))
    for titles, reason in (((SERVER, WAITS), "loading"), ((SHELL,), "failed")):
        before, at = lived(0), NOW
        for _ in range(13):
            decision = decide(before, look(rank(0, *titles)), now=at, deployment=alone)
            before, at = decision.state, at + 5
        assert decision.reason == reason


def test_three_ranks_name_the_one_that_is_missing() -> None:
    three = replace(DEPLOYMENT, nodes=("spark1", "spark2", "spark3"))
    views = (HEAD_WAITS, rank(1, SERVER, WAITS, sockets=(JOINED,)), rank(2, "sleep infinity", work=3))
    before, at = replace(BEGUN, learned=KNOWN), NOW
    while True:
        decision = decide(before, replace(look(*views), at=at), now=at, deployment=three)
        if decision.reason != "loading":
            break
        before, at = decision.state, at + 5
    assert decision.state.failure is not None
    assert decision.state.failure.text == (
        "rank 2 on spark3 has not started its engine and does nothing, and rank 0 on spark1 and rank 1 on spark2 wait for it"
    )


def test_a_budget_shorter_than_the_minute_names_what_was_seen_too() -> None:
    before = replace(BEGUN, started_at=NOW - 2655)
    passed, decision = play(lambda at: look(HEAD_WAITS, rank(1, SERVER, state="T")), 300, before)
    assert decision.state.failure is not None
    assert (passed, decision.state.failure.signature) == (45, "start-timeout")
    assert decision.state.failure.text == (
        "generation 1 was not ready after 45 min, last stage: rendezvous; "
        "rank 1 on spark2 is stopped (a process of it is in state T), and rank 0 on spark1 waits for it"
    )


def test_a_widow_is_told_at_the_next_look_as_before() -> None:
    widow = rank(1, SERVER, MET.format(1), sockets=(replace(close_wait(), pid=510),))
    decision = decide(BEGUN, look(HEAD_WAITS, widow))
    assert decision.reason == "widow-seen"


def test_a_rank_that_died_before_the_first_answer_is_told_in_the_warm_up_too() -> None:
    before = replace(lived(0, 1), phase=Phase.WARMUP)
    passed, now = 0.0, before
    while True:
        views = (rank(0, SERVER, MET.format(0)), rank(1, SHELL))
        decision = decide(now, seen(*views, engine=EngineView(health=200, stage="ready")), now=NOW + passed)
        now, passed = decision.state, passed + 5
        if decision.reason != "warmup":
            break
    assert now.failure is not None
    assert (now.failure.signature, passed) == ("engine-gone", 65)
