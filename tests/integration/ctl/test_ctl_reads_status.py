"""The client reads what sparkd.status really writes: every phase, unread nodes, broken files, before the first look."""

from __future__ import annotations

import json

import pytest

from sparkd.ctl.answers import Status, read
from sparkd.ctl.screen import screen
from sparkd.ctl.text import Terminal
from sparkd.model.config import BrokenDeployment, Deployment, Node
from sparkd.model.decision import Decision, Failure, FailureClass, Hold, Intent, Phase, Planned, State
from sparkd.model.snapshot import Boot, Container, DockerUnit, Memory, NodeView, Snapshot, Unknown
from sparkd.model.view import ClusterView, DaemonFacts
from sparkd.status import status

GIB = 2**30
NOW, WALL = 5000.0, 1_795_763_000.0
SILENT = Unknown("ssh: no answer to three keepalives", since=NOW - 361, code="timeout")
NODES = {name: Node(name=name, address=address) for name, address in (("spark1", "local"), ("spark2", "192.168.1.12"))}
DEPLOYMENT = Deployment(name="ds4-flash", engine="vllm", nodes=("spark1", "spark2"))


def node(name: str, rank: int, state: str = "running") -> NodeView:
    container = Container(
        id=f"{rank}f3c9a7712de55",
        name=f"sparkd-ds4-flash-{rank}",
        deployment="ds4-flash",
        rank=rank,
        generation=14,
        owner="o",
        spec="s",
        state=state,
        exit_code=137 if state == "exited" else None,
    )
    return NodeView(
        name=name,
        boot=Boot("b", 1, uptime_s=3600.0),
        memory=Memory(120 * GIB, 8 * GIB, 21 * GIB, 13 * GIB, 0, 0),
        system="running",
        docker=DockerUnit(True),
        containers=(container,),
        processes=(),
        sockets=(),
    )


def unread(name: str) -> NodeView:
    return NodeView(name, SILENT, SILENT, SILENT, SILENT, SILENT, SILENT, SILENT)


def view(phase: Phase, *nodes: NodeView, wanted: str = "up") -> ClusterView:
    hold = Hold(FailureClass.RESOURCE, "port:spark1:8000", "port 8000 is taken on spark1", "free it", True)
    failure = Failure(13, FailureClass.TRANSIENT, "rank-gone", "rank 1 is gone", NOW - 900, WALL - 900, outage_s=581.0)
    state = State(
        phase=phase,
        since=NOW - 60,
        since_wall=WALL - 60,
        generation=14,
        hold=hold if phase is Phase.HELD else None,
        failure=failure,
        down_since=None if phase is Phase.SERVE else NOW - 90,
        serving_since=NOW - 60,
        stage="weights",
        stages=(("containers", NOW - 60), ("weights", NOW - 50)),
    )
    planned = Planned(NOW + 42, "restart 2 of 5") if phase is Phase.BACKOFF else None
    return ClusterView(
        cluster="desk",
        at=NOW,
        wall=WALL,
        daemon=DaemonFacts(version="0.1.0", since_wall=WALL - 7200, loop_age_s=1.2),
        snapshot=Snapshot(at=NOW - 2, wall=WALL - 2, nodes={one.name: one for one in nodes}) if nodes else None,
        nodes=NODES,
        deployments=(DEPLOYMENT,),
        states={"ds4-flash": state},
        intents={"ds4-flash": Intent(wanted=wanted, paused=phase is Phase.PAUSED, by="milo")},
        decisions={"ds4-flash": Decision(state, (), f"it is in {phase}", "reason", planned)},
        earlier={"ds4-flash": ({"containers": 10.0, "weights": 60.0, "warmup": 20.0},)},
    )


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
