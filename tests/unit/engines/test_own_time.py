"""Lateness of our own loop fails no canary: a standstill costs a deadline next to nothing."""

from __future__ import annotations

import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from anyio.abc import SocketStream

from sparkd import http
from sparkd.base import own_time
from sparkd.base.errors import DockerMute, Late
from sparkd.hosts.client import NodeClient
from sparkd.runtimes.connection import Connection

ANSWER = b'data: {"choices":[{"text":"x"}]}\n\ndata: [DONE]\n\n'
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: %d\r\n\r\n" % len(ANSWER)


@asynccontextmanager
async def engine(asked: anyio.Event, may_answer: anyio.Event) -> AsyncIterator[str]:
    async def serve(client: SocketStream) -> None:
        async with client:
            await client.receive()
            asked.set()
            await may_answer.wait()
            await client.send(HEAD + ANSWER)

    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, serve)
        yield f"http://127.0.0.1:{listener.extra(anyio.abc.SocketAttribute.local_port)}"
        group.cancel_scope.cancel()


async def test_a_standstill_longer_than_the_deadline_fails_no_completion() -> None:
    asked, may_answer = anyio.Event(), anyio.Event()
    async with engine(asked, may_answer) as url, anyio.create_task_group() as group:

        async def stand_still() -> None:
            await asked.wait()
            may_answer.set()
            time.sleep(1.5)  # the loop itself: nothing of it runs meanwhile, as under SIGSTOP

        group.start_soon(stand_still)
        done = await http.complete(url, "/v1/completions", {}, deadline_s=1.0)
    assert (done.ok, done.why) == (True, "")


async def test_an_engine_that_does_not_answer_is_given_up_in_time() -> None:
    async with engine(anyio.Event(), anyio.Event()) as url:
        done = await http.complete(url, "/v1/completions", {}, deadline_s=0.3)
    assert (done.ok, done.why) == (False, "not finished within 0.3 s")


async def test_a_deadline_passes_in_its_own_time_and_only_there() -> None:
    with pytest.raises(TimeoutError), own_time.fail_after(0.2):
        await anyio.sleep_forever()
    with own_time.fail_after(0.2):
        await anyio.lowlevel.checkpoint()
    with pytest.raises(ValueError, match="its own"), own_time.fail_after(5.0):
        raise ValueError("its own")


async def test_a_standstill_in_the_middle_of_a_call_to_docker_fails_no_start(tmp_path: Path) -> None:
    socket = tmp_path / "docker.sock"
    socket.touch()
    connection = Connection("spark1", lambda: socket)
    async with connection.call("starting a rank", 0.3):
        time.sleep(0.6)
        await anyio.sleep(0.02)
    with pytest.raises(DockerMute, match=r"did not end in 0\.1 s"):
        async with connection.call("starting a rank", 0.1):
            await anyio.sleep_forever()
    await connection.aclose()


class _Node:
    """A node service behind a socket."""

    name, connection = "spark1", 1

    def __init__(self, socket: Path) -> None:
        self.socket = socket

    def node_socket(self) -> Path:
        return self.socket


@pytest.mark.parametrize("answers", [True, False])
async def test_a_standstill_in_the_middle_of_a_verb_of_a_node_fails_no_start(answers: bool) -> None:
    with tempfile.TemporaryDirectory(prefix="sd-") as folder:
        socket = Path(folder) / "node.sock"

        async def serve(stream: SocketStream) -> None:
            async with stream:
                await stream.receive()
                time.sleep(0.6)  # the loop of both, as under SIGSTOP
                if answers:
                    await stream.send(b'{"ok":true,"result":{"id":"x"}}\n')
                await anyio.sleep_forever()

        async with await anyio.create_unix_listener(socket) as listener, anyio.create_task_group() as group:
            group.start_soon(listener.serve, serve)
            client = NodeClient(_Node(socket), "us")  # type: ignore[arg-type]
            if answers:
                assert await client.call("start_rank", {}, 0.3) == {"id": "x"}
            else:
                with pytest.raises(Late):
                    await client.call("start_rank", {}, 0.3)
            await client.aclose()
            group.cancel_scope.cancel()
