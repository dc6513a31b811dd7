"""Busy without tokens: what a node draws while it waits is learned only from looks that show it, and how it is said."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sparkd.model.action import SendCanary
from sparkd.model.decision import State, Watch
from sparkd.model.effort import GpuLoad
from sparkd.model.snapshot import EngineMetrics, EngineView, NodeView, Snapshot, Unknown

from .loads import card, efforts, recorded
from .world import AWAY, HEALTHY, NOW, away, both, container, decide, node, seen, serving

IDLE = Watch(tokens=20.0, tokens_at=NOW - 100, canary_at=NOW - 40)
WAITS = recorded("loaded-idle")[0]
FAILING = Watch(tokens=20.0, tokens_at=NOW - 1000, canary_at=NOW - 5, canary_failing_since=NOW - 300, canary_failures=3)


def looked(gpu: GpuLoad | Unknown | None = WAITS, engine: EngineView = HEALTHY, effort: Any = None) -> Snapshot:
    """Rank 1 on spark2 has the pid 501, that of the recorded cards."""
    worker = container(1)
    views = node("spark1", container(0)), node("spark2", worker, gpu=gpu, effort=effort)
    return seen(*views, engine=engine)


def power(snapshot: Snapshot, before: State | None = None) -> dict[str, float]:
    return dict(decide(before or serving(IDLE), snapshot).state.waiting_w)


def test_what_a_node_draws_is_learned_while_nobody_asks() -> None:
    assert power(looked()) == {"spark2": 118.5}
    spins = recorded("spin")[0]
    assert power(looked(spins)) == {"spark2": 119.5}, "between two nodes NCCL waits at 96 % also while nobody asks"


def running(count: float, waiting: float = 0.0) -> EngineView:
    return replace(HEALTHY, metrics=EngineMetrics(count, waiting, 10.0, 10.0, 0.0))


NOT_LEARNED: dict[str, Snapshot] = {
    "a request runs": looked(engine=running(1)),
    "a request waits": looked(engine=running(0, 1)),
    "a token moved": looked(engine=replace(HEALTHY, metrics=EngineMetrics(0, 0, 11.0, 10.0, 0.0))),
    "its metrics are unread": looked(engine=replace(HEALTHY, metrics=Unknown("late", NOW))),
    "it has none": looked(engine=replace(HEALTHY, metrics=None)),
    "a canary is on its way": replace(looked(), busy={"demo": SendCanary(1, 60.0)}),
    "its clock went down": looked(recorded("idle")[0]),
    "somebody else computes there": looked(replace(WAITS, pids=(501, 77))),
    "whose processes are ours is unread": replace(
        looked(), nodes={**looked().nodes, "spark2": node("spark2", container(1), gpu=WAITS, processes=AWAY)}
    ),
    "it says no power": looked(card(0, None, None)),
    "nobody asked": looked(None),
    "it cannot be read": looked(AWAY),
    "another deployment has a rank there": replace(
        looked(),
        nodes={
            **looked().nodes,
            "spark2": node("spark2", container(1), container(0, id="other", deployment="other"), gpu=WAITS),
        },
    ),
}


@pytest.mark.parametrize("snapshot", NOT_LEARNED.values(), ids=NOT_LEARNED.keys())
def test_nothing_else_teaches_it(snapshot: Snapshot) -> None:
    assert power(snapshot) == {}


@pytest.mark.parametrize(
    "watch",
    [replace(IDLE, canary_at=NOW - 10), replace(IDLE, tokens_at=NOW - 10), Watch(tokens=20.0), FAILING],
    ids=["a canary just ended", "a token just moved", "nothing was ever answered", "requests fail"],
)
def test_nor_while_it_is_not_at_rest(watch: Watch) -> None:
    assert power(looked(), serving(watch)) == {}


@pytest.mark.parametrize(
    ("known", "drawn", "after"),
    [
        (None, 119.0, 119.0),
        (119.0, 119.9, 119.0),
        (119.0, 117.0, 119.0),
        (119.0, 78.0, 78.0),
        (119.0, 129.0, 120.0),
        (119.0, 149.0, 119.0),
        (119.0, 690.0, 119.0),
        (690.0, 119.0, 119.0),
    ],
)
def test_a_lower_figure_counts_whole_and_one_that_is_far_higher_not_at_all(
    known: float | None, drawn: float, after: float
) -> None:
    """The first request to an idle engine may be a prefill of minutes, of which its counters know nothing yet."""
    before = serving(IDLE, waiting_w=(("spark2", known),) if known is not None else ())
    assert power(looked(card(0, None, drawn)), before) == {"spark2": after}


def test_a_figure_that_stays_as_it_is_is_not_written_again() -> None:
    before = serving(IDLE, waiting_w=(("spark2", 119.0),))
    assert decide(before, looked()).state.waiting_w is before.waiting_w


PREFILL = recorded("prefill-like")[0]


def test_f16_work_counts_from_the_second_look_on_that_shows_it() -> None:
    first = decide(serving(FAILING), looked(PREFILL)).state.watch
    assert (first.busy, first.worked_at) == ("working", None)
    unasked = decide(serving(first), looked(None)).state.watch
    assert (unasked.busy, unasked.worked_at) == ("working", None), "a look that asked nothing changes nothing"
    assert decide(serving(unasked), looked(PREFILL)).state.watch.worked_at == NOW
    assert decide(serving(unasked), looked(AWAY)).state.watch.busy == "unknown"


def test_f18_a_token_or_an_answer_ends_it_all() -> None:
    busy = replace(FAILING, busy="working", busy_said="x", worked_at=NOW - 5, busy_told=True)
    moved = decide(serving(busy), looked(None, engine=replace(HEALTHY, metrics=EngineMetrics(0, 0, 11.0, 10.0))))
    watch = moved.state.watch
    assert (watch.busy, watch.busy_said, watch.worked_at, watch.busy_told) == ("", "", None, False)


def test_f18_what_is_no_work_is_said_as_well() -> None:
    spins = replace(recorded("spin")[0], pids=(501,))
    effort = efforts(owner=container(1).id)
    before = serving(FAILING, waiting_w=(("spark2", 119.0),))
    said = decide(before, looked(spins, effort=effort)).sentence
    assert said.endswith(
        "the first 5 min ago; whether a node works cannot be told: spark2: GPU 100 % 119 W (119 W when it waits) memory 0 %, "
        "nothing on the fabric, rank 1 uses 1.0 cores; the engine counts 0 requests that run and 0 that wait"
    ), "of spark1 nothing was read"
    head = node("spark1", container(0), gpu=replace(spins, pids=(500,)), effort=efforts(owner=container(0).id))
    both_spin = looked(spins, effort=effort)
    before = serving(FAILING, waiting_w=(("spark1", 119.0), ("spark2", 119.0)))
    said = decide(before, replace(both_spin, nodes={**both_spin.nodes, "spark1": head})).sentence
    assert "its GPUs run and only wait, as in a collective whose peer is gone: spark1: GPU 100 % 119 W" in said


def test_f16_nothing_is_said_of_effort_before_a_request_failed() -> None:
    """A long prefill in which no canary was needed yet is nobody's business."""
    frozen = Watch(
        tokens=20.0,
        tokens_at=NOW - 60,
        canary_at=NOW - 30,
        frozen_since=NOW - 50,
        busy_nodes=(("spark2", "working", "x"),),
    )
    engine = replace(HEALTHY, metrics=EngineMetrics(1.0, 0.0, 10.0, 10.0, 0.0))
    decision = decide(serving(frozen), looked(PREFILL, engine=engine))
    assert (decision.sentence, decision.state.watch.worked_at) == ("serving (generation 1)", NOW)


def test_f16_a_node_that_is_unread_hides_no_work_of_the_other() -> None:
    head: NodeView = node("spark1", container(0), gpu=replace(PREFILL, pids=(500,)))
    decision = decide(serving(FAILING), seen(head, away("spark2"), engine=HEALTHY))
    assert (decision.reason, decision.state.watch.busy) == ("not-answering", "working")
    assert "busy without tokens (a long prefill or a compile does that): spark1: GPU 99 % 692 W" in decision.sentence


def test_a_look_that_asked_nothing_says_nothing() -> None:
    decision = decide(serving(FAILING), both())
    assert (decision.state.watch.busy, "works" in decision.sentence) == ("", False)


def test_what_was_known_of_a_node_is_known_no_more_once_it_is_away() -> None:
    was = (("spark1", "idle", "y"), ("spark2", "working", "x"))
    before = serving(replace(FAILING, busy="working", busy_said="x", busy_nodes=was))
    watch = decide(before, seen(node("spark1", container(0)), away("spark2"), engine=HEALTHY)).state.watch
    assert (watch.busy, watch.busy_nodes) == ("unknown", (("spark1", "idle", "y"), ("spark2", "unknown", "")))
