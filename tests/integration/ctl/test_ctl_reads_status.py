"""The client reads what sparkd.reporting.status really writes: every phase, unread nodes, broken files, before the first look."""

from __future__ import annotations

import json

import pytest

from sparkd.ctl.answers import Status
from sparkd.ctl.reading import read
from sparkd.ctl.screen import screen
from sparkd.ctl.text import Terminal
from sparkd.model.config import BrokenDeployment
from sparkd.model.decision import Phase
from sparkd.model.snapshot import NodeView
from sparkd.model.view import ClusterView
from sparkd.reporting.status import status

from .ctl_views import NODES, NOW, WALL, node, unread, view


def shown(answer: ClusterView) -> tuple[Status, str]:
    found = read(Status, json.loads(json.dumps(status(answer))))
    lines = screen(found, Terminal())
    assert max(map(len, lines)) <= 80
    assert len(lines) < 24
    return found, "\n".join(lines)


@pytest.mark.parametrize("wanted", ["up", "stopped"])
@pytest.mark.parametrize("phase", Phase)
@pytest.mark.parametrize(
    "nodes",
    [
        (),
        (node("spark1", 0), node("spark2", 1)),
        (node("spark1", 0), node("spark2", 1, "exited")),
        (node("spark1", 0), unread("spark2")),
    ],
    ids=["nothing-seen", "all-up", "one-gone", "one-unread"],
)
def test_every_phase_is_readable(phase: Phase, nodes: tuple[NodeView, ...], wanted: str) -> None:
    found, text = shown(view(phase, *nodes, wanted=wanted))
    assert found.deployments[0].phase == phase
    assert text.startswith("ds4-flash")
    assert f"phase {phase}" not in text, "a phase without words of its own"


def test_serving_and_its_eta_are_told() -> None:
    assert "ds4-flash is serving." in shown(view(Phase.SERVE, node("spark1", 0), node("spark2", 1)))[1]
    _, text = shown(view(Phase.START_HEAD, node("spark1", 0), node("spark2", 1)))
    assert "ready in about 30 s" in text
    assert "containers 10 s, weights 50 s so far" in text


def test_an_unread_node_is_never_shown_as_down() -> None:
    found, text = shown(view(Phase.SERVE, node("spark1", 0), unread("spark2")))
    assert not found.deployments[0].missed
    assert "ds4-flash is serving, but spark2 cannot be asked." in text
    assert "ssh: no answer to three keepalives" in " ".join(text.split())


def test_a_broken_file_shows_its_problems() -> None:
    broken = BrokenDeployment(
        name="x", file="x.yaml", problems=("x.yaml:3: engine: unknown", "x.yaml:9: prot: unknown")
    )
    answer = view(Phase.SERVE, node("spark1", 0), node("spark2", 1))
    answer = ClusterView(
        cluster="desk",
        at=NOW,
        wall=WALL,
        daemon=answer.daemon,
        snapshot=answer.snapshot,
        nodes=NODES,
        deployments=(broken,),
    )
    text = shown(answer)[1]
    assert text.startswith("x could not start")
    assert "x.yaml:3: engine: unknown\n" in text
