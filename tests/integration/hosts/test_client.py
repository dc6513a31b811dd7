"""NodeClient: against the real node service, and against services that break the rules."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.abc import SocketStream

from sparkd.base.errors import HostError, Late, NodeRefused, NotOwner, ProtocolMismatch, Unreachable
from sparkd.hosts import LocalHost, Sockets
from sparkd.hosts.client import NodeClient, Unreadable
from sparkd.model.failure_code import FailureCode

from ..waiting import until
from .services import Say, odd_service, real_service
from .sshd import connected, running, worker

OWNER = "9b2f6a0e-0000-4000-8000-000000000001"
OTHER = "9b2f6a0e-0000-4000-8000-000000000002"
HELLO = {"service": "0.1.0", "protocols": [1], "owner": None, "boot_id": "b", "pid1_ticks": 7, "hostname": "spark1"}


@pytest.fixture
def host(folder: Path) -> LocalHost:
    return LocalHost("spark1", Sockets(folder / "docker.sock", folder / "node.sock"))


# ----------------------------------------------------------------------------------------------------- the real service


async def test_the_first_one_owns_the_node(host: LocalHost, folder: Path) -> None:
    async with real_service(host.node_socket(), folder / "state"):
        first, second = NodeClient(host, OWNER), NodeClient(host, OTHER)
        with pytest.raises(NotOwner, match="claim"):
            await first.probe({"boot": None}, 3.0)
        await first.greet()
        with pytest.raises(NotOwner, match="belongs to sparkd"):
            await second.greet()
        with pytest.raises(NotOwner):
            await second.call("drop_caches", {"mode": 1}, 3.0)
        assert (await first.probe({"boot": None}, 3.0)).texts["boot"]
        await second.call("claim", {"take": True}, 3.0)
        with pytest.raises(NotOwner):
            await first.probe({"boot": None}, 3.0)
        with pytest.raises(NotOwner):
            await first.greet()
        await first.aclose()
        await second.aclose()


async def test_verbs_answer_or_refuse(host: LocalHost, folder: Path) -> None:
    async with real_service(host.node_socket(), folder / "state"):
        client = NodeClient(host, OWNER)
        greeting = await client.greet()
        assert (await client.call("hello", {}, 3.0))["owner"] == OWNER
        assert greeting.hostname
        with pytest.raises(NodeRefused) as refused:
            await client.call("read_file", {"path": "/etc/shadow", "max_bytes": 10, "tail": False}, 3.0)
        assert refused.value.code == "refused"
        with pytest.raises(NodeRefused) as refused:
            await client.call("dance", {}, 3.0)
        assert refused.value.code == "usage"
        await client.aclose()


async def test_a_service_that_was_restarted_costs_no_look(host: LocalHost, folder: Path) -> None:
    client = NodeClient(host, OWNER)
    async with real_service(host.node_socket(), folder / "state"):
        await client.greet()
        assert (await client.probe({"boot": None}, 3.0)).texts
    with pytest.raises(Unreachable, match=r"systemctl status sparkd-node\.socket"):
        await client.probe({"boot": None}, 3.0)
    async with real_service(host.node_socket(), folder / "state"):
        assert (await client.probe({"boot": None}, 3.0)).texts
    async with real_service(host.node_socket(), folder / "state"):
        assert (await client.probe({"boot": None}, 3.0)).texts, "the kept connection was dead, and that shows to nobody"
        await client.aclose()


async def test_calls_at_the_same_time_do_not_mix(host: LocalHost, folder: Path) -> None:
    async with real_service(host.node_socket(), folder / "state"):
        client = NodeClient(host, OWNER)
        await client.greet()

        async def ask(name: str, words: str) -> None:
            for _ in range(20):
                probed = await client.probe({name: None}, 5.0)
                assert words in probed.texts[name]

        async with anyio.create_task_group() as group:
            group.start_soon(ask, "boot", "boot_id")
            group.start_soon(ask, "meminfo", "MemFree")
            group.start_soon(ask, "meminfo", "ShmFiles")
        await client.aclose()


# ---------------------------------------------------------------------------------------------- services that misbehave


async def test_what_answered_in_time_counts(host: LocalHost) -> None:
    async def slow(request: Mapping[str, Any], say: Say) -> None:
        await say(probe="boot", text="boot_id b")
        await say(probe="docker", error="no such file", code="failed")
        await anyio.sleep_forever()

    async with odd_service(host.node_socket(), slow):
        began = time.monotonic()
        probed = await NodeClient(host, OWNER).probe({"boot": None, "docker": None, "system": None}, 0.5)
        assert time.monotonic() - began < 1.0
        assert probed.texts == {"boot": "boot_id b"}
        assert probed.errors == {
            "docker": Unreadable(FailureCode.FAILED, "no such file"),
            "system": Unreadable(FailureCode.TIMEOUT, "no answer in 0.5 s"),
        }
        assert (probed.boot_id, probed.pid1_ticks) == ("", 0)


async def test_nothing_in_time_is_late(host: LocalHost) -> None:
    async def mute(request: Mapping[str, Any], say: Say) -> None:
        await anyio.sleep_forever()

    async with odd_service(host.node_socket(), mute):
        with pytest.raises(Late):
            await NodeClient(host, OWNER).probe({"boot": None}, 0.3)
        with pytest.raises(Late):
            await NodeClient(host, OWNER).greet(0.3)


async def test_the_service_is_told_to_be_ready_before_us(host: LocalHost) -> None:
    told: list[float] = []

    async def note(request: Mapping[str, Any], say: Say) -> None:
        told.append(request["deadline_s"])
        await say(done=True, v=1, boot_id="b", pid1_ticks=7)

    async with odd_service(host.node_socket(), note):
        client = NodeClient(host, OWNER)
        probed = await client.probe({"boot": {"deep": True}}, 2.0)
        assert told == [pytest.approx(1.8)]
        assert probed.errors == {"boot": Unreadable(FailureCode.FAILED, "the node service left it out")}
        assert (probed.boot_id, probed.pid1_ticks) == ("b", 7)
        await client.aclose()


async def test_an_answer_after_its_deadline_is_nobody_elses(host: LocalHost) -> None:
    """The connection is out of step then, so it is not used again."""
    asked = 0
    release = anyio.Event()

    async def late_once(request: Mapping[str, Any], say: Say) -> None:
        nonlocal asked
        asked += 1
        if asked == 1:
            await release.wait()
        await say(ok=True, result={"for": request["op"]})

    async with odd_service(host.node_socket(), late_once):
        client = NodeClient(host, OWNER)
        with pytest.raises(Late):
            await client.call("first", {}, 0.3)
        release.set()
        assert await client.call("second", {}, 3.0) == {"for": "second"}
        await client.aclose()


async def test_a_service_that_dies_in_the_middle(host: LocalHost) -> None:
    async def dies(request: Mapping[str, Any], say: Say) -> None:
        if request["op"] == "probe":
            await say(probe="boot", text="boot_id b")
        raise anyio.EndOfStream

    async with odd_service(host.node_socket(), dies):
        client = NodeClient(host, OWNER)
        probed = await client.probe({"boot": None, "system": None}, 3.0)
        assert probed.texts == {"boot": "boot_id b"}
        assert probed.errors["system"].code == "failed"
        with pytest.raises(Unreachable):
            await client.call("drop_caches", {"mode": 1}, 3.0)


@pytest.mark.parametrize(
    ("answer", "kind", "words"),
    [
        (
            {"ok": False, "code": "version", "error": "this node speaks protocol 2"},
            ProtocolMismatch,
            "speaks protocol 2",
        ),
        ({"ok": True, "result": {**HELLO, "protocols": [2, 3]}}, ProtocolMismatch, r"speaks \[2, 3\], this sparkd 1"),
        ({"ok": True, "result": {"service": "0.1.0"}}, ProtocolMismatch, "makes no sense"),
        ({"ok": False, "code": "refused", "error": "16 connections are open"}, NodeRefused, "16 connections"),
        ({"what": "ever"}, NodeRefused, "without a reason"),
    ],
)
async def test_a_greeting_that_fails(host: LocalHost, answer: Any, kind: type[HostError], words: str) -> None:
    async def greet(request: Mapping[str, Any], say: Say) -> None:
        await say(**answer)

    async with odd_service(host.node_socket(), greet):
        client = NodeClient(host, OWNER)
        with pytest.raises(kind, match=words) as caught:
            await client.greet()
        assert type(caught.value) is kind
        await client.aclose()


async def test_a_greeting_is_said_once_per_connection_and_claimed_once_per_boot(host: LocalHost) -> None:
    asked: list[str] = []
    boot = "b1"

    async def note(request: Mapping[str, Any], say: Say) -> None:
        asked.append(request["op"])
        await say(ok=True, result={**HELLO, "boot_id": boot} if request["op"] == "hello" else {"owner": OWNER})

    async with odd_service(host.node_socket(), note):
        client = NodeClient(host, OWNER)
        await client.greet()
        await client.greet()
        assert asked == ["hello", "claim"]
        host.connection = 2  # as after a reconnect
        await client.greet()
        assert asked == ["hello", "claim", "hello"]
        host.connection, boot = 3, "b2"
        await client.greet()
        assert asked == ["hello", "claim", "hello", "hello", "claim"]
        await client.aclose()


async def test_garbage_is_an_error_of_the_node(host: LocalHost, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sparkd.hosts.client.MAX_LINE_BYTES", 2000)

    async def serve(stream: Any) -> None:
        async with stream:
            request = await stream.receive()
            await stream.send(b"x" * 5000 if b"long" in request else b"[1]\n" if b"list" in request else b"{nonsense\n")

    async with await anyio.create_unix_listener(host.node_socket()) as listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, serve)
        for op in ("long", "list", "text"):
            with pytest.raises(Unreachable, match="makes no sense"):
                await NodeClient(host, OWNER).call(op, {}, 3.0)
        group.cancel_scope.cancel()


@asynccontextmanager
async def saying(socket: Path, raw: bytes, times: int = 1) -> AsyncIterator[None]:
    """A service whose answer to everything is these bytes, over and over."""

    async def serve(stream: SocketStream) -> None:
        async with stream:
            try:
                await stream.receive()
                for _ in range(times):
                    await stream.send(raw)
                await stream.receive()
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                return

    async with await anyio.create_unix_listener(socket) as listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, serve)
        yield
        await anyio.wait_all_tasks_blocked()
        group.cancel_scope.cancel()


@pytest.mark.parametrize(
    "line",
    [
        b"[" * 200_000,
        b'{"done":true,"pid1_ticks":[]}',
        b'{"done":true,"pid1_ticks":null}',
        b'{"done":true,"pid1_ticks":1e999}',
        b'{"done":true,"boot_id":{},"pid1_ticks":1}',
        b'{"probe":{},"text":"x"}',
        b'{"probe":"never asked","text":"x"}',
    ],
    ids=["nested", "list", "null", "infinite", "object", "no name", "not asked"],
)
async def test_no_answer_of_a_service_raises_anything_but_a_host_error(host: LocalHost, line: bytes) -> None:
    """Whatever else left the client ended the look at every node, not only at this one."""
    async with saying(host.node_socket(), line + b"\n"), aclosing(NodeClient(host, OWNER)) as client:
        with pytest.raises(Unreachable, match="makes no sense"):
            await client.probe({"boot": None}, 3.0)


@pytest.mark.parametrize(
    "changed", [{"protocols": [1e999]}, {"boot_id": {}}, {"pid1_ticks": "7"}, {"protocols": ["\ud800" * 5000]}]
)
async def test_a_hello_of_odd_values_is_a_mismatch(host: LocalHost, changed: Mapping[str, Any]) -> None:
    answer = json.dumps({"ok": True, "result": {**HELLO, **changed}}).encode() + b"\n"
    async with saying(host.node_socket(), answer), aclosing(NodeClient(host, OWNER)) as client:
        with pytest.raises(ProtocolMismatch) as caught:
            await client.greet()
        assert caught.value.why.isprintable()
        assert len(caught.value.why) <= 300


async def test_words_of_a_service_are_one_short_printable_line(host: LocalHost) -> None:
    """They end in a status, in the journal and on a terminal, which an escape sequence would take over."""
    answer = {"ok": False, "code": "failed\x1b[31m", "error": "\x1b[2Jgone\n\ud800" + "x" * 1_000_000}
    line = json.dumps(answer).encode() + b"\n"
    async with saying(host.node_socket(), line), aclosing(NodeClient(host, OWNER)) as client:
        with pytest.raises(NodeRefused) as caught:
            await client.probe({"boot": None}, 3.0)
        assert caught.value.why.startswith("[2Jgone x")
        assert len(caught.value.why) == 300
        assert caught.value.code is FailureCode.OTHER, "no code of ours"


async def test_text_of_a_service_can_be_written_down(host: LocalHost) -> None:
    lines = b'{"probe":"boot","text":"a\\ud800b"}\n{"done":true,"boot_id":"b","pid1_ticks":1}\n'
    async with saying(host.node_socket(), lines), aclosing(NodeClient(host, OWNER)) as client:
        assert (await client.probe({"boot": None}, 3.0)).texts == {"boot": "a?b"}


async def test_an_answer_without_an_end_is_cut_off(host: LocalHost, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sparkd.hosts.client.MAX_ANSWER_BYTES", 100_000)
    async with saying(host.node_socket(), b'{"probe":"boot","text":"x"}\n' * 1000, times=10**9):
        probed = await NodeClient(host, OWNER).probe({"boot": None, "system": None}, 30.0)
    assert probed.texts == {"boot": "x"}
    assert "longer than 100000 bytes" in probed.errors["system"].why


async def test_the_connection_is_lost_in_the_middle_of_a_look(folder: Path) -> None:
    async with worker(folder) as there:
        answered = anyio.Event()

        async def half(request: Mapping[str, Any], say: Say) -> None:
            if request["op"] == "hello":
                await say(ok=True, result=HELLO)
            else:
                await say(probe="boot", text="boot_id b")
                answered.set()
                await anyio.sleep_forever()

        ssh_host = there.host()
        async with odd_service(there.sockets.service, half), running(ssh_host):
            await until("it is connected", lambda: connected(ssh_host))

            async def kill() -> None:
                await answered.wait()
                # Through the same SSH connection, so the answer before this one has arrived too.
                async with aclosing(NodeClient(ssh_host, OWNER)) as other:
                    await other.call("hello", {}, 3.0)
                there.cut()

            began = time.monotonic()
            async with anyio.create_task_group() as group:
                group.start_soon(kill)
                probed = await NodeClient(ssh_host, OWNER).probe({"boot": None, "system": None}, 10.0)
            assert time.monotonic() - began < 5, "its end is noticed, not waited for"
            assert probed.texts == {"boot": "boot_id b"}
            assert probed.errors["system"] == Unreadable(
                FailureCode.FAILED, "the connection broke off in the middle of an answer"
            )


async def test_no_service_behind_a_good_connection(folder: Path) -> None:
    async with worker(folder) as there:
        ssh_host = there.host()
        async with running(ssh_host):
            await until("it is connected", lambda: connected(ssh_host))
            with pytest.raises(Unreachable, match=r"systemctl status sparkd-node\.socket"):
                await NodeClient(ssh_host, OWNER).greet()
