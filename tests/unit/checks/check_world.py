"""A scene of two nodes on which everything is well, and the few words that break it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sparkd.checks.shared import run
from sparkd.checks.shared.scene import Answer, Ask, Check, Scene
from sparkd.facts import Fact
from sparkd.model.check import Finding, Level
from sparkd.model.config import Cluster, Deployment, Node
from sparkd.model.machine import Boot, DockerUnit, Memory
from sparkd.model.snapshot import NodeView

SPARK1, SPARK2 = NODES = ("spark1", "spark2")
CLUSTER = Cluster(
    cluster="desk",
    nodes={
        SPARK1: Node(name=SPARK1, address="local", data_address="10.0.0.1"),
        SPARK2: Node(name=SPARK2, address="192.168.1.12", data_address="10.0.0.2"),
    },
)
DEPLOYMENT = Deployment(name="demo", engine="vllm", nodes=NODES, image="vllm:1", file="demo.yaml")


def view(name: str, **facts: Any) -> NodeView:
    base = NodeView(
        name=name,
        boot=Boot(f"{name}-boot1", 10, 86400.0, name, now=1.7e9),
        memory=Memory(128 << 30, 100 << 30, 110 << 30, 0, 0, 0),
        system="running",
        docker=DockerUnit(running=True, pid=1),
        containers=(),
        processes=(),
        sockets=(),
    )
    return replace(base, **facts)


def scene(
    facts: Mapping[Fact[Any], Mapping[str, object]] | None = None,
    *views: NodeView,
    answers: Mapping[Ask, Answer] | None = None,
    running: bool = False,
    **deployment: Any,
) -> Scene:
    """`facts`: fact -> node -> value; nodes that are not given are well."""
    return Scene(
        cluster=CLUSTER,
        deployment=replace(DEPLOYMENT, **deployment),
        owner="us",
        running=running,
        nodes={name: view(name) for name in NODES} | {one.name: one for one in views},
        facts={(node, fact.name): value for fact, nodes in (facts or {}).items() for node, value in nodes.items()},
        answers=answers or {},
    )


def trouble(check: Check, at: Scene) -> list[Finding]:
    """What the check says beside `ok`, at the level `fail`."""
    return [one for one in run.evaluate([check], at, {check.code: Level.FAIL}) if one.status != "ok"]


def said(check: Check, at: Scene) -> list[tuple[str | None, str, str]]:
    """(node, status, text) of every trouble."""
    return [(one.node, str(one.status), one.text) for one in trouble(check, at)]
