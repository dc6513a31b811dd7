"""Nodes that are silent to SSH -> who still gets an answer to a ping from them, on the network of SSH and on the fabric.

Asked only while a node is silent, so that it costs nothing while all is well. Who cannot send says nothing: a network of our own
that is down is no proof against another box.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field

import anyio

from sparkd.base import clock
from sparkd.base.errors import HostError
from sparkd.base.unread import bounded, unread
from sparkd.facts.ping import PING
from sparkd.model.config import Cluster, Node
from sparkd.model.machine import Ping
from sparkd.model.printed import Unread
from sparkd.model.snapshot import NodeView, Unknown
from sparkd.model.upkeep import Echo
from sparkd.observe.unknowns import NodeAccess

PING_S = 1.0
ASK_S = 2.0
"""For a node to be asked for its pings; the loop waits that long more while a node is silent."""
RESOLVE_S = 1.0
AGAIN_S = 600.0
"""The address behind a name is looked up again this often, while its node is well: names of a local network (`spark2.local`) are
told by the box itself, and gone with it."""
NO_HOST = re.compile(r"no route to host|host is unreachable|host unreachable", re.IGNORECASE)
"""Of a ping on the same network: nobody there has that address. Of other errors it is our own side that is down."""


@dataclass(slots=True)
class Echoes:
    """Remembers the addresses behind the names of nodes."""

    cluster: Cluster
    access: Mapping[str, NodeAccess]
    _known: dict[str, tuple[str, float]] = field(default_factory=dict)
    """Host name of a node -> its IP address, and when that was looked up."""

    async def look(self, views: Mapping[str, NodeView], found: dict[str, tuple[Echo, ...]]) -> None:
        """Fill `found`: silent node -> pings to it. Never raises; takes ASK_S and RESOLVE_S at most."""
        try:
            found.update(await self._ask(views))
        except Exception as bug:  # what one node says of another must not blind sparkd to both
            unread("echoes of silent nodes", bug)

    async def _ask(self, views: Mapping[str, NodeView]) -> dict[str, tuple[Echo, ...]]:
        remote = {name: node for name, node in self.cluster.nodes.items() if not node.is_local and name in views}
        silent = {name: node for name, node in remote.items() if _silent(views[name])}
        await self._look_up(remote, silent)
        targets = {name: self._addresses(node) for name, node in silent.items()}
        wanted = sorted({address for found in targets.values() for address in found})
        heard: dict[str, dict[str, bool | None]] = {}
        if not wanted:
            return dict.fromkeys(silent, ())

        async def ask(name: str) -> None:
            heard[name] = await self._pings(name, wanted)

        async with anyio.create_task_group() as group:
            for name, view in views.items():
                if not isinstance(view.boot, Unknown):
                    group.start_soon(ask, name)
        return {
            name: tuple(
                Echo(by, network, answers.get(address))
                for by, answers in heard.items()
                for address, network in found.items()
            )
            for name, found in targets.items()
        }

    def _addresses(self, node: Node) -> dict[str, str]:
        """IP address -> network."""
        fabric = {node.data_address: "fabric"} if node.data_address else {}
        lan = self._ip(node)
        return ({lan: "lan"} if lan else {}) | fabric

    def _ip(self, node: Node) -> str | None:
        if _is_ip(node.address):
            return node.address
        return self._known[node.address][0] if node.address in self._known else None

    async def _pings(self, name: str, addresses: list[str]) -> dict[str, bool | None]:
        args = {"addresses": addresses, "timeout_s": PING_S}
        try:
            probed = await self.access[name].client.probe({PING.name: args}, deadline_s=ASK_S)
        except HostError:
            return {}
        text = probed.texts.get(PING.name)
        found = bounded(PING.name, PING.parse, text) if text is not None else ()
        return {} if isinstance(found, Unread) else {one.address: _answered(one) for one in found}

    async def _look_up(self, remote: Mapping[str, Node], silent: Mapping[str, Node]) -> None:
        """Of nodes that are well now and then; of one that is silent until it is known."""
        due = [
            node.address
            for name, node in remote.items()
            if not _is_ip(node.address) and self._due(node, name in silent)
        ]
        if due:
            async with anyio.create_task_group() as group:
                for address in due:
                    group.start_soon(self._resolve, address)

    def _due(self, node: Node, silent: bool) -> bool:
        known = self._known.get(node.address)
        return known is None or (not silent and clock.now() - known[1] > AGAIN_S)

    async def _resolve(self, name: str) -> None:
        found: list[str] = []
        with anyio.move_on_after(RESOLVE_S):
            try:
                infos = await anyio.getaddrinfo(name, None, type=socket.SOCK_STREAM)
                found = [str(address[0]) for *_, address in infos]
            except OSError:
                found = []
        before = self._known.get(name)
        if found or before is not None:  # what was known is kept, and not asked for at every look
            self._known[name] = (found[0] if found else (before or ("", 0.0))[0], clock.now())


def _silent(view: NodeView) -> bool:
    return isinstance(view.boot, Unknown) and view.boot.silent


def _is_ip(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _answered(ping: Ping) -> bool | None:
    if ping.ms is not None:
        return True
    return False if ping.error is None or NO_HOST.search(ping.error) else None
