"""Clients that mean harm, or are broken: they get nothing, and nobody else waits for them."""

from __future__ import annotations

import json
import logging
import os
import random
import resource
import select
import shutil
import socket
import subprocess
import threading
import time
import zlib
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest
import structlog
from aiohttp import web

from sparkd.api import gate, guests, listen, routes, streams
from sparkd.journal import Event
from sparkd.model.view import ClusterView

from ..waiting import until
from .api_world import Daemon, Place, running


@asynccontextmanager
async def raw(
    place: Place, count: int = 1, first: bytes = b"", address: str = "127.0.0.1"
) -> AsyncIterator[list[socket.socket]]:
    """Plain TCP connections from this address of the machine that have said `first`."""

    def connect() -> socket.socket:
        one = socket.create_connection(("127.0.0.1", place.port), timeout=10, source_address=(address, 0))
        with suppress(ConnectionError):  # it may be closed already
            one.sendall(first)
        one.setblocking(False)
        return one

    opened: list[socket.socket] = []
    try:
        for _ in range(count):
            opened.append(await anyio.to_thread.run_sync(connect))
        yield opened
    finally:
        for one in opened:
            one.close()


async def ended(connection: socket.socket, deadline_s: float = 20.0) -> bytes:
    """What the server sent until it closed the connection."""
    found = b""
    with anyio.fail_after(deadline_s):
        while True:
            await anyio.wait_readable(connection)
            try:
                part = connection.recv(65536)
            except ConnectionResetError:
                return found
            if not part:
                return found
            found += part


async def works(place: Place, times: int = 1) -> float:
    """Asks on both listeners, `times` over; returns the longest wait in seconds."""
    longest = 0.0
    for _ in range(times):
        async with place.unix() as local, place.tcp() as remote:
            for session in (local, remote):
                began = time.perf_counter()
                async with session.get("/metrics") as answer:
                    assert answer.status == 200
                    await answer.read()
                longest = max(longest, time.perf_counter() - began)
    return longest


async def answers(place: Place, address: str = "127.0.0.1") -> bool:
    """Does a new client at this address of the machine get an answer over TCP?"""
    connector = aiohttp.TCPConnector(local_addr=(address, 0))
    async with aiohttp.ClientSession(f"http://127.0.0.1:{place.port}", connector=connector) as session:
        try:
            async with session.get("/healthz") as answer:
                return answer.status == 200
        except aiohttp.ClientConnectionError:
            return False


async def test_three_hundred_slow_lorises_hold_up_nobody_and_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guests, "IDLE_S", 1.0)
    async with running() as place:
        async with raw(place, 300, b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nX-Slow: ") as lorises:
            await until("the first of them have had their time", lambda: answers(place), 20)
            assert await works(place, 5) < 5.0
            for one in lorises:
                assert b"200" not in await ended(one)
        await works(place)


async def test_a_loris_that_drips_is_closed_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """A byte now and then must not count as life."""
    monkeypatch.setattr(guests, "IDLE_S", 1.0)
    async with running() as place, raw(place, 1, b"GET / HTTP/1.1\r\nX: ") as [one]:
        with anyio.fail_after(20):
            while True:
                try:
                    one.send(b"y")
                except (BrokenPipeError, ConnectionResetError):
                    break
                await anyio.sleep(0.1)
        await works(place)


async def test_connections_beyond_the_limit_are_closed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guests, "CONNECTIONS", 20)
    async with running() as place, AsyncExitStack() as opened:
        for number in range(2, 6):  # four clients take all that there is
            await opened.enter_async_context(raw(place, 5, b"GET / HTTP/1.1\r\n", f"127.0.0.{number}"))
        [one_more] = await opened.enter_async_context(raw(place, 1))
        assert await ended(one_more, 5.0) == b""
        async with place.unix() as local, local.get("/healthz") as answer:
            assert answer.status == 200  # the limit is for each listener


