"""A remote node -> two forwarded Unix sockets, kept alive over one SSH connection for ever.

A half-open connection is the dangerous case: calls with a timeout of their own still hung on it (ronf/asyncssh#626,
ceph/ceph pull 45286). So keepalives end it after 20 s, and everybody who uses the sockets has a deadline besides.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import asyncssh
import structlog

from sparkd.base import clock, files
from sparkd.base.errors import HostError, Silent, Unreachable
from sparkd.hosts.host import SYSTEM, Sockets
from sparkd.hosts.reasons import closed_by_node, reason
from sparkd.model.config import Node

log = structlog.get_logger()

KEEPALIVE_S, KEEPALIVE_COUNT = 5, 3
"""A silent peer is declared lost after interval x (count + 1) = 20 s (measured)."""
CONNECT_S = 10.0
"""Name, TCP and login together; measured 0.13 s on a quiet network."""
FIRST_PAUSE_S, MAX_PAUSE_S = 1.0, 15.0
"""Between the beginnings of two attempts, so that a rebooted node is back 15 s after its sshd at the latest."""
CLOSE_S = 1.0
OPEN_S = 20.0
"""For the node to open a channel: as long as for an answer to keepalives, and like those a matter of milliseconds."""
WATCH_S = 5.0
"""Between two looks at our own socket files: a connection without them is useless, and would be kept."""
SOCKET_PATH_BYTES = 107
"""Of sockaddr_un, without the closing zero."""


class SshHost:
    """One worker node. `run()` must be running in a task; nobody else waits for the network."""

    def __init__(
        self,
        node: Node,
        run_dir: Path,
        known_hosts: Path,
        *,
        sockets: Sockets = SYSTEM,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        self.name = node.name
        self.since = clock.now()
        self.connection = 0
        self._node, self._known_hosts, self._remote, self._changed = node, known_hosts, sockets, changed
        folder = run_dir / "nodes"
        self._local = Sockets(folder / f"{node.name}-docker.sock", folder / f"{node.name}.sock")
        self._inodes: tuple[int, ...] = ()
        self._lost: HostError | None = Unreachable(node.name, "not connected yet")
        self._left = False
        """It closed its connection in good order, as a node does that is shut down: that it is silent since is no riddle."""

    def docker_socket(self) -> Path:
        self._must_be_connected()
        return self._local.docker

    def node_socket(self) -> Path:
        self._must_be_connected()
        return self._local.service

    async def run(self) -> None:
        pause_s = FIRST_PAUSE_S
        while True:
            began = anyio.current_time()
            connection = self.connection
            await self._one_connection()
            lasted_s = anyio.current_time() - began
            if self.connection > connection and lasted_s > MAX_PAUSE_S:
                pause_s = FIRST_PAUSE_S  # it held: what ended it is news, not the old trouble
            await anyio.sleep(max(FIRST_PAUSE_S, pause_s - lasted_s) * random.uniform(0.8, 1.0))
            pause_s = min(pause_s * 2, MAX_PAUSE_S)

    def _must_be_connected(self) -> None:
        if self._lost is not None:
            kind = Unreachable if self._left and isinstance(self._lost, Silent) else type(self._lost)
            raise kind(self.name, self._lost.why)

    async def _one_connection(self) -> None:
        """From dialling to the loss, which is remembered with its reason."""
        client = _Client()
        pinned = None
        try:
            # asyncssh would read them on the loop, and wait there for a FIFO without a writer.
            keys = [await files.aside(partial(_key, self._node.key))] if self._node.key else []
            pinned = asyncssh.import_known_hosts((await files.aside(partial(files.read, self._known_hosts))).decode())
            async with self._connected(client, pinned, keys) as connection:
                _limit_opening(connection, client)
                await self._forward(connection)
                self._now_connected()
                await self._until_lost(connection)
            self._now_lost(pinned, client.ended_by)
        # ValueError: a key or known_hosts file that cannot be parsed.
        except (OSError, asyncssh.Error, ValueError) as error:
            self._now_lost(pinned, error)

    async def _until_lost(self, connection: asyncssh.SSHClientConnection) -> None:
        """Until it is closed. Raises OSError when the two sockets that lead into it were removed."""
        while True:
            with anyio.move_on_after(WATCH_S):
                await connection.wait_closed()
                return
            if self._inodes != self._opened():
                raise OSError(f"its sockets in {self._local.docker.parent} were taken away; connecting again")

    def _opened(self) -> tuple[int, ...]:
        try:
            return tuple(path.stat().st_ino for path in (self._local.docker, self._local.service))
        except OSError:
            return ()  # gone, or not to be reached: both mean that nobody can use them

    @asynccontextmanager
    async def _connected(
        self, client: _Client, pinned: asyncssh.SSHKnownHosts, keys: list[_Key]
    ) -> AsyncIterator[asyncssh.SSHClientConnection]:
        with anyio.fail_after(CONNECT_S):
            connection = await asyncssh.connect(
                self._node.address,
                self._node.port,
                username=self._node.user,
                client_keys=keys or (),  # nothing: the default ones
                known_hosts=pinned,
                client_factory=lambda: client,
                config=None,  # no ~/.ssh/config of any user changes how sparkd connects
                agent_path=None,
                # Nor anything else in a home folder, which the daemon's own sandbox hides (asyncssh looks at ~/.ssh/crt).
                x509_trusted_certs=None,
                x509_trusted_cert_paths=[],
                preferred_auth="publickey",
                keepalive_interval=KEEPALIVE_S,
                keepalive_count_max=KEEPALIVE_COUNT,
                login_timeout=CONNECT_S,
            )
        try:
            yield connection
        finally:
            connection.abort()  # says no goodbye, so a dead peer cannot delay it
            with anyio.move_on_after(CLOSE_S, shield=True):
                await connection.wait_closed()

    async def _forward(self, connection: asyncssh.SSHClientConnection) -> None:
        """Opens the two local listeners; each connection to one becomes a channel to the node's own socket."""
        folder = self._local.docker.parent
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.chmod(0o700)  # a process that can open the Docker socket is root on the node
        for local, remote in ((self._local.docker, self._remote.docker), (self._local.service, self._remote.service)):
            if len(str(local).encode()) > SOCKET_PATH_BYTES:
                raise OSError(f"socket path longer than {SOCKET_PATH_BYTES} bytes, choose a shorter paths.run: {local}")
            local.unlink(missing_ok=True)
            await connection.forward_local_path(str(local), str(remote))
        self._inodes = self._opened()

    def _now_connected(self) -> None:
        self.connection += 1
        self._lost, self.since, self._left = None, clock.now(), False
        log.info("node connected", node=self.name, address=self._node.address)
        self._changed()

    def _now_lost(self, pinned: asyncssh.SSHKnownHosts | None, raised: Exception | None) -> None:
        error = reason(self._node, self._known_hosts, pinned, raised)
        for local in (self._local.docker, self._local.service):
            try:
                local.unlink(missing_ok=True)
            except OSError as failed:  # a disk that became read only; nobody is given the path while the node is lost
                log.debug("socket left behind", socket=str(local), why=failed.strerror)
        before, self._lost = self._lost, error
        if before is None:
            self.since, self._left = clock.now(), closed_by_node(raised)
        if before is None or (type(before), before.why) != (type(error), error.why):
            log.warning("node unreachable", node=self.name, why=error.why)
            self._changed()


