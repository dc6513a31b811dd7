"""The body of Docker's logs answer, as a Docker that means harm cuts it: what is joined, and what one turn of the loop does."""

from __future__ import annotations

import asyncio
from unittest.mock import Mock

import aiohttp
import anyio
import anyio.lowlevel
import pytest

from sparkd.base import bounded_bytes as stream_bounds
from sparkd.runtimes.logs import HEADER, MAX_LINE, LogLine, lines

STAMP = b"2026-11-27T03:00:30.5Z "


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def body(*frames: tuple[int, bytes]) -> aiohttp.StreamReader:
    """All of it has come already, and is in the reader's buffer: nothing in reading it waits."""
    reader = aiohttp.StreamReader(Mock(_reading_paused=False), 1 << 16, loop=asyncio.get_running_loop())
    reader.feed_data(b"".join(HEADER.pack(kind, len(text)) + text for kind, text in frames))
    reader.feed_eof()
    return reader


async def found(reader: aiohttp.StreamReader) -> list[LogLine]:
    return [line async for line in lines(reader)]


async def test_parts_are_joined_by_stream_and_the_last_line_needs_no_end() -> None:
    cut = [(1, STAMP + b"a"), (2, STAMP + b"x"), (1, STAMP + b"b"), (1, STAMP + b"c\n"), (2, STAMP + b"y")]
    read = await found(body((1, STAMP + b"one\n"), *cut))
    assert [(line.stream, line.text) for line in read] == [("stdout", "one"), ("stdout", "abc"), ("stderr", "xy")]
    assert {line.at for line in read} == {1795748430.5}


async def test_a_line_in_endless_parts_is_kept_up_to_its_bound() -> None:
    parts = [(1, STAMP + b"z" * 1000)] * 500
    [line] = await found(body(*parts, (1, STAMP + b"\n")))
    assert line.text == "z" * MAX_LINE


async def test_the_loop_runs_on_while_thousands_of_tiny_frames_are_read() -> None:
    turns = 0

    async def go_on() -> None:
        nonlocal turns
        while True:
            turns += 1
            await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as group:
        group.start_soon(go_on)
        read = await found(body(*[(1, b"\n")] * 6400))
        group.cancel_scope.cancel()
    assert len(read) == 6400
    assert turns >= 6400 // stream_bounds.STEP
