"""`python -m tests.bench.hostile`: an engine that means harm, in a process of its own; prints its port.

The first word of a path names the kind of answer: `/bytes/metrics`. Each sends for as long as anybody reads.
"""

from __future__ import annotations

import asyncio
import gzip
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ncontent-type: text/event-stream\r\n\r\n"
BLOCK = b"x" * 65536
Kind = Callable[[asyncio.StreamWriter], Awaitable[None]]


def chunk(body: bytes) -> bytes:
    """One chunk of HTTP."""
    return b"%x\r\n%b\r\n" % (len(body), body)


def endless(head: bytes, block: bytes) -> Kind:
    """The block again and again."""

    async def send(writer: asyncio.StreamWriter) -> None:
        writer.write(head)
        while True:
            writer.write(block)
            await writer.drain()

    return send


def whole(body: bytes, *headers: bytes) -> Kind:
    """A body whose length is told."""

    async def send(writer: asyncio.StreamWriter) -> None:
        told = b"".join(header + b"\r\n" for header in (*headers, b"content-length: %d" % len(body)))
        writer.write(b"HTTP/1.1 200 OK\r\n" + told + b"\r\n" + body)
        await writer.drain()

    return send


async def drip(writer: asyncio.StreamWriter) -> None:
    """A byte now and then."""
    writer.write(CHUNKED)
    while True:
        writer.write(chunk(b"a"))
        await writer.drain()
        await asyncio.sleep(0.01)


KINDS: Mapping[str, Kind] = {
    "line-then-bytes": endless(CHUNKED + chunk(BLOCK) * 112, chunk(b"a") * 20_000),
    "bytes": endless(CHUNKED, chunk(b"a") * 20_000),
    "events": endless(CHUNKED, chunk(b"data: {}\n\n") * 5_000),
    "blocks": endless(CHUNKED, chunk(BLOCK)),
    "drip": drip,
    "headers": endless(b"HTTP/1.1 200 OK\r\n", b"a:b\r\n" * 4_000),
    "interim": endless(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 500),
    "chunk-marks": endless(CHUNKED, b"1;" + b"m" * 4_000 + b"\r\na\r\n"),
    "compressed": whole(gzip.compress(b"\0" * 100_000_000, 1), b"content-encoding: gzip"),
    "brackets": whole(b"data: " + b"[" * 7_000_000 + b"\n"),
    "objects": whole(b'data: {"x":[' + b"{}," * 2_300_000 + b"{}]}\n"),
    "digits": whole(b'data: {"x":' + b"9" * 200_000 + b"}\n"),
    "lines": whole(b"x\n" * 4_000_000),
    "samples": whole(b"vllm:x 1\n" * 230_000),
    "refusal": endless(CHUNKED.replace(b"200 OK", b"401 No"), chunk(b"[{}," * 4_096)),
    "no-http": endless(b"", b"\0\xff" * 100_000),
}


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        head = await reader.readuntil(b"\r\n\r\n")
        await KINDS.get(head.split()[1].decode().split("/")[1], whole(b""))(writer)
    writer.close()


async def _main() -> None:
    server = await asyncio.start_server(_answer, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


@contextmanager
def engine() -> Iterator[str]:
    """Its base URL, while it runs."""
    argv = [sys.executable, "-m", "tests.bench.hostile"]
    with subprocess.Popen(argv, cwd=Path(__file__).parents[2], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(child.stdout.readline())}"
        finally:
            child.kill()


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        asyncio.run(_main())
