"""On which node an engine may be asked: where nothing starts, with memory to spare, of those the most."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sparkd.decide.where_to_ask import SPARE_BYTES, quiet, where
from sparkd.model.config import Deployment
from sparkd.model.decision import Phase, State
from sparkd.model.machine import Boot, DockerUnit, Memory
from sparkd.model.snapshot import NodeView, Unknown

BOTH = Deployment(name="both", engine="vllm", nodes=("spark1", "spark2"), image="vllm:1")
OTHER = Deployment(name="other", engine="vllm", nodes=("spark2",), image="vllm:1")


def view(name: str, available: int) -> NodeView:
    return NodeView(
        name=name,
        boot=Boot("boot1", 10, 86400.0, name, now=1.7e9),
        memory=Memory(128 << 30, available, available, 0, 0, 0),
        system="running",
        docker=DockerUnit(running=True, pid=1),
        containers=(),
        processes=(),
        sockets=(),
    )


SEEN = {"spark1": view("spark1", 20 << 30), "spark2": view("spark2", 100 << 30)}


@pytest.mark.parametrize(
    ("both", "other", "free"),
    [
        (Phase.STOPPED, Phase.STOPPED, {"spark1", "spark2"}),
        (Phase.SERVE, Phase.HELD, {"spark1", "spark2"}),
        (Phase.SERVE, Phase.WARMUP, {"spark1"}),
        (Phase.PAUSED, Phase.PRECHECK, {"spark1"}),
        (Phase.BACKOFF, Phase.STOPPED, set()),
        (Phase.ADOPTING, Phase.STOPPED, set()),
        (Phase.CLEANUP, Phase.SERVE, set()),
        (Phase.START_HEAD, Phase.SERVE, set()),
    ],
)
def test_nothing_may_be_starting_there(both: Phase, other: Phase, free: set[str]) -> None:
    states = {"both": State(phase=both), "other": State(phase=other)}
    assert quiet([BOTH, OTHER], states, SEEN) == free


def test_the_node_with_the_most_memory_of_those_that_can_be_asked() -> None:
    free = frozenset(SEEN)
    assert where(BOTH, free, SEEN) == "spark2"
    assert where(BOTH, frozenset({"spark1"}), SEEN) == "spark1"
    assert where(BOTH, frozenset(), SEEN) is None
    mute = replace(SEEN["spark2"], docker=Unknown("mute", 0.0))
    assert where(BOTH, free, {**SEEN, "spark2": mute}) == "spark1"
    unread = replace(SEEN["spark2"], memory=Unknown("mute", 0.0))
    assert where(OTHER, free, {**SEEN, "spark2": unread}) is None
    full = view("spark2", SPARE_BYTES - 1)
    assert where(OTHER, free, {**SEEN, "spark2": full}) is None