async def test_one_client_gets_a_part_of_the_places_and_its_newest_connections_have_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What opens connections without end behind an address must not lock out the others there, nor those elsewhere."""
    monkeypatch.setattr(guests, "CONNECTIONS", 20)
    monkeypatch.setattr(guests, "GRACE_S", 0.0)
    async with running() as place, raw(place, 60, b"GET / HTTP/1.1\r\n") as many:
        for one in many[:55]:
            assert await ended(one, 5.0) == b""
        with pytest.raises(BlockingIOError):
            many[55].recv(1)
        assert await answers(place)
        assert await ended(many[55], 5.0) == b""
        assert await answers(place, "127.0.0.2")


async def test_a_connection_has_time_for_an_answer_before_its_place_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guests, "CONNECTIONS", 20)
    monkeypatch.setattr(guests, "GRACE_S", 3600.0)
    async with running() as place, raw(place, 6) as many:
        assert await ended(many[5], 5.0) == b""
        for one in many[:5]:
            one.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            assert (await ended(one)).startswith(b"HTTP/1.1 200 ")


async def test_pipelined_requests_are_taken_up_one_by_one_as_their_answers_leave() -> None:
    """Sixty requests in one packet of a client that does not read are no sixty answers in memory."""
    begun = 0

    class Counting(Daemon):
        def view(self) -> ClusterView:
            nonlocal begun
            begun += 1
            view = super().view()
            return replace(view, cluster="x" * 8_000_000)  # more than both sockets hold

    request = b"GET /api/v1/nodes HTTP/1.1\r\nHost: localhost\r\n\r\n"
    big = request.replace(b"nodes", b"status")
    async with running(Counting()) as place, raw(place, 1, big * 60) as [one]:
        await until("the first is answered", lambda: begun >= 1)
        assert await answers(place)  # its own turn comes after that of all who are served
        first = begun
        for _ in range(20):
            assert await answers(place)
        assert begun - first == 20  # those asked just now, and none of the sixty
        assert one.recv(15) == b"HTTP/1.1 200 OK"
    async with running() as place, raw(place, 1, request * 60 + b"GET / HTTP/1.0\r\n\r\n") as [one]:
        assert (await ended(one)).count(b"HTTP/1.1 200 OK") == 60


async def test_readers_of_what_costs_much_wait_for_each_other_and_not_the_loop_for_them() -> None:
    """A hundred readers of the history kept the journal's thread so busy that its disk was taken for one that hangs."""
    here, at_once, most, listed = threading.get_ident(), 0, 0, []

    class Slow(Daemon):
        async def history(self, deployment: str | None, limit: int, after_id: int) -> Sequence[Event]:
            nonlocal at_once, most
            at_once += 1
            most = max(most, at_once)
            for _ in range(50):
                await anyio.lowlevel.checkpoint()
            at_once -= 1
            return await super().history(deployment, limit, after_id)

        def outages(self, name: str | None) -> Mapping[str, Any]:
            listed.append(threading.get_ident())
            return super().outages(name)

    request = b"GET /api/v1/history HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    async with running(Slow()) as place:
        async with raw(place, 40, request) as many:
            async with place.unix() as local, local.get("/api/v1/outages") as answer:
                assert answer.status == 200
            for one in many:
                assert (await ended(one)).startswith(b"HTTP/1.1 200 ")
        assert most == 1
        assert here not in listed


@pytest.mark.parametrize("seed", range(4))
async def test_f45_rubbish_is_answered_with_an_error_or_nothing(seed: int) -> None:
    dice = random.Random(seed)
    change = b"POST /api/v1/deployments/qwen/stop HTTP/1.1\r\n"
    begins = [b"", b"GET ", b"GET / HTTP/1.1\r\n", b"\x16\x03\x01\x02\x00", change]
    async with running() as place:
        for _ in range(30):
            async with raw(place, 1, dice.choice(begins) + dice.randbytes(dice.randrange(1, 3000)) + b"\r\n\r\n") as [
                one
            ]:
                one.shutdown(socket.SHUT_WR)
                assert b" 200 " not in (await ended(one))[:20]
        await works(place)
        assert place.daemon.asked == []


@pytest.mark.parametrize("path", [b"GET /healthz", b"POST /api/v1/reload", b"POST /api/v1/deployments/qwen/stop"])
async def test_an_expectation_of_the_unknown_is_refused_like_everything_else(path: bytes) -> None:
    ask = path + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 0\r\nExpect: banana\r\n\r\n"
    async with running() as place, raw(place, 1, ask) as [one]:
        head, _, body = (await ended(one)).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 417 ")
        assert json.loads(body)["error"]["code"] == "usage"
        assert place.daemon.asked == []


