"""The nodes of the configuration -> how each is reached, kept up by tasks of its own that end when the node goes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import anyio
from anyio.abc import TaskGroup

from sparkd.base.errors import Unreachable
from sparkd.hosts import Host
from sparkd.model.config import Node
from sparkd.observe import NodeAccess

CLOSE_S = 3.0
"""For closing connections; a dead peer must delay neither the end of the daemon nor a reload."""

Reach = Callable[[Node, str, Callable[[], None]], tuple[Host, NodeAccess]]
"""(node, our owner id, wake) -> how the node is reached. The demo replaces this function alone."""


class Reached(dict[str, NodeAccess]):
    """Who asks a node beside the loop (a log, a check) may do so while a reload lets go of it: then it cannot be asked."""

    def __missing__(self, node: str) -> NodeAccess:
        raise Unreachable(node, "the configuration was read again: it is connected anew, or no node any more")


@dataclass(slots=True)
class Connections:
    reach: Reach
    owner: str
    wake: Callable[[], None]
    group: TaskGroup
    access: dict[str, NodeAccess] = field(default_factory=Reached)
    """In the order of the configuration. Others hold this very mapping."""
    _nodes: dict[str, Node] = field(default_factory=dict)
    _scopes: dict[str, anyio.CancelScope] = field(default_factory=dict)

    async def follow(self, nodes: Mapping[str, Node]) -> None:
        """Connect to what is new and let go of what is gone; a node with another address or key is both."""
        for name, node in list(self._nodes.items()):
            if name not in nodes or _way(nodes[name]) != _way(node):
                await self._leave(name)
        known = {name: self.access.get(name) or self._join(node) for name, node in nodes.items()}
        self._nodes = dict(nodes)
        self.access.clear()
        self.access.update(known)

    def _join(self, node: Node) -> NodeAccess:
        host, access = self.reach(node, self.owner, self.wake)
        self._scopes[node.name] = scope = anyio.CancelScope()

        async def keep_up() -> None:
            with scope:
                async with anyio.create_task_group() as group:
                    group.start_soon(host.run)
                    group.start_soon(access.docker.events, self.wake)

        self.group.start_soon(keep_up)
        return access

    async def _leave(self, name: str) -> None:
        self._scopes.pop(name).cancel()
        access = self.access.pop(name)
        with anyio.move_on_after(CLOSE_S, shield=True):
            await access.docker.aclose()
            for more in (access.inside, access.throwaway):
                if more is not None:
                    await more.aclose()
            await access.client.aclose()

    async def aclose(self) -> None:
        for name in list(self.access):
            await self._leave(name)


def _way(node: Node) -> Node:
    """The node without its address on the fabric and its power hook, which do not change how sparkd reaches it."""
    return replace(node, data_address=None, power=None)
