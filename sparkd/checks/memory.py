"""The memory gate's own arithmetic, ahead of a start: what a rank will ask for, and who has it meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sparkd.checks.shared.scene import Check, Scene, Trouble
from sparkd.decide.memory_need import shorts
from sparkd.facts.engines import ENGINES
from sparkd.facts.holders import HOLDERS
from sparkd.facts.memory import MEMINFO
from sparkd.model.check import Level
from sparkd.model.config import Deployment
from sparkd.model.decision import FailureClass


def evaluate(scene: Scene) -> Iterator[Trouble]:
    """Nothing is said of a node on which a rank of ours still runs: the next start has that memory back."""
    busy = {node for node in scene.deployment.nodes if scene.running or _ranks(scene, node)}
    views = {}
    for node in scene.deployment.nodes:
        memory, engines, holders = scene.fact(node, MEMINFO), scene.fact(node, ENGINES), scene.fact(node, HOLDERS)
        views[node] = replace(scene.nodes[node], memory=memory, engines=engines, holders=holders)
    for short in shorts(scene.deployment, views, dropped=scene.cluster.cleanup.drop_caches):
        if short.node not in busy:
            yield Trouble(short.node, short.text, short.fix, short.biggest)


def _ranks(scene: Scene, node: str) -> bool:
    return any(one.alive and one.owner == scene.owner for one in scene.nodes[node].ranks)


def _gated(deployment: Deployment) -> bool:
    return deployment.memory.get("gate") != "off"


CHECK = Check(
    code="memory",
    order=160,
    level=Level.WARN,
    description="Each node has what its rank will ask for once caches are dropped; right before a start the gate decides.",
    evaluate=evaluate,
    needs=(MEMINFO, ENGINES, HOLDERS),
    applies=_gated,
    cls=FailureClass.RESOURCE,
)
