"""SshHost against a real SSH server: connects, says why it cannot, notices every kind of loss, comes back."""

from __future__ import annotations

import shutil
import stat
import time
from contextlib import aclosing
from pathlib import Path

import anyio
import asyncssh
import pytest
from anyio.abc import SocketAttribute, SocketStream

from sparkd.base.errors import HostError, HostKeyChanged, Late, Silent, Unreachable
from sparkd.hosts import SshHost, make, ssh
from sparkd.hosts.client import NodeClient
from sparkd.model.config import Node

from ..waiting import until
from .services import real_service
from .sshd import Worker, connected, running, wire, worker

OWNER = "9b2f6a0e-0000-4000-8000-000000000001"


def why_not(host: SshHost) -> HostError:
    with pytest.raises(HostError) as caught:
        host.docker_socket()
    return caught.value


async def until_refused(host: SshHost, words: str) -> HostError:
    await until(f"the reason says {words!r}", lambda: words in why_not(host).why)
    return why_not(host)


# -------------------------------------------------------------------------------------------------------------- connect


async def test_both_sockets_lead_to_the_node(folder: Path) -> None:
    changes: list[float] = []
    async with worker(folder) as there, real_service(there.sockets.service, folder / "state"):
        host = there.host(changed=lambda: changes.append(time.monotonic()))
        assert why_not(host).why == "not connected yet"
        async with running(host):
            await until("it is connected", lambda: connected(host))
            assert len(changes) == host.connection == 1
            assert stat.S_IMODE(host.docker_socket().parent.stat().st_mode) == 0o700
            client = NodeClient(host, OWNER)
            greeting = await client.greet()
            probed = await client.probe({"boot": None, "meminfo": None, "nonsense": None}, 3.0)
            assert probed.boot_id == greeting.boot_id != ""
            assert probed.pid1_ticks == greeting.pid1_ticks
            assert f"boot_id {greeting.boot_id}" in probed.texts["boot"]
            assert "MemAvailable" in probed.texts["meminfo"]
            assert probed.errors["nonsense"].code == "unknown"
            await client.aclose()


async def test_a_stale_socket_file_is_no_obstacle(folder: Path) -> None:
    async with worker(folder) as there:
        host = there.host()
        left = folder / "run" / "nodes"
        left.mkdir(parents=True)
        (left / "spark2.sock").write_text("left by a crash")
        async with running(host):
            await until("it is connected", lambda: connected(host))
            assert host.node_socket().is_socket()


async def test_a_local_node_is_its_own_sockets(folder: Path) -> None:
    host = make(Node(name="spark1", address="local"), folder, folder / "known_hosts")
    assert (str(host.docker_socket()), str(host.node_socket())) == ("/var/run/docker.sock", "/run/sparkd-node.sock")


# -------------------------------------------------------------------------------------------------------------- refused


async def test_nothing_listens(folder: Path) -> None:
    async with worker(folder) as there:
        await there.down()
        host = there.host()
        async with running(host):
            error = await until_refused(host, "connection refused")
            assert type(error) is Unreachable
            assert (error.node, error.why) == (
                "spark2",
                f"connection refused: sshd does not listen on port {there.port}",
            )


async def test_the_host_key_is_another_one(folder: Path) -> None:
    async with worker(folder) as there:
        await there.down()
        there.host_key = asyncssh.generate_private_key("ssh-ed25519")
        await there.up()
        host = there.host()
        async with running(host):
            error = await until_refused(host, "host key changed")
            assert type(error) is HostKeyChanged
            assert "ssh-keyscan" in error.why


async def test_the_host_key_is_of_another_kind(folder: Path) -> None:
    async with worker(folder) as there:
        await there.down()
        there.host_key = asyncssh.generate_private_key("ecdsa-sha2-nistp256")
        await there.up()
        host = there.host()
        async with running(host):
            assert type(await until_refused(host, "host key changed")) is HostKeyChanged


@pytest.mark.parametrize("known_hosts", ["", None])
async def test_no_host_key_is_pinned(folder: Path, known_hosts: str | None) -> None:
    async with worker(folder) as there:
        there.known_hosts.unlink() if known_hosts is None else there.known_hosts.write_text(known_hosts)
        host = there.host()
        async with running(host):
            assert type(await until_refused(host, "no host key is pinned for 127.0.0.1")) is HostKeyChanged


async def test_a_key_that_the_node_does_not_know(folder: Path) -> None:
    async with worker(folder) as there:
        other = folder / "other"
        asyncssh.generate_private_key("ssh-ed25519").write_private_key(other)
        host = there.host(there.node(key=str(other)))
        async with running(host):
            error = await until_refused(host, "the node refused user sparkd")
            assert type(error) is Unreachable
            assert str(other) in error.why


