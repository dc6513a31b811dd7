"""Whatever answers on Docker's socket: every oddity is a DockerError of that node, and none reads as `nothing is there`."""

from __future__ import annotations

import json
import shutil
import tempfile
from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.abc import SocketStream

from sparkd.base.errors import DockerError, DockerRefused
from sparkd.model.engine_key import EngineKey
from sparkd.runtimes import connection, containers, docker
from sparkd.runtimes.docker import DockerRuntime
from sparkd.runtimes.engine_python import Located
from sparkd.runtimes.inside import Inside
from sparkd.runtimes.throwaway import Throwaway

ID = "a" * 64
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
ENTRY = {
    "Id": ID,
    "Labels": {"io.sparkd.deployment": "x"},
    "Names": ["/sparkd-x-0"],
    "State": "running",
    "Status": "Up",
}
INSPECTED: dict[str, Any] = {
    "Id": ID,
    "Name": "/sparkd-x-0",
    "Config": {"Labels": {}},
    "State": {
        "Status": "running",
        "ExitCode": 0,
        "OOMKilled": False,
        "Error": "",
        "Pid": 1,
        "StartedAt": "2026-07-01T00:00:00Z",
        "FinishedAt": "0001-01-01T00:00:00Z",
    },
}


def whole(body: bytes, status: str = "200 OK", kind: str = "application/json") -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    return head.encode() + body


def chunk(body: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(body), body)


def as_json(value: object) -> bytes:
    return whole(json.dumps(value).encode())


VERSION = as_json({"ApiVersion": "1.44", "Version": "27", "MinAPIVersion": "1.24"})
DEEP = b"[" * 100_000


@pytest.fixture
def folder() -> Iterator[Path]:
    """Not tmp_path: a Unix socket's path must stay under 108 bytes."""
    made = Path(tempfile.mkdtemp(prefix="sd-"))
    yield made
    shutil.rmtree(made)


@asynccontextmanager
async def odd_docker(
    folder: Path, answers: dict[str, bytes], endless: bytes = b"", version: bytes = VERSION
) -> AsyncIterator[Path]:
    """`answers`: part of the path -> the whole answer; `endless` is sent after it for ever."""

    async def serve(stream: SocketStream) -> None:
        try:
            async with stream:
                asked = (await stream.receive()).split(b"\r\n")[0].decode()
                if "/version" in asked:
                    return await stream.send(version)
                await stream.send(next(answer for path, answer in answers.items() if path in asked))
                while endless:
                    await stream.send(endless)
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            return None  # the client has had enough
        return None

    socket = folder / "docker.sock"
    async with await anyio.create_unix_listener(socket) as listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, serve)
        yield socket
        group.cancel_scope.cancel()


@asynccontextmanager
async def asked(folder: Path, answers: dict[str, bytes], **how: bytes) -> AsyncIterator[DockerRuntime]:
    async with AsyncExitStack() as stack:
        socket = await stack.enter_async_context(odd_docker(folder, answers, **how))
        runtime = DockerRuntime("spark1", lambda: socket)
        stack.push_async_callback(runtime.aclose)
        yield runtime


# ---------------------------------------------------------------------------------------------------------------- lists


LISTS = {
    "number": whole(b"3"),
    "null": whole(b"null"),
    "object": whole(b"{}"),
    "empty": whole(b""),
    "of numbers": whole(b"[3]"),
    "of half entries": as_json([{"Id": ID}]),
    "names no list": as_json([{**ENTRY, "Labels": {}, "Names": 3}]),
    "no id": as_json([{key: value for key, value in ENTRY.items() if key != "Id"}]),
    "cut off": whole(b'[{"Id":'),
    "deep": whole(DEEP),
    "no JSON": whole(b"<html>", kind="text/html"),
    "no HTTP": b"hello\r\n",
    "500, HTML": whole(b"<html>", "500 x", "text/html"),
    "500, no message": whole(b"{}", "500 x"),
    "500, a list": whole(b"[]", "500 x"),
}


@pytest.mark.parametrize("answer", LISTS.values(), ids=LISTS)
async def test_an_odd_list_is_an_error_and_never_an_empty_one(folder: Path, answer: bytes) -> None:
    async with asked(folder, {"containers/json": answer}) as runtime:
        with pytest.raises(DockerError):
            await runtime.containers()


def _state(**other: object) -> bytes:
    return as_json({**INSPECTED, "State": {**INSPECTED["State"], **other}})


INSPECTS = {
    "number": whole(b"3"),
    "null": whole(b"null"),
    "empty": whole(b"{}"),
    "deep": whole(DEEP),
    "no state": as_json({key: value for key, value in INSPECTED.items() if key != "State"}),
    "no configuration": as_json({**INSPECTED, "Config": None}),
    "name no text": as_json({**INSPECTED, "Name": 5}),
    "id no text": as_json({**INSPECTED, "Id": [1]}),
    "label no text": as_json({**INSPECTED, "Config": {"Labels": {"io.sparkd.owner": 5}}}),
    "pid no number": _state(Pid={}),
    "pid of 400 digits": _state(Pid=10**400),
    "exit code no number": _state(Status="exited", ExitCode="0"),
    "error no text": _state(Error=None),
}


