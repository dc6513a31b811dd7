"""Answers that go on: events and logs to many listeners, each with a bounded queue, none able to hold up another."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import aclosing, asynccontextmanager, contextmanager
from typing import Any

import anyio
import structlog
from aiohttp import ClientConnectionResetError, web
from anyio.streams.memory import MemoryObjectSendStream

from sparkd.api.gate import HEADERS, cut_off
from sparkd.api.service import Busy

log = structlog.get_logger("sparkd.api")

QUEUED = 128
"""Messages that may wait for one listener; beyond that it is cut off and may come again."""
BEAT_S = 10.0
"""Without anything to say: a sign of life this often, which also finds out who is gone."""
WRITE_S = 10.0
"""For a listener to take one message."""
STREAMS, STREAMS_EACH = 64, 16
"""Open streams on one listener, of all clients and of one."""


class Hub:
    """Hands every published message to all who listen now."""

    def __init__(self) -> None:
        self._listeners: set[MemoryObjectSendStream[bytes]] = set()

    def publish(self, kind: str, body: Mapping[str, Any]) -> None:
        """Never waits: a listener whose queue is full is let go. Encoded once, however many listen."""
        if not self._listeners:
            return
        message = event(kind, line({"schema": 1, **body}), body.get("id"))
        for send in tuple(self._listeners):
            try:
                send.send_nowait(message)
            except (anyio.WouldBlock, anyio.BrokenResourceError):
                self._listeners.discard(send)
                send.close()

    @asynccontextmanager
    async def subscribe(self) -> AsyncIterator[AsyncIterator[bytes]]:
        """Server-sent events from now on; the iterator ends when this listener is too slow."""
        send, receive = anyio.create_memory_object_stream[bytes](QUEUED)
        self._listeners.add(send)
        try:
            with receive:
                yield receive
        finally:
            self._listeners.discard(send)
            send.close()


class Places:
    """How many streams are open, in all and of each client."""

    def __init__(self) -> None:
        self._taken: Counter[str] = Counter()

    @contextmanager
    def take(self, client: str) -> Iterator[None]:
        """Raises Busy when there is no place left."""
        if self._taken.total() >= STREAMS or self._taken[client] >= STREAMS_EACH:
            raise Busy("too many streams are open", "close one, or ask for /api/v1/status now and then")
        self._taken[client] += 1
        try:
            yield
        finally:
            self._taken[client] -= 1
            self._taken += Counter()  # forgets clients at zero


def event(kind: str, body: bytes, id: object = None) -> bytes:
    """One server-sent event; the body is a line of JSON."""
    number = b"" if id is None else f"id: {id}\n".encode()
    return number + f"event: {kind}\ndata: ".encode() + body + b"\n"


def line(body: Mapping[str, Any]) -> bytes:
    """One line of NDJSON."""
    return json.dumps(body, separators=(",", ":"), default=str).encode() + b"\n"


async def relay(
    request: web.Request, content_type: str, source: AsyncGenerator[bytes], beat: bytes
) -> web.StreamResponse:
    """Send what comes from `source` until it ends or the client goes away or stops reading. HEAD gets the head alone."""
    headers = {**HEADERS, "Content-Type": content_type, "X-Accel-Buffering": "no"}
    if request.method == "HEAD":
        return web.Response(headers=headers)
    response = web.StreamResponse(headers=headers)
    await response.prepare(request)
    send, receive = anyio.create_memory_object_stream[bytes](16)
    try:
        # The group innermost: it must have ended `_fill` before the streams that `_fill` waits on are closed.
        async with receive, send, anyio.create_task_group() as group:
            group.start_soon(_fill, source, send)
            while True:
                chunk = beat
                with anyio.move_on_after(BEAT_S):
                    chunk = await receive.receive()
                with anyio.fail_after(WRITE_S):
                    await response.write(chunk)
    except* anyio.EndOfStream:
        with anyio.move_on_after(WRITE_S):
            await response.write_eof()
    except* (TimeoutError, ClientConnectionResetError, ConnectionError):
        cut_off(request)  # gone, or too slow
    except* Exception:
        log.exception("a stream failed", path=request.path, hint="this is a bug in sparkd; please report it")
        cut_off(request)
    return response


async def _fill(source: AsyncGenerator[bytes], send: MemoryObjectSendStream[bytes]) -> None:
    with send:
        async with aclosing(source) as chunks:
            async for chunk in chunks:
                await send.send(chunk)
