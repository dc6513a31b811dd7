"""A worker's sshd in this process: asyncssh's server, which forwards to real Unix sockets, and a way to cut it off."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import asyncssh
from anyio.abc import SocketAttribute, SocketStream

from sparkd.base.errors import HostError
from sparkd.hosts import Sockets, SshHost
from sparkd.model.config import Node


class _Door(asyncssh.SSHServer):
    def __init__(self, worker: Worker) -> None:
        self._worker = worker

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        self._worker.connections.append(conn)

    def unix_connection_requested(self, dest_path: str) -> bool:
        return True


@dataclass
class Worker:
    """Keys, pinned host key and sockets of one simulated worker node; everything lies in `folder`."""

    folder: Path
    port: int = 0
    connections: list[asyncssh.SSHServerConnection] = field(default_factory=list)
    _acceptor: asyncssh.SSHAcceptor | None = None

    def __post_init__(self) -> None:
        self.host_key = asyncssh.generate_private_key("ssh-ed25519")
        user_key = asyncssh.generate_private_key("ssh-ed25519")
        user_key.write_private_key(self.key)
        user_key.write_public_key(self.folder / "authorized_keys")

    @property
    def key(self) -> Path:
        return self.folder / "key"

    @property
    def known_hosts(self) -> Path:
        return self.folder / "known_hosts"

    @property
    def sockets(self) -> Sockets:
        return Sockets(self.folder / "docker.sock", self.folder / "node.sock")

    def node(self, **changed: object) -> Node:
        fields = {"name": "spark2", "address": "127.0.0.1", "port": self.port, "key": str(self.key), **changed}
        return Node(**fields)  # type: ignore[arg-type]

    def host(self, node: Node | None = None, **options: object) -> SshHost:
        options = {"sockets": self.sockets, **options}
        return SshHost(node or self.node(), self.folder / "run", self.known_hosts, **options)  # type: ignore[arg-type]

    def pin(self, port: int) -> None:
        public = self.host_key.export_public_key().decode().strip()
        self.known_hosts.write_text(f"[127.0.0.1]:{port} {public}\n")

    async def up(self) -> None:
        """Listens on the same port each time; the first one is chosen by the kernel."""
        self._acceptor = await asyncssh.listen(
            "127.0.0.1",
            self.port,
            server_factory=lambda: _Door(self),
            server_host_keys=[self.host_key],
            authorized_client_keys=str(self.folder / "authorized_keys"),
        )
        self.port = self._acceptor.get_port()

    async def down(self) -> None:
        """As if the node lost its power, but with resets."""
        if self._acceptor is not None:
            self._acceptor.close()
            self.cut()  # first: from Python 3.12.1 on the wait is for the connections too
            await self._acceptor.wait_closed()
            self._acceptor = None

    def cut(self) -> None:
        while self.connections:
            self.connections.pop().abort()


@asynccontextmanager
async def worker(folder: Path) -> AsyncIterator[Worker]:
    one = Worker(folder)
    await one.up()
    one.pin(one.port)
    try:
        yield one
    finally:
        await one.down()


def connected(host: SshHost) -> bool:
    try:
        host.node_socket()
    except HostError:
        return False
    return True


@asynccontextmanager
async def running(host: SshHost) -> AsyncIterator[None]:
    """`host.run()` in a task, as in the daemon; its end must not wait for any peer."""
    async with anyio.create_task_group() as group:
        group.start_soon(host.run)
        try:
            yield
        finally:
            with anyio.CancelScope(shield=True), anyio.fail_after(2):
                group.cancel_scope.cancel()


class Wire:
    """A TCP proxy that can become a black hole: connections stay open, nothing comes through any more."""

    def __init__(self, to_port: int) -> None:
        self.port = 0
        self._to_port = to_port
        self._open = anyio.Event()
        self._open.set()

    def freeze(self) -> None:
        self._open = anyio.Event()

    async def serve(self, stream: SocketStream) -> None:
        async with (
            stream,
            await anyio.connect_tcp("127.0.0.1", self._to_port) as other,
            anyio.create_task_group() as group,
        ):
            group.start_soon(self._pump, stream, other)
            group.start_soon(self._pump, other, stream)

    async def _pump(self, source: SocketStream, sink: SocketStream) -> None:
        try:
            async for data in source:
                await self._open.wait()
                await sink.send(data)
            await sink.aclose()
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            return  # one side went away, as connections do


@asynccontextmanager
async def wire(to_port: int) -> AsyncIterator[Wire]:
    one = Wire(to_port)
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener, anyio.create_task_group() as group:
        one.port = listener.extra(SocketAttribute.local_port)
        group.start_soon(listener.serve, one.serve)
        yield one
        group.cancel_scope.cancel()
