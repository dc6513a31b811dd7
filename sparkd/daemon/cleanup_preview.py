"""The loop's last look and one more question to every node -> what a start would take away and end there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Protocol

from sparkd.act.cleanup import preview
from sparkd.decide.strays import ended_first
from sparkd.engines import ENGINES
from sparkd.model.config import Cluster, Deployment
from sparkd.model.machine import EngineProcess
from sparkd.model.snapshot import Snapshot
from sparkd.observe import NodeAccess


class Reached(Protocol):
    """How the nodes are reached, and the loop's last look at them."""

    @property
    def access(self) -> Mapping[str, NodeAccess]: ...

    @property
    def cluster(self) -> Cluster: ...

    @property
    def owner(self) -> str: ...

    @property
    def snapshot(self) -> Snapshot | None: ...


async def would_clean(loop: Reached, deployment: Deployment, clean: bool) -> Mapping[str, Any]:
    """Node -> figures in bytes. Changes nothing. Raises HostError for a node that a reload has taken away."""
    allowed, seen = loop.cluster.cleanup, loop.snapshot
    clients = {node: loop.access[node].client for node in deployment.nodes}
    uses = ENGINES[deployment.engine].ports(deployment)

    def ends(node: str, engines: tuple[EngineProcess, ...]) -> Mapping[str, int]:
        view = None if seen is None else seen.nodes.get(node)
        if view is None:
            return {}
        ports = [use.port for use in uses if deployment.nodes[use.rank] == node]
        view = replace(view, engines=engines)
        return ended_first(deployment.name, ports, view, loop.owner, allowed.remove_strays)

    found = await preview(clients, deployment, clean, ends)
    settings = {"drop_caches": allowed.drop_caches, "swapoff": allowed.swapoff}
    return {node: {**settings, **would} for node, would in found.items()}