_Key = asyncssh.SSHKey | tuple[asyncssh.SSHKey, bytes]


def _key(path: str) -> _Key:
    """A private key, and the certificate that lies beside it, if one does. Raises OSError and asyncssh.KeyImportError."""
    key = asyncssh.import_private_key(files.read(path))
    try:
        return key, files.read(f"{path}-cert.pub")
    except FileNotFoundError:
        return key


class _Client(asyncssh.SSHClient):
    """Remembers what ended the connection; asyncssh reports it only here."""

    ended_by: Exception | None = None

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended_by = self.ended_by or exc


def _limit_opening(connection: asyncssh.SSHClientConnection, client: _Client) -> None:
    """End the connection when the node answers its keepalives, but opens no channel.

    asyncssh waits for ever then, with two tasks and a descriptor for every dial, and there is no setting for it.
    """
    opened = connection.create_unix_connection

    async def within(*args: Any, **options: Any) -> Any:
        try:
            with anyio.fail_after(OPEN_S):
                return await opened(*args, **options)
        except TimeoutError:
            client.ended_by = OSError(f"it answers, but opens no channel within {OPEN_S:g} s; connecting again")
            connection.abort()
            raise asyncssh.ChannelOpenError(asyncssh.OPEN_CONNECT_FAILED, str(client.ended_by)) from None

    connection.create_unix_connection = within  # type: ignore[method-assign]