def patient_read(connection: socket.socket) -> bytes:
    """What comes first; the caller sends nothing before."""
    select.select([connection], [], [], 10)
    return connection.recv(1 << 16)


async def test_a_client_that_waits_for_100_continue_gets_it() -> None:
    ask = (
        b"POST /api/v1/deployments/qwen/stop HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 2\r\n"
    )
    async with running() as place, raw(place, 1, ask + b"Expect: 100-Continue\r\n\r\n") as [one]:
        said = await anyio.to_thread.run_sync(patient_read, one)
        one.sendall(b"{}")
        said += await ended(one)
        assert said.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 403 ")
        assert b"read only" in said


@pytest.mark.parametrize(
    "request_",
    [
        b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 100_000 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"".join(b"X-%d: y\r\n" % n for n in range(5000)) + b"\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nContent-Length: 6\r\n\r\n0\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nHost: evil\r\n\r\n",
    ],
    ids=["long path", "long header", "many headers", "two lengths", "length and chunks", "two hosts"],
)
async def test_requests_beyond_all_bounds_are_refused(request_: bytes) -> None:
    async with running() as place:
        async with raw(place, 1) as [one]:
            one.settimeout(10)
            try:
                one.sendall(request_)
                one.shutdown(socket.SHUT_WR)
            except (BrokenPipeError, ConnectionResetError):
                pass  # it was closed in the middle, as it should be
            one.setblocking(False)
            answer = await ended(one)
        assert answer[9:12] in (b"400", b"403", b"")
        await works(place)


async def test_a_body_that_never_comes_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routes, "BODY_S", 0.3)
    async with running() as place:
        sock = socket.socket(socket.AF_UNIX)
        sock.connect(str(place.sock))
        sock.sendall(b"POST /api/v1/deployments/qwen/stop HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{")
        sock.setblocking(False)
        with anyio.fail_after(10):
            await anyio.wait_readable(sock)
        assert b"400" in sock.recv(4096)
        sock.close()
        assert place.daemon.asked == []


async def test_a_client_that_reads_nothing_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "SEND_S", 0.5)
    async with running() as place:
        request = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
        async with raw(place, 1) as [one]:
            sent = 0
            with anyio.fail_after(60):
                while True:  # ask on and on, and never read
                    try:
                        sent += one.send(request * 50)
                    except BlockingIOError:
                        await anyio.sleep(0.01)
                    except (BrokenPipeError, ConnectionResetError):
                        break
            assert sent < 50_000_000
        await works(place)


STOP = b"POST /api/v1/deployments/qwen/stop HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"


async def said(place: Place, request: bytes) -> bytes:
    """The answer on the Unix socket to a request that asks for the connection to be closed."""
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(str(place.sock))
        sock.setblocking(False)
        sock.sendall(request)
        return await ended(sock)