@pytest.mark.parametrize("answer", INSPECTS.values(), ids=INSPECTS)
async def test_an_odd_container_is_an_error_and_never_gone(folder: Path, answer: bytes) -> None:
    async with asked(folder, {"containers/json": as_json([ENTRY]), f"containers/{ID}": answer}) as runtime:
        with pytest.raises(DockerError):
            await runtime.containers()


async def test_a_good_answer_is_read(folder: Path) -> None:
    """Docker names none for a container that is being removed."""
    nameless = {**ENTRY, "Id": "b", "Labels": {}, "Names": None}
    answers = {"containers/json": as_json([nameless, ENTRY]), f"containers/{ID}": as_json(INSPECTED)}
    async with asked(folder, answers) as runtime:
        assert await runtime.containers() == (replace(containers.container(INSPECTED), rank=0, deployment="x"),)


@pytest.mark.parametrize("version", [whole(b"[]"), whole(DEEP), whole(b"3")])
async def test_an_odd_version(folder: Path, version: bytes) -> None:
    async with asked(folder, {"containers/json": as_json([])}, version=version) as runtime:
        with pytest.raises(DockerError):
            await runtime.containers()


async def test_a_refusal_is_one_printable_line(folder: Path) -> None:
    refusal = whole(json.dumps({"message": "\x1b[2Jboom\n" + "x" * 5000}).encode(), "500 x")
    async with asked(folder, {"containers/json": refusal}) as runtime:
        with pytest.raises(DockerRefused) as refused:
            await runtime.containers()
    assert refused.value.why.startswith("[2Jboom xxx")
    assert str(refused.value).isprintable()
    assert len(refused.value.why) <= 300


async def test_a_connection_that_is_closed_meanwhile_is_a_docker_error(folder: Path) -> None:
    async with odd_docker(folder, {}) as socket:
        one = connection.Connection("spark1", lambda: socket)

        async def closed_meanwhile() -> None:
            async with one.call("looking", 5.0) as docker:
                await one.aclose()  # as a reload that lets go of the node
                await connection.stream(docker, "images/json", {})

        with pytest.raises(DockerError, match="was closed"):
            await closed_meanwhile()


async def test_a_refusal_that_is_no_text(folder: Path) -> None:
    async with asked(folder, {"containers/json": whole(b'{"message": 5}', "500 x")}) as runtime:
        with pytest.raises(DockerRefused, match="5"):
            await runtime.containers()


async def test_an_answer_without_an_end_is_given_up_by_its_size(folder: Path) -> None:
    """One took 900 MB in the 2 s that a look may last."""
    async with asked(folder, {"containers/json": HEAD}, endless=chunk(b"[" * 0x8000)) as runtime:
        with pytest.raises(DockerError, match=f"longer than {connection.MAX_ANSWER_BYTES} bytes"):
            await runtime.containers()


# -------------------------------------------------------------------------------------------------------- logs, events


async def follow(runtime: DockerRuntime) -> None:
    async for _ in runtime.follow(ID, 0):
        pass


LOGS = {
    "a line without an end": (HEAD, chunk(b"x" * 0x8000)),
    "a frame of 4 GB": (HEAD + chunk(b"\x01\0\0\0\xff\xff\xff\xffx"), b""),
    "cut in a frame": (HEAD + chunk(b"\x01\0\0\0\0\0\0\xffx"), b""),
    "500, a list": (whole(b"[]", "500 x"), b""),
}


@pytest.mark.parametrize(("answer", "endless"), LOGS.values(), ids=LOGS)
@pytest.mark.parametrize("read", [follow, lambda runtime: runtime.logs(ID, 10, None)], ids=["follow", "logs"])
async def test_an_odd_log(
    folder: Path, answer: bytes, endless: bytes, read: Callable[[DockerRuntime], Awaitable[object]]
) -> None:
    async with asked(folder, {"logs": answer}, endless=endless) as runtime:
        with pytest.raises(DockerError):
            await read(runtime)


async def test_no_more_lines_are_kept_than_were_asked_for(folder: Path) -> None:
    empty = b"\x01\0\0\0\0\0\0\x01\n"
    body = chunk(empty * (docker.MAX_LOG_LINES + 5)) + b"0\r\n\r\n"
    async with asked(folder, {"logs": HEAD + body}) as runtime:
        assert len(await runtime.logs(ID, docker.MAX_LOG_LINES, None)) == docker.MAX_LOG_LINES