@pytest.mark.parametrize(("content", "words"), [(None, "No such file or directory"), ("rubbish", "cannot be used")])
async def test_a_key_file_that_is_no_key(folder: Path, content: str | None, words: str) -> None:
    async with worker(folder) as there:
        if content:
            (folder / "odd").write_text(content)
        host = there.host(there.node(key=str(folder / "odd")))
        async with running(host):
            assert str(folder / "odd") in (await until_refused(host, words)).why


async def test_a_name_that_nobody_knows(folder: Path) -> None:
    async with worker(folder) as there:
        host = there.host(there.node(address="spark2.invalid"))
        async with running(host):
            assert type(await until_refused(host, "the name spark2.invalid cannot be resolved")) is Unreachable


async def test_a_port_that_says_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ssh, "CONNECT_S", 0.5)
    async with worker(folder) as there, wire(there.port) as between:
        between.freeze()
        host = there.host(there.node(port=between.port))
        async with running(host):
            assert type(await until_refused(host, "timed out: 127.0.0.1 does not answer")) is Silent


async def test_a_run_folder_that_is_too_deep(folder: Path) -> None:
    async with worker(folder) as there:
        deep = folder / ("d" * 90)
        host = SshHost(there.node(), deep, there.known_hosts, sockets=there.sockets)
        async with running(host):
            await until_refused(host, "choose a shorter paths.run")


async def test_a_run_folder_that_is_none(folder: Path) -> None:
    """Neither made nor cleaned up: that is a reason to be told, and not the end of the daemon."""
    async with worker(folder) as there:
        (folder / "run").write_text("a file")
        host = there.host()
        async with running(host):
            await until_refused(host, "run")
            (folder / "run").unlink()
            await until("it is connected once the folder can be made", lambda: connected(host))


@pytest.mark.parametrize("banner", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"SSH-2.0-\xff\xfe\r\n", b"\xff" * 5000])
async def test_what_answers_does_not_speak_ssh(folder: Path, banner: bytes) -> None:
    async def serve(stream: SocketStream) -> None:
        async with stream:
            await stream.send(banner)

    async with (
        worker(folder) as there,
        await anyio.create_tcp_listener(local_host="127.0.0.1") as listener,
        anyio.create_task_group() as group,
    ):
        group.start_soon(listener.serve, serve)
        port = listener.extra(SocketAttribute.local_port)
        there.pin(port)
        host = there.host(there.node(port=port))
        async with running(host):
            await until("there is a reason", lambda: why_not(host).why != "not connected yet")
            assert type(why_not(host)) is Unreachable
            assert why_not(host).why.isprintable()
        group.cancel_scope.cancel()


# ----------------------------------------------------------------------------------------------------------------- lost