@pytest.mark.parametrize("token", [b"\xff\xfe" * 8, b"t" * 15 + b"\xff", "\u00e9".encode() * 8, b"\x01"])
async def test_a_token_of_any_bytes_is_only_wrong(token: bytes, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("t" * 16)
    with structlog.testing.capture_logs() as logged:
        async with running(token_file=str(tmp_path / "token")) as place:
            request = STOP + b"Authorization: Bearer " + token + b"\r\nContent-Length: 2\r\n\r\n{}"
            async with raw(place, 1, request) as [one]:
                assert (await ended(one))[9:12] in (b"403", b"400")
            assert place.daemon.asked == []
    assert not [line for line in logged if line["log_level"] == "error"]


@pytest.mark.parametrize(
    "host", [b"[::1].evil.com", b"[::1]evil.com:9477", b"localhost.evil.com", b"localhost@evil.com"]
)
async def test_a_name_that_only_begins_well_is_a_foreign_one(host: bytes) -> None:
    async with running() as place:
        request = b"GET /api/v1/status HTTP/1.1\r\nConnection: close\r\nHost: " + host + b"\r\n\r\n"
        async with raw(place, 1, request) as [one]:
            assert (await ended(one))[9:12] == b"403"


async def test_the_head_of_a_stream_ends_and_takes_no_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bodies to HEAD are read as the next answer; and each of these went on for ever."""
    monkeypatch.setattr(streams, "STREAMS", 1)
    async with running() as place:
        for path in ("/api/v1/events", "/api/v1/deployments/ds4-flash/logs?follow=true") * 3:
            async with place.unix() as session, session.head(path) as answer:
                assert answer.status == 200
                assert answer.content_type in ("text/event-stream", "application/x-ndjson")
            request = f"HEAD {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode()
            assert (await said(place, request)).endswith(b"\r\n\r\n")


async def test_nothing_compressed_is_unpacked() -> None:
    """300 kB became 300 MB, and everybody waited for it."""
    async with running() as place:
        body = zlib.compress(b"{}")
        head = STOP + b"Content-Encoding: deflate\r\nContent-Length: %d\r\n\r\n" % len(body)
        assert (await said(place, head + body))[9:12] == b"400"
        assert place.daemon.asked == []


async def test_what_clients_get_wrong_leaves_no_trace_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """Or whoever likes fills the journal: each of these was logged with a stack trace, some as a bug in sparkd."""
    with structlog.testing.capture_logs() as logged, caplog.at_level(logging.DEBUG):
        async with running() as place:
            for request in (b"FOO\r\n\r\n", b"GET /\xff HTTP/1.1\r\n\r\n", STOP + b"Content-Length: 9\r\n\r\n{"):
                async with raw(place, 1, request) as [one]:
                    one.shutdown(socket.SHUT_WR)
                    await ended(one)
            await said(place, STOP + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n\r\n")
            with socket.socket(socket.AF_UNIX) as sock:
                sock.connect(str(place.sock))
                sock.sendall(STOP + b"Content-Length: 9\r\n\r\n{")  # and goes away in the middle
            await anyio.wait_all_tasks_blocked()
            await works(place)
    assert not [record for record in caplog.records if record.name.startswith(("aiohttp", "sparkd"))]
    assert not [line for line in logged if line["log_level"] == "error"]


async def test_a_socket_that_was_taken_away_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listen, "WATCH_S", 0.05)
    async with running() as place:
        place.sock.unlink()
        await until("it is there again", place.sock.is_socket)
        await works(place)
        shutil.rmtree(place.sock.parent)
        await until("it is there again with its folder", place.sock.is_socket)
        await works(place)


async def test_a_socket_that_somebody_else_has_by_now_is_left_to_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listen, "WATCH_S", 0.05)
    with structlog.testing.capture_logs() as logged:
        async with running() as place:
            place.sock.unlink()
            with socket.socket(socket.AF_UNIX) as other:
                other.bind(str(place.sock))
                other.listen(100)
                await until("it says so", lambda: any("cannot be made" in line["event"] for line in logged))
                inode = place.sock.stat().st_ino
                os.link(place.sock, place.sock.with_name("kept"))  # else the next one may get the same number
            place.sock.unlink()
            await until("it is there again", lambda: place.sock.is_socket() and place.sock.stat().st_ino != inode)
            await works(place)


@pytest.mark.lab
@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a file system needs root")
async def test_no_room_for_the_socket_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listen, "WATCH_S", 0.05)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "nr_inodes=1", "tmpfs", str(tmp_path)], check=True, timeout=60)
    try:
        async with listen.unix_server(web.Application(), tmp_path / "s"):
            assert not (tmp_path / "s").exists()
            subprocess.run(["mount", "-o", "remount,nr_inodes=9", str(tmp_path)], check=True, timeout=60)
            await until("there is room", (tmp_path / "s").is_socket)
        assert not (tmp_path / "s").exists()
    finally:
        subprocess.run(["umount", "--lazy", str(tmp_path)], check=True, timeout=60)


@pytest.mark.parametrize(("limit", "places"), [(1024, 256), (16384, 512), (-1, 512)])
def test_two_full_listeners_leave_half_of_the_descriptors(
    limit: int, places: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (limit, limit))
    assert guests.places() == places