EVENTS = [b"3", b"null", b"[]", b'{"timeNano": "x"}', b'{"timeNano": 1e999}', b'{"timeNano": null}', b"{}", DEEP]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event[:20].decode())
async def test_an_odd_event_ends_one_stream_and_not_the_daemon(folder: Path, event: bytes) -> None:
    """`events` runs in the daemon's own group: what it raises ends the daemon."""
    answers = {"containers/json": as_json([]), "events": HEAD + chunk(event + b"\n") + b"0\r\n\r\n"}
    woken = anyio.Event()
    async with asked(folder, answers) as runtime, anyio.create_task_group() as group:
        group.start_soon(runtime.events, woken.set)
        await anyio.wait_all_tasks_blocked()
        await runtime.containers()
        with anyio.fail_after(5):
            await woken.wait()  # the stream ended, and looking tells
        group.cancel_scope.cancel()


# --------------------------------------------------------------------------------------------------------------- inside


@asynccontextmanager
async def looked_into(folder: Path, path: str, answer: bytes) -> AsyncIterator[Inside]:
    async with odd_docker(folder, {path: answer}) as socket:
        inside = Inside("spark1", lambda: socket)
        try:
            yield inside
        finally:
            await inside.aclose()


TOLD = {
    "containers": ("containers/json", [b"3", b"null", b"{}", b"[3]", DEEP]),
    "images": ("images/json", [b"3", b"null", b"{}"]),
    "image": ("images/x/json", [b"3", b"null"]),
}


@pytest.mark.parametrize(("fact", "body"), [(fact, body) for fact, (_, bodies) in TOLD.items() for body in bodies])
async def test_inside_an_odd_answer(folder: Path, fact: str, body: bytes) -> None:
    async with looked_into(folder, TOLD[fact][0], whole(body)) as inside:
        with pytest.raises(DockerError):
            await inside.tell(fact, {"ref": "x"})


def stat_answer(header: bytes, body: bytes = b"") -> bytes:
    head = b"HTTP/1.1 200 OK\r\nConnection: close\r\nX-Docker-Container-Path-Stat: %s\r\nContent-Length: %d\r\n\r\n"
    return head % (header, len(body)) + body


STATS = [b"!!", b"bm8=", *(b64encode(stat) for stat in (b"{}", b"null", b'{"mode": "x"}', b'{"mode": Infinity}'))]


@pytest.mark.parametrize("stat", STATS)
async def test_inside_an_odd_file(folder: Path, stat: bytes) -> None:
    async with looked_into(folder, "archive", stat_answer(stat)) as inside:
        with pytest.raises(DockerError):
            await inside.kind("c", "/x")


async def test_inside_an_archive_that_is_none(folder: Path) -> None:
    answer = stat_answer(b64encode(b'{"mode": 420}'), b"no archive " * 100)
    async with looked_into(folder, "archive", answer) as inside:
        with pytest.raises(DockerError):
            await inside.text("c", "/x")


# ------------------------------------------------------------------------------------------------------------- throw-away


LOCATED = Located(key=EngineKey("sha256:1"), python="/bin/python3", mounts=(), env={}, user=None)
ASKED = {
    "containers/create": as_json({"Id": ID}),
    "/start": whole(b"", "204 No Content"),
    "/wait": as_json({"StatusCode": 0}),
    "/logs": whole(b"\x01\0\0\0\0\0\0\x02{}", kind="application/octet-stream"),
    "containers/json": as_json([{"Id": ID}]),
}


@asynccontextmanager
async def throwaway_of(folder: Path, answers: dict[str, bytes]) -> AsyncIterator[Throwaway]:
    async with odd_docker(folder, answers) as socket:
        throwaway = Throwaway("spark1", lambda: socket)
        yield throwaway
        await throwaway.aclose()


@pytest.mark.parametrize("removal", [whole(b'{"message": "busy"}', "500 x"), b""], ids=["refused", "cut off"])
async def test_an_answer_counts_whose_container_cannot_be_removed_and_the_next_sweep_has_it(
    folder: Path, removal: bytes
) -> None:
    answers = {**ASKED, f"{ID}/json": as_json(INSPECTED), ID: removal}
    async with throwaway_of(folder, answers) as throwaway:
        assert await throwaway.run(LOCATED, "", "us") == "{}"
        answers[ID] = whole(b"", "204 No Content")
        assert await throwaway.sweep("us") == 1


@pytest.mark.parametrize(
    ("step", "odd"),
    [
        ("containers/create", as_json({})),
        ("containers/create", whole(b"null")),
        ("containers/create", whole(DEEP)),
        ("/start", whole(b"{}", "500 x")),
        ("/wait", as_json({"StatusCode": "x"})),
        ("/wait", as_json([])),
        ("/wait", b""),
        ("/logs", whole(b"\x01\0\0\0\xff\xff\xff\xff{}")),
        ("/logs", whole(b"\0\0\0\0\0\0\0\x02{}")),
        ("/logs", whole(b"<html>" * 100_000)),
        ("/logs", whole(b"\x01\0\0\0\0\0\0\x05{}")),
    ],
)
async def test_an_odd_docker_while_an_engine_is_asked(folder: Path, step: str, odd: bytes) -> None:
    async with throwaway_of(folder, {**ASKED, step: odd, ID: whole(b"", "204 No Content")}) as throwaway:
        with pytest.raises(DockerError):
            await throwaway.run(LOCATED, "", "us")