async def test_sockets_that_were_taken_away_are_made_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection itself stays well, so nothing else would ever make them again."""
    monkeypatch.setattr(ssh, "WATCH_S", 0.05)
    async with worker(folder) as there, real_service(there.sockets.service, folder / "state"):
        host = there.host()
        async with running(host), aclosing(NodeClient(host, OWNER)) as client:
            await until("it is connected", lambda: connected(host))
            shutil.rmtree(folder / "run")
            await until("it is connected again", lambda: host.connection == 2 and connected(host))
            await client.greet()


async def test_lost_and_back(folder: Path) -> None:
    changes: list[bool] = []
    async with worker(folder) as there, real_service(there.sockets.service, folder / "state"):
        host: SshHost = there.host(changed=lambda: changes.append(connected(host)))
        client = NodeClient(host, OWNER)
        async with running(host):
            await until("it is connected", lambda: connected(host))
            since = host.since
            await client.greet()
            await there.down()
            await until("the loss is noticed", lambda: not connected(host), 2.0)
            assert type(why_not(host)) is Unreachable
            assert host.since > since
            with pytest.raises(Unreachable):
                await client.probe({"boot": None}, 3.0)
            assert not list((folder / "run" / "nodes").iterdir()), "a socket that leads nowhere is gone"
            lost_at = host.since
            await until_refused(host, "connection refused")
            assert host.since == lost_at, "another reason, the same outage"
            await there.up()
            await until("it is connected again", lambda: connected(host))
            assert host.connection == 2
            assert changes[0] is changes[-1] is True
            await client.greet()
            assert (await client.probe({"boot": None}, 3.0)).texts
            await client.aclose()


async def test_many_losses_leave_nothing_behind(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ssh, "FIRST_PAUSE_S", 0.01)
    monkeypatch.setattr(ssh, "MAX_PAUSE_S", 0.02)
    async with worker(folder) as there:
        host = there.host()
        async with running(host):
            for connection in range(1, 30):
                await until("it is connected", lambda: host.connection == connection and connected(host))  # noqa: B023
                there.cut()
        descriptors = len(list(Path("/proc/self/fd").iterdir()))
        assert descriptors < 60


@pytest.mark.slow
async def test_f39_a_black_hole_is_noticed_in_20_seconds(folder: Path) -> None:
    """Faults F39: the connection stays open and nothing comes through; calls end by their own deadlines before."""
    async with (
        worker(folder) as there,
        real_service(there.sockets.service, folder / "state"),
        wire(there.port) as between,
    ):
        there.pin(between.port)
        host = there.host(there.node(port=between.port))
        client = NodeClient(host, OWNER)
        async with running(host):
            await until("it is connected", lambda: connected(host))
            await client.greet()
            between.freeze()
            frozen = time.monotonic()
            with pytest.raises(Late, match=r"did not answer in 0\.5 s"):
                await client.probe({"boot": None}, 0.5)
            with pytest.raises(Late, match=r"hello did not end in 0\.5 s"):
                await client.call("hello", {}, 0.5)
            assert time.monotonic() - frozen < 2
            await until("the loss is noticed", lambda: not connected(host), 21.0)
            assert time.monotonic() - frozen > 15, "keepalives were given their time"
            assert "keepalive" in why_not(host).why


@pytest.mark.parametrize("goodbye", [False, True], ids=["frozen", "shut down in good order"])
async def test_silence_is_a_riddle_only_where_no_goodbye_was_said(
    folder: Path, monkeypatch: pytest.MonkeyPatch, goodbye: bool
) -> None:
    """A box that was shut down closes its connection, and stays off: nobody may take its power for that."""
    monkeypatch.setattr(ssh, "KEEPALIVE_S", 0.2)
    monkeypatch.setattr(ssh, "CONNECT_S", 0.5)
    async with worker(folder) as there, wire(there.port) as between:
        there.pin(between.port)
        host = there.host(there.node(port=between.port))
        async with running(host):
            await until("it is connected", lambda: connected(host))
            if goodbye:
                there.cut()
                await until("the loss is noticed", lambda: not connected(host))
            between.freeze()
            await until("nothing comes back any more", lambda: not connected(host) and "timed out" in why_not(host).why)
            assert type(why_not(host)) is (Unreachable if goodbye else Silent)


async def test_what_sparkd_gave_up_itself_is_no_goodbye(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether a frozen box is lost by its keepalives or by a channel that did not open is chance: the same 20 s."""
    monkeypatch.setattr(ssh, "OPEN_S", 0.3)
    monkeypatch.setattr(ssh, "CONNECT_S", 0.5)
    async with worker(folder) as there, wire(there.port) as between:
        there.pin(between.port)
        host = there.host(there.node(port=between.port))
        async with running(host):
            await until("it is connected", lambda: connected(host))
            between.freeze()
            client = NodeClient(host, OWNER)
            with pytest.raises(HostError):
                await client.probe({"boot": None}, 2.0)
            await until("nothing comes back any more", lambda: not connected(host) and "timed out" in why_not(host).why)
            assert type(why_not(host)) is Silent


async def test_the_end_does_not_wait_for_a_dead_peer(folder: Path) -> None:
    async with worker(folder) as there, wire(there.port) as between:
        there.pin(between.port)
        host = there.host(there.node(port=between.port))
        async with running(host):
            await until("it is connected", lambda: connected(host))
            between.freeze()
            began = time.monotonic()
        assert time.monotonic() - began < 0.5


async def test_attempts_never_lie_further_apart_than_15_seconds(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A node that rebooted must be back soon: the pause grows, but not without end."""
    pauses: list[float] = []

    async def skip(pause_s: float) -> None:
        pauses.append(pause_s)
        if len(pauses) > 12:
            await anyio.Event().wait()
        await anyio.lowlevel.checkpoint()

    async with worker(folder) as there:
        await there.down()
        host = there.host()
        monkeypatch.setattr(anyio, "sleep", skip)
        monkeypatch.setattr(anyio, "current_time", lambda: 0.0)  # how long an attempt lasts is part of its pause
        async with anyio.create_task_group() as group:
            group.start_soon(host.run)
            while len(pauses) <= 12:
                await anyio.lowlevel.checkpoint()
            group.cancel_scope.cancel()
    assert 0.8 <= pauses[0] <= 1.0
    assert pauses[0] < pauses[1] < pauses[2] < pauses[3]
    assert all(12.0 <= pause <= 15.0 for pause in pauses[4:])
    assert len(set(pauses[4:])) > 1, "nodes that were lost together do not come back in step"


async def test_two_workers_do_not_touch_each_other(folder: Path) -> None:
    (folder / "a").mkdir()
    (folder / "b").mkdir()
    async with worker(folder / "a") as a, worker(folder / "b") as b:
        hosts = [
            SshHost(one.node(name=name), folder / "run", one.known_hosts, sockets=one.sockets)
            for name, one in (("spark2", a), ("spark3", b))
        ]
        async with running(hosts[0]), running(hosts[1]):
            await until("both are connected", lambda: all(connected(host) for host in hosts))
            await _lose(a, hosts[0])
            assert connected(hosts[1])


async def _lose(there: Worker, host: SshHost) -> None:
    await there.down()
    await until("the loss is noticed", lambda: not connected(host))
