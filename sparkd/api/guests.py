"""Who is connected to a listener: how many in all and of one client, and one request of each at a time."""

from __future__ import annotations

import asyncio
import logging
import resource

import anyio
from aiohttp import web, web_protocol

from sparkd.api.gate import peer_id

CONNECTIONS = 512
"""On one listener; more are closed at once, or clients could use up all file descriptors."""
SHARE = 4
"""One client gets this part of them. Another connection of it takes the place of its oldest, so that of many programs behind
one address (all of a machine are `127.0.0.1`) none can lock out the others for long."""
GRACE_S = 0.25
"""Every connection has this long for an answer, which takes some milliseconds, before it may have to give up its place."""
web_protocol.MAX_MSG_QUEUE_SIZE = 1
"""Requests of one connection that aiohttp parses ahead: it would do so with 32."""
IDLE_S = 15.0
"""A connection without a complete request for this long is closed (slow loris)."""
QUIET = logging.getLogger("sparkd.api.aiohttp")
"""What a client gets wrong is answered to it. aiohttp would also log it with a trace, and a client could
fill the journal that way."""
QUIET.setLevel(logging.CRITICAL)


class Guests:
    """Who is connected to one listener."""

    def __init__(self, places: int) -> None:
        self._places, self._each = places, max(1, places // SHARE)
        self._connected: dict[str, dict[asyncio.Transport, float]] = {}
        """Client -> its connections and since when, the oldest first."""
        self._count = 0

    def admit(self, transport: asyncio.Transport) -> bool:
        """False when there is no place left."""
        client, now = peer_id(transport), anyio.current_time()
        own = self._connected.get(client, {})
        if len(own) >= self._each:
            oldest = next(iter(own))
            if now - own[oldest] < GRACE_S:
                return False
            oldest.abort()
            self.leave(oldest, client)
        if self._count >= self._places:
            return False
        self._connected.setdefault(client, {})[transport] = now
        self._count += 1
        return True

    def leave(self, transport: asyncio.Transport, client: str) -> None:
        """The connection has ended; it may have been removed already."""
        own = self._connected.get(client, {})
        if own.pop(transport, None) is not None:
            self._count -= 1
        if not own:
            self._connected.pop(client, None)


class Arrival(asyncio.Protocol):
    """A connection at the door. What serves it is only made when it is let in: it costs a hundred times as much."""

    def __init__(self, guests: Guests, server: web.Server) -> None:
        self._guests, self._server = guests, server

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        if not self._guests.admit(transport):
            transport.abort()
            return
        connection = _Connection(self._guests, self._server)
        transport.set_protocol(connection)
        connection.connection_made(transport)


class _Connection(web.RequestHandler):
    """One connection. Its next request is taken up when the answer to the last one has left: nothing piles up for a client
    that asks and does not read."""

    def __init__(self, guests: Guests, server: web.Server) -> None:
        super().__init__(
            server,
            loop=asyncio.get_running_loop(),
            access_log=None,  # type: ignore[arg-type]  # aiohttp's own way to say that there is none
            logger=QUIET,
            auto_decompress=False,  # 300 MB in 300 kB held up the loop for 0.7 s, and nobody has a use for it
            keepalive_timeout=IDLE_S,
        )
        self._guests = guests
        self._place: tuple[asyncio.Transport, str] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._place = transport, peer_id(transport)
        transport.set_write_buffer_limits(0)
        super().connection_made(transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        if self._place is not None:
            self._guests.leave(*self._place)
        super().connection_lost(exc)


def places() -> int:
    """Connections of one listener: with both full, half of the file descriptors must be left for the nodes."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return min(CONNECTIONS, limit // 4) if limit > 0 else CONNECTIONS
