"""The body of Docker's logs answer -> lines with time and stream."""

from __future__ import annotations

import struct
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import datetime

import aiohttp

from sparkd.base.bounded_bytes import Steps

STREAMS = {0: "stdin", 1: "stdout", 2: "stderr"}
HEADER = struct.Struct(">BxxxL")
MAX_FRAME_BYTES = 1 << 20
"""Docker cuts at 16 KiB; more means that this is no log."""
MAX_LINE = 1 << 16


@dataclass(frozen=True, slots=True)
class LogLine:
    """`at` is Unix time in seconds, of the node's clock; 0 where Docker gave none. `stream` is stdout | stderr."""

    at: float
    stream: str
    text: str


async def lines(content: aiohttp.StreamReader) -> AsyncIterator[LogLine]:
    """Joins what Docker cut at 16 KiB, up to 64 Ki characters a line. Raises ValueError for what is no log."""
    unfinished: dict[str, _Unfinished] = {}
    async for stream, frame in frames(content):
        line = _line(stream, frame)
        if (begun := unfinished.get(stream)) is not None:
            begun.add(line.text)
        elif frame.endswith(b"\n"):
            yield line
            continue
        else:
            unfinished[stream] = begun = _Unfinished(line, [line.text], len(line.text))
        if frame.endswith(b"\n"):
            yield unfinished.pop(stream).line()
    for begun in unfinished.values():
        yield begun.line()


@dataclass(slots=True)
class _Unfinished:
    """A line that came in parts; they are joined once."""

    first: LogLine
    parts: list[str]
    size: int

    def add(self, text: str) -> None:
        if self.size < MAX_LINE:
            self.parts.append(text)
            self.size += len(text)

    def line(self) -> LogLine:
        return replace(self.first, text="".join(self.parts)[:MAX_LINE])


async def frames(content: aiohttp.StreamReader) -> AsyncIterator[tuple[str, bytes]]:
    """Every frame is one message of the log; containers with a terminal have none, there every line counts as one."""
    steps = Steps()
    header = await _exactly(content, HEADER.size)
    if header and (header[0] not in STREAMS or header[1:4] != b"\0\0\0"):
        yield "stdout", header + await content.readline()
        while line := await content.readline():
            await steps.step()
            yield "stdout", line
        return
    while header:
        kind, length = HEADER.unpack(header)
        if length > MAX_FRAME_BYTES:
            raise ValueError(f"a log frame of {length} bytes")
        await steps.step()
        yield STREAMS[kind], await content.readexactly(length)
        header = await _exactly(content, HEADER.size)


async def _exactly(content: aiohttp.StreamReader, size: int) -> bytes:
    """Empty at the end of the stream."""
    first = await content.read(1)
    return first + await content.readexactly(size - 1) if first else b""


def _line(stream: str, frame: bytes) -> LogLine:
    text = frame.decode("utf-8", "replace").rstrip("\r\n")
    stamp, _, rest = text.partition(" ")
    try:
        return LogLine(datetime.fromisoformat(stamp).timestamp(), stream, rest)
    except ValueError:
        return LogLine(0.0, stream, text)
