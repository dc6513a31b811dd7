"""A small cluster for tests: one deployment on two nodes, seen at one moment."""

from __future__ import annotations

from typing import Any

from sparkd.model.config import Deployment, Node
from sparkd.model.decision import Cause, Decision, Intent, Phase, State
from sparkd.model.machine import Boot, DockerUnit, Memory
from sparkd.model.snapshot import Container, NodeView, Snapshot, Unknown
from sparkd.model.view import ClusterView, DaemonFacts

NOW, WALL = 10_000.0, 1_800_000_000.0
SPARK1, SPARK2 = Node(name="spark1", address="local"), Node(name="spark2", address="10.0.0.2")
DS4 = Deployment(name="ds4", engine="vllm", nodes=("spark1", "spark2"), digest="d1", file="/etc/sparkd/deployments/ds4")
SERVING = State(
    phase=Phase.SERVE,
    since=NOW - 600,
    since_wall=WALL - 600,
    generation=14,
    serving_since=NOW - 600,
    serving_since_wall=WALL - 600,
    digest="d1",
    cause=Cause.BOOT,
)
LOST = Unknown("no route to host", NOW - 90, "unreachable")


def container(rank: int, generation: int = 14, **more: Any) -> Container:
    fields: dict[str, Any] = {"state": "running", "generation": generation, "id": f"{rank}abcdef0123456789", **more}
    return Container(name=f"sparkd-ds4-{rank}", deployment="ds4", rank=rank, owner="o", spec="s", **fields)


def node(name: str, *containers: Container, **more: Any) -> NodeView:
    fields: dict[str, Any] = {
        "boot": Boot("b", 5, 7200.0),
        "memory": Memory(128, 20, 90, 70, 1, 0),
        "system": "running",
        "docker": DockerUnit(running=True, pid=1),
        "containers": containers,
        "processes": (),
        "sockets": (),
        **more,
    }
    return NodeView(name=name, **fields)


def view(state: State = SERVING, *nodes: NodeView, **more: Any) -> ClusterView:
    seen = nodes or (node("spark1", container(0)), node("spark2", container(1)))
    fields: dict[str, Any] = {
        "deployments": (DS4,),
        "states": {"ds4": state},
        "intents": {"ds4": Intent(wanted="up")},
        "decisions": {"ds4": Decision(state, (), "serving since 03:10", "serving")},
        "snapshot": Snapshot(NOW - 2, WALL - 2, {one.name: one for one in seen}),
        "nodes": {"spark1": SPARK1, "spark2": SPARK2},
        "daemon": DaemonFacts(version="0.1.0", since_wall=WALL - 999, loop_age_s=1.2),
        **more,
    }
    return ClusterView(cluster="desk", at=NOW, wall=WALL, **fields)
