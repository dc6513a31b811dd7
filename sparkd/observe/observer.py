"""All nodes and all engines at once -> Snapshot."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import anyio

from sparkd.base import clock
from sparkd.base.unread import unread
from sparkd.model.config import Cluster, Deployment
from sparkd.model.decision import State
from sparkd.model.snapshot import EngineView, NodeView, Snapshot, Unknown, blind
from sparkd.model.upkeep import Echo, Upkeep
from sparkd.observe.echoes import Echoes
from sparkd.observe.engine import DEADLINE_S, EngineLook
from sparkd.observe.memory_trails import MemoryTrails
from sparkd.observe.nodes import NodeLook
from sparkd.observe.unknowns import NodeAccess, Unknowns

ENGINE_S = 3 * DEADLINE_S
"""For its health, its metrics and its logs, one after another; pings to silent nodes go on meanwhile."""


@dataclass(slots=True)
class Observer:
    cluster: Cluster
    access: Mapping[str, NodeAccess]
    owner: str
    wake: Callable[[], None] = lambda: None
    """Called when memory moves so that the loop should look at once."""
    memory: MemoryTrails = field(init=False)
    upkeep: Callable[[], Mapping[str, Upkeep]] = dict
    """Node -> planned work on it and its power hook, which are part of what is known at a look."""
    _unknowns: Unknowns = field(default_factory=Unknowns)
    _nodes: dict[str, NodeLook] = field(default_factory=dict)
    _engine: EngineLook = field(init=False)
    _echoes: Echoes = field(init=False)

    def __post_init__(self) -> None:
        self._engine = EngineLook(self.cluster, self.access, self._unknowns)
        self.memory = MemoryTrails(self.wake)
        self._echoes = Echoes(self.cluster, self.access)
        self.configure(self.cluster)

    def configure(self, cluster: Cluster) -> None:
        """Go on with this configuration and the nodes in `access` by now; what is remembered of those that stay is kept."""
        self.cluster = self._engine.cluster = self._echoes.cluster = cluster
        self.memory.configure(self.access, cluster.memory.guard)
        kept = {name: look for name, look in self._nodes.items() if self.access.get(name) is look.access}
        self._nodes = {
            name: kept.get(name) or NodeLook(name, cluster, access, self.owner, self._unknowns)
            for name, access in self.access.items()
        }
        for look in kept.values():
            look.cluster = cluster

    async def look(self, deployments: Sequence[Deployment], states: Mapping[str, State]) -> Snapshot:
        """Ask every node and every running engine. Never raises for something that could not be read; takes no longer
        than the node deadline plus a few engine deadlines (3 s each)."""
        at, views, engines = clock.now(), dict[str, NodeView](), dict[str, EngineView]()

        runtimes = {one.runtime for one in deployments}

        async def look_at_node(name: str) -> None:
            here = [one for one in deployments if name in one.nodes]
            try:
                views[name] = await self._nodes[name].look(here, states, runtimes)
            except Exception as bug:  # what one node says must not blind sparkd to the others
                views[name] = blind(name, Unknown(unread(f"node {name}", bug).why, clock.now()))

        async def look_at_engine(deployment: Deployment) -> None:
            try:
                view = await self._engine.look(deployment, states[deployment.name], views)
            except Exception as bug:  # nor what one engine says to the others
                view = EngineView(Unknown(unread(f"engine of {deployment.name}", bug).why, clock.now()), None)
            if view is not None:
                engines[deployment.name] = view

        async with anyio.create_task_group() as group:
            for name in self._nodes:
                group.start_soon(look_at_node, name)
        echoes: dict[str, tuple[Echo, ...]] = {}
        async with anyio.create_task_group() as group:
            group.start_soon(self._echoes.look, views, echoes)
            for deployment in deployments:
                group.start_soon(look_at_engine, deployment)
        snapshot = self._snapshot(at, {name: views[name] for name in self._nodes}, engines)
        return replace(snapshot, echoes=echoes, memory=self.memory.seen(at, views, engines, deployments, states))

    def _snapshot(self, at: float, nodes: Mapping[str, NodeView], engines: Mapping[str, EngineView]) -> Snapshot:
        return Snapshot(
            at=at,
            wall=clock.wall(),
            nodes=nodes,
            owner=self.owner,
            engines=engines,
            took_s=min(clock.now() - at, self.cluster.policy.node_deadline + ENGINE_S),
            cleanup=self.cluster.cleanup,
            guard=self.cluster.memory.guard,
            upkeep=self.upkeep(),
        )
