"""Node services behind a socket: the real one as a process, and one that misbehaves as told."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream

from ..waiting import until


@asynccontextmanager
async def real_service(socket: Path, state: Path) -> AsyncIterator[subprocess.Popen[bytes]]:
    argv = [sys.executable, "-m", "sparkd.node", "--socket", str(socket), "--state-dir", str(state)]
    argv += ["--config", str(state / "none.json")]
    process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        await until("the node service listens", socket.exists)
        yield process
    finally:
        process.terminate()
        await anyio.to_thread.run_sync(process.wait)


Say = Callable[..., Awaitable[None]]
"""Sends one answer, given as keyword arguments."""


@asynccontextmanager
async def odd_service(socket: Path, answer: Callable[[Mapping[str, Any], Say], Awaitable[None]]) -> AsyncIterator[None]:
    """`answer(request, say)` is called for each request. When it raises EndOfStream the connection is closed."""

    async def serve(stream: SocketStream) -> None:
        async def say(**fields: Any) -> None:
            await stream.send(json.dumps(fields).encode() + b"\n")

        received = BufferedByteReceiveStream(stream)
        async with stream:
            try:
                while True:
                    await answer(json.loads(await received.receive_until(b"\n", 1 << 20)), say)
            except (anyio.EndOfStream, anyio.IncompleteRead, anyio.BrokenResourceError):
                return

    async with await anyio.create_unix_listener(socket) as listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, serve)
        yield
        # First let the ends of connections arrive: anyio's sockets complain when one meets a cancellation.
        await anyio.wait_all_tasks_blocked()
        group.cancel_scope.cancel()
