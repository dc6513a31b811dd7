"""Engines that mean harm against the HTTP client: how much is read and done between two turns of the loop, counted."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from bench.hostile import KINDS, engine

from sparkd import http
from sparkd.base import bounded_bytes as stream_bounds
from sparkd.base.bounded_bytes import Bounds, Steps, TooMuch
from sparkd.base.errors import SparkdError


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with engine() as base_url:
        yield base_url


@dataclass
class Turns:
    """How much was done in one turn of the loop at most: a sibling counts the turns."""

    turn: int = 0
    bytes_read: int = 0
    most_bytes: int = 0
    most_pieces: int = 0
    _bytes: tuple[int, int] = (0, 0)
    _pieces: tuple[int, int] = (0, 0)

    async def go_on(self) -> None:
        while True:
            self.turn += 1
            await anyio.lowlevel.checkpoint()

    def read(self, count: int) -> None:
        self.bytes_read += count
        turn, before = self._bytes
        self._bytes = self.turn, count + (before if turn == self.turn else 0)
        self.most_bytes = max(self.most_bytes, self._bytes[1])

    def piece(self) -> None:
        turn, before = self._pieces
        self._pieces = self.turn, 1 + (before if turn == self.turn else 0)
        self.most_pieces = max(self.most_pieces, self._pieces[1])


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> Turns:
    found = Turns()
    read, step = http._Wire.read, Steps.step

    async def counted_read(wire: http._Wire, most: int, timeout: float | None = None) -> bytes:
        data = await read(wire, most, timeout)
        found.read(len(data))
        return data

    async def counted_step(steps: Steps) -> None:
        found.piece()
        await step(steps)

    monkeypatch.setattr(http._Wire, "read", counted_read)
    monkeypatch.setattr(Steps, "step", counted_step)
    return found


@pytest.mark.parametrize("kind", KINDS)
async def test_whatever_an_engine_sends_the_loop_runs_on_meanwhile(kind: str, url: str, turns: Turns) -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(turns.go_on)
        done = await http.complete(f"{url}/{kind}", "/v1/completions", {}, 2.0)
        streamed, turns.bytes_read = turns.bytes_read, 0
        with suppress(SparkdError):
            await http.metrics_text(f"{url}/{kind}", "/metrics", 2.0)
        group.cancel_scope.cancel()
    await http.aclose()
    assert not done.ok
    assert turns.most_bytes <= http.READ_BYTES
    assert turns.most_pieces <= 2 * stream_bounds.STEP
    most = http.WIRE_BYTES + http.READ_BYTES
    assert max(streamed, turns.bytes_read) <= most


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("line-then-bytes", "a line of the answer is longer than 262144 bytes"),
        ("bytes", "the answer comes in more than 300 pieces"),
        ("events", "the answer comes in more than 300 pieces"),
        ("lines", "the answer comes in more than 300 pieces"),
        ("interim", "connection lost (it sends without end)"),
        ("headers", "connection lost (Receive buffer too long)"),
        ("objects", "a line of the answer is longer than 262144 bytes"),
    ],
)
async def test_too_much_is_said_to_be_too_much(kind: str, why: str, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "STREAM", replace(http.STREAM, pieces=300))
    assert (await http.complete(f"{url}/{kind}", "/v1/completions", {}, 10.0)).why == why
    await http.aclose()


async def test_the_deadline_ends_what_has_no_other_end(url: str, turns: Turns, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "STREAM", Bounds(1 << 40, 1 << 40, 1 << 40))
    monkeypatch.setattr(http, "WIRE_BYTES", 1 << 40)
    assert (await http.complete(f"{url}/bytes", "/v1/completions", {}, 0.3)).why == "not finished within 0.3 s"
    assert turns.bytes_read > http.READ_BYTES
    await http.aclose()


async def test_of_a_refusal_the_beginning_is_read_and_its_status_is_what_was_said(url: str, turns: Turns) -> None:
    done = await http.complete(f"{url}/refusal", "/v1/completions", {}, 10.0)
    assert done.why.startswith(f"{http.UNAUTHORIZED}: [{{}},[")
    assert turns.bytes_read <= 2 * http.REFUSAL_BYTES
    await http.aclose()


# ----------------------------------------------------------------------------------------------------------------- lines


SCANNED = [0]


class Scanned(bytes):
    """Counts the bytes that are looked at for a newline."""

    def find(self, newline: Any, begin: Any = 0, end: Any = None) -> int:
        found = bytes.find(self, newline, begin, end)
        SCANNED[0] += (len(self) if found < 0 else found + 1) - begin
        return found


async def each(parts: Iterable[bytes]) -> AsyncIterator[bytes]:
    for part in parts:
        yield Scanned(part)


async def test_newlines_are_looked_for_in_new_bytes_only() -> None:
    """Seven MiB and then byte after byte: each of them was a search through all that had come."""
    SCANNED[0] = 0
    parts = [b"x" * 65536] * 112 + [b"y"] * 10_000 + [b"\nz\n"]
    wide = Bounds(1 << 24, 1 << 20, 1 << 24)
    found = [line async for line in stream_bounds.lines(each(parts), wide)]
    assert found == [b"x" * 65536 * 112 + b"y" * 10_000, b"z"]
    assert SCANNED[0] == sum(map(len, parts))


@pytest.mark.parametrize(
    "parts", [[b"a\nb", b"c\n\n", b"d\n"], [b"a", b"\n", b"b", b"c", b"\n", b"\n", b"d\n"], [b"a\nbc\n\nd\nrest"]]
)
async def test_lines_are_the_same_however_they_are_cut(parts: list[bytes]) -> None:
    wide = Bounds(100, 100, 100)
    assert [line async for line in stream_bounds.lines(each(parts), wide)] == [b"a", b"bc", b"", b"d"]


@pytest.mark.parametrize("bounds", [Bounds(9, 100, 100), Bounds(100, 5, 100), Bounds(100, 100, 3)])
async def test_each_bound_ends_it(bounds: Bounds) -> None:
    with pytest.raises(TooMuch):
        async for _ in stream_bounds.lines(each([b"ab\n", b"cdefg", b"h\n", b"i\n"]), bounds):
            pass


async def test_many_lines_are_read_beside_the_loop_as_a_long_text_is() -> None:
    here, half = threading.get_ident(), "x" * (stream_bounds.SMALL_CHARS // 2)
    assert await stream_bounds.parsed(lambda lines: threading.get_ident(), [half] * 2) == here
    assert await stream_bounds.parsed(lambda lines: threading.get_ident(), [half] * 3) != here


async def test_a_long_page_is_parsed_beside_the_loop_and_a_short_one_on_it() -> None:
    here = threading.get_ident()
    assert await stream_bounds.parsed(lambda text: threading.get_ident(), "x" * stream_bounds.SMALL_CHARS) == here
    assert await stream_bounds.parsed(lambda text: threading.get_ident(), "x" * (stream_bounds.SMALL_CHARS + 1)) != here
