"""Lateness of our own loop fails no canary: a standstill costs a deadline next to nothing."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest
from anyio.abc import SocketStream

from sparkd import http, own_time

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
