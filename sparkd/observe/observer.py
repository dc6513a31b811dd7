"""All nodes and all engines at once -> Snapshot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import anyio

from sparkd import clock
from sparkd.model.config import Cluster, Deployment
from sparkd.model.decision import State
from sparkd.model.snapshot import EngineView, NodeView, Snapshot
from sparkd.observe.engine import EngineLook
from sparkd.observe.nodes import NodeLook
from sparkd.observe.unknowns import NodeAccess, Unknowns


@dataclass(slots=True)
class Observer:
    cluster: Cluster
    access: Mapping[str, NodeAccess]
    owner: str
    _nodes: dict[str, NodeLook] = field(init=False)
    _engine: EngineLook = field(init=False)

    def __post_init__(self) -> None:
        unknowns = Unknowns()
        self._engine = EngineLook(self.cluster, self.access, unknowns)
        self._nodes = {
            name: NodeLook(name, self.cluster, access, self.owner, unknowns) for name, access in self.access.items()
        }

    async def look(self, deployments: Sequence[Deployment], states: Mapping[str, State]) -> Snapshot:
        """Ask every node and every running engine. Never raises for something that could not be read; takes no longer
        than the node deadline plus a few engine deadlines (3 s each)."""
        at, views, engines = clock.now(), dict[str, NodeView](), dict[str, EngineView]()

        async def look_at_node(name: str) -> None:
            here = [one for one in deployments if name in one.nodes]
            views[name] = await self._nodes[name].look(here, states)

        async def look_at_engine(deployment: Deployment) -> None:
            view = await self._engine.look(deployment, states[deployment.name], views)
            if view is not None:
                engines[deployment.name] = view

        async with anyio.create_task_group() as group:
            for name in self._nodes:
                group.start_soon(look_at_node, name)
        async with anyio.create_task_group() as group:
            for deployment in deployments:
                group.start_soon(look_at_engine, deployment)
        ordered = {name: views[name] for name in self._nodes}
        return Snapshot(at=at, wall=clock.wall(), nodes=ordered, owner=self.owner, engines=engines)
