"""Sockets to servers: the Unix socket for people of the group `sparkd`, the TCP listener for machines and browsers."""

from __future__ import annotations

import asyncio
import errno
import grp
import os
import socket
import stat
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio
import structlog
from aiohttp import web

from sparkd.api.guests import Arrival, Guests, places
from sparkd.base.errors import SparkdError

log = structlog.get_logger("sparkd.api")

GROUP = "sparkd"
RETRY_S = 15.0
CLOSE_S = 0.5
WATCH_S = 5.0
"""Between two looks at our own socket file: it may be removed, and without it sparkd cannot be operated."""

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.ENOMEM)
"""Reasons that pass: for them there is no socket for a while, and supervision goes on."""


class SocketBusy(SparkdError):
    """Another process answers on the socket already."""


def _prepare(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if _answers(path):
        raise SocketBusy(f"another process answers on {path}")
    path.unlink(missing_ok=True)


def bind_unix(path: Path, group: str = GROUP) -> socket.socket:
    """A listening socket at `path`: 0660 for the group where it exists and may be given, else 0600.

    A file left behind is replaced, unless a process answers on it. Raises SocketBusy, or OSError.
    """
    _prepare(path)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        os.fchmod(sock.fileno(), 0o600)  # the file is made with this mode: never open to others, not for a moment
        sock.bind(str(path))
        _give_to(path, group)
        sock.listen(128)
    except BaseException:
        sock.close()
        raise
    return sock


def _answers(path: Path) -> bool:
    """Does a process listen behind this socket file? Raises FileExistsError when it is no socket at all."""
    try:
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise FileExistsError(f"{path} is there and is no socket")
    except FileNotFoundError:
        return False
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        except (TimeoutError, BlockingIOError):
            return True  # its queue is full: alive, if not well
    return True


def _give_to(path: Path, group: str) -> None:
    try:
        os.chown(path, -1, grp.getgrnam(group).gr_gid)
        path.chmod(0o660)
    except (KeyError, PermissionError) as error:
        log.warning("only this user and root can use the socket", socket=str(path), group=group, why=str(error))


def _inode(path: Path) -> int | None:
    try:
        return path.lstat().st_ino
    except OSError:
        return None  # gone, with or without its folder


@dataclass(slots=True)
class _Door:
    """The Unix socket, its file, and who answers behind it."""

    path: Path
    accept: Callable[[], asyncio.Protocol]
    server: asyncio.Server | None = None
    inode: int | None = None

    async def open(self) -> None:
        """Raises as `bind_unix`."""
        sock = bind_unix(self.path)
        self.inode = _inode(self.path)
        self.server = await asyncio.get_running_loop().create_unix_server(self.accept, sock=sock)

    async def keep_open(self) -> None:
        """Make the file anew when it was taken away; those who are connected stay so."""
        complained = False
        while True:
            await anyio.sleep(WATCH_S)
            if self.server is not None and _inode(self.path) == self.inode:
                continue
            self.shut()
            try:
                await self.open()
                log.warning("the socket is there again", socket=str(self.path))
                complained = False
            except (SocketBusy, OSError) as error:
                if not complained:
                    log.error("the socket is gone and cannot be made", socket=str(self.path), why=str(error))
                complained = True

    def shut(self) -> None:
        """Accept no more."""
        server, self.server = self.server, None
        if server is not None:
            server.close()

    def remove(self) -> None:
        """The file goes, if it is still ours."""
        if _inode(self.path) == self.inode:
            self.path.unlink(missing_ok=True)


@asynccontextmanager
async def unix_server(app: web.Application, path: Path) -> AsyncIterator[None]:
    """Serve on the Unix socket; its file goes when this ends. Raises as `bind_unix`; for want of room it tries on."""
    async with _protocols(app) as accept, anyio.create_task_group() as group:
        door = _Door(path, accept)
        try:
            await door.open()
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise
            log.error("there is no room for the socket; trying on", socket=str(path), why=str(error))
        group.start_soon(door.keep_open)
        try:
            yield
        finally:
            group.cancel_scope.cancel()
            door.shut()
            door.remove()


async def tcp_server(app: web.Application, listen: str, started: Callable[[int], None] = lambda port: None) -> None:
    """Serve on HOST:PORT until cancelled; a port that is taken is tried again, for it must not end the daemon."""
    host, _, port = listen.rpartition(":")
    complained = False
    async with _protocols(app) as accept:
        while True:
            try:
                server = await asyncio.get_running_loop().create_server(accept, host.strip("[]"), int(port))
            except OSError as error:
                if not complained:
                    log.error("the HTTP listener cannot be opened; trying on", listen=listen, why=str(error))
                complained = True
                await anyio.sleep(RETRY_S)
                continue
            started(server.sockets[0].getsockname()[1])
            try:
                await anyio.sleep_forever()
            finally:
                server.close()


@asynccontextmanager
async def _protocols(app: web.Application) -> AsyncIterator[Callable[[], asyncio.Protocol]]:
    """What asyncio calls for every connection."""
    runner = web.AppRunner(app, shutdown_timeout=CLOSE_S)
    await runner.setup()
    server = runner.server
    assert server is not None  # setup makes it
    guests = Guests(places())

    def accept() -> asyncio.Protocol:
        return Arrival(guests, server)

    try:
        yield accept
    finally:
        with anyio.move_on_after(4 * CLOSE_S, shield=True):
            await runner.cleanup()
