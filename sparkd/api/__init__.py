"""The HTTP interface over a `Service`: `serve` opens both listeners."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import anyio

from sparkd.api.gate import Gate
from sparkd.api.listen import SocketBusy, tcp_server, unix_server
from sparkd.api.routes import Routes
from sparkd.api.service import (
    Conflict,
    Drifts,
    Invalid,
    Nodes,
    NotFound,
    Operation,
    Refusal,
    Service,
    Unread,
    Unusable,
    Unwritable,
)
from sparkd.api.streams import Hub
from sparkd.model.config import Cluster
from sparkd.reporting.exporter import Exporter
from sparkd.reporting.metrics import Counters

__all__ = [
    "Conflict",
    "Drifts",
    "Hub",
    "Invalid",
    "Nodes",
    "NotFound",
    "Operation",
    "Refusal",
    "Service",
    "SocketBusy",
    "Unread",
    "Unusable",
    "Unwritable",
    "serve",
]

SOCKET = "sparkd.sock"


@asynccontextmanager
async def serve(
    service: Service, cluster: Cluster, counters: Counters, on_tcp: Callable[[int], None] = lambda port: None
) -> AsyncIterator[None]:
    """Answer on the Unix socket and, where `http.listen` is set, on TCP, for as long as the context lasts.

    `on_tcp` is told the TCP port once it is open. Raises SocketBusy or OSError when there can be no Unix socket.
    """
    exporter = Exporter(service.shown, counters)
    names = {"localhost", socket.gethostname(), *cluster.nodes}
    everywhere = frozenset(name.lower() for one in names for name in (one, f"{one}.local"))
    tcp = Gate(unix=False, names=everywhere, token_file=cluster.http.token_file)
    local = Routes(service, exporter, Gate(unix=True))
    async with unix_server(local.app(), Path(cluster.paths.run) / SOCKET), anyio.create_task_group() as group:
        if cluster.http.listen:
            group.start_soon(tcp_server, Routes(service, exporter, tcp).app(), cluster.http.listen, on_tcp)
        try:
            yield
        finally:
            group.cancel_scope.cancel()
