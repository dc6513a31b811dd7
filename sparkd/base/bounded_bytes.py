"""Bytes whose number another program chooses -> chunks and lines within bounds, read without holding up the loop.

A step of the loop is what runs between two checkpoints. A library that holds a thousand chunks in a buffer hands them out
without a checkpoint, so one is made here every few pieces. The work on one piece is bounded by the size of a piece.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import TypeVar

import anyio
import anyio.lowlevel
import anyio.to_thread
from anyio.lowlevel import RunVar

MIB = 1 << 20
STEP = 64
"""Chunks, lines or messages between two checkpoints: at some 20 µs for each that is a millisecond or two."""
SMALL_CHARS = 32 * 1024
"""Up to here it is parsed where it is asked for: a page of metrics takes 10 ns for each character, a table of nothing but short
rows of processes 500 ns."""
PARSERS = 2

S = TypeVar("S", bound=Sequence[str])
T = TypeVar("T")

_parsers: RunVar[anyio.CapacityLimiter] = RunVar("sparkd.base.bounded_bytes.parsers")


class TooMuch(Exception):
    """Another program sent more than the bound; the text says what exceeds it."""


class Steps:
    """Counts pieces and lets the loop run on after every few of them."""

    def __init__(self, most: int | None = None) -> None:
        self.most, self.count = most, 0

    async def step(self) -> None:
        """One more piece. Raises TooMuch when it was one too many; a deadline that has passed ends it here."""
        self.count += 1
        if self.most is not None and self.count > self.most:
            raise TooMuch(f"the answer comes in more than {self.most} pieces")
        if self.count % STEP == 0:
            await anyio.lowlevel.checkpoint()


@dataclass(frozen=True, slots=True)
class Bounds:
    """Of one answer: bytes in all, chunks and lines together, and bytes of one line."""

    total_bytes: int
    pieces: int
    line_bytes: int


async def chunks(source: AsyncIterable[bytes], bounds: Bounds, steps: Steps) -> AsyncGenerator[bytes]:
    """The source, as it comes. Raises TooMuch."""
    size = 0
    async for chunk in source:
        size += len(chunk)
        if size > bounds.total_bytes:
            raise TooMuch(f"the answer is longer than {bounds.total_bytes} bytes")
        await steps.step()
        yield chunk


async def body(source: AsyncIterable[bytes], bounds: Bounds) -> bytes:
    """All of it. Raises TooMuch."""
    async with aclosing(chunks(source, bounds, Steps(bounds.pieces))) as parts:
        return b"".join([part async for part in parts])


async def lines(source: AsyncIterable[bytes], bounds: Bounds) -> AsyncGenerator[bytes]:
    """Every line that ends, without its newline. Newlines are looked for in new bytes only. Raises TooMuch."""
    steps = Steps(bounds.pieces)
    rest = bytearray()
    async with aclosing(chunks(source, bounds, steps)) as parts:
        async for part in parts:
            begin = 0
            while (end := part.find(b"\n", begin)) >= 0:
                await steps.step()
                yield bytes(rest) + part[begin:end]
                rest.clear()
                begin = end + 1
            rest += part[begin:]
            if len(rest) > bounds.line_bytes:
                raise TooMuch(f"a line of the answer is longer than {bounds.line_bytes} bytes")


async def beginning(source: AsyncIterable[bytes], most_bytes: int) -> bytes:
    """So much of it, or all; nothing is read after that."""
    found, steps = bytearray(), Steps()
    async for chunk in source:
        found += chunk
        if len(found) >= most_bytes:
            break
        await steps.step()
    return bytes(found[:most_bytes])


async def parsed(parse: Callable[[S], T], said: S) -> T:
    """`parse(said)`, a text or lines, in one of few threads when it is long; it is waited for, so there are never more of them.

    For parsers in Python, which let the loop run on every 5 ms. `json.loads` holds the interpreter until it has ended,
    wherever it is called: of JSON the size must be bounded (2 MiB take 130 ms at the very worst, 40 ms as a rule).
    """
    if (len(said) if isinstance(said, str) else sum(map(len, said))) <= SMALL_CHARS:
        return parse(said)
    limiter = _parsers.get(None)
    if limiter is None:
        _parsers.set(limiter := anyio.CapacityLimiter(PARSERS))
    return await anyio.to_thread.run_sync(parse, said, limiter=limiter)
