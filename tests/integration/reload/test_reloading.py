"""A running daemon is given another configuration: real files, child, journal, connections, API and client; nodes that
nobody can ask, so that nothing moves by itself."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from sparkd import api
from sparkd.daemon import sd_notify
from sparkd.daemon.links import Connections
from sparkd.daemon.rank_logs import RankLogs
from sparkd.daemon.reload_triggers import ChangedFiles
from sparkd.daemon.run import _Published, serviced
from sparkd.daemon.service import Service
from sparkd.fleet import load_config
from sparkd.fleet.ledger import Ledger
from sparkd.hosts import Host, LocalHost, Sockets
from sparkd.hosts.client import NodeClient
from sparkd.journal import Journal
from sparkd.loop import supervisor as supervisor_module
from sparkd.loop.supervisor import Supervisor
from sparkd.model.config import Node
from sparkd.model.decision import Intent, Phase, State
from sparkd.model.machine import Boot, DockerUnit
from sparkd.model.snapshot import Container
from sparkd.observe import NodeAccess
from sparkd.reporting.metrics import Counters
from sparkd.reporting.notices import Notifier
from sparkd.runtimes.docker import DockerRuntime

from ..waiting import until

pytestmark = pytest.mark.slow

CLUSTER = """\
cluster: desk
nodes:
  spark1: {{address: local, data_address: 10.0.0.1}}
  spark2: {{address: 10.9.0.2, data_address: 10.0.0.2}}
http: {{listen: ""}}
paths: {{state: {folder}/state, run: {folder}/run}}
"""
DEPLOYMENT = """\
name: {name}
engine: vllm
nodes: [spark1, spark2]
image: vllm:1
model: /models/m
args: {{tensor-parallel-size: 2}}
"""

BOOT = Boot("boot1", 10, 86400.0, "spark2", now=1.7e9)


@dataclass
class World:
    folder: Path
    supervisor: Supervisor
    service: Service
    connections: Connections
    journal: Journal
    reached: list[str] = field(default_factory=list)

    def write(self, name: str, text: str | None = None) -> None:
        (self.folder / "deployments" / f"{name}.yaml").write_text(text or DEPLOYMENT.format(name=name))

    def remove(self, name: str) -> None:
        (self.folder / "deployments" / f"{name}.yaml").unlink()

    def cluster(self, change: Callable[[str], str] = str) -> None:
        (self.folder / "sparkd.yaml").write_text(change(CLUSTER.format(folder=self.folder)))

    def started(self, name: str) -> None:
        """As if it served."""
        wanted = self.supervisor.deployments[name]
        state = State(phase=Phase.SERVE, generation=3, started=wanted, digest=wanted.digest, boots=(("spark1", "b:1"),))
        self.supervisor.states[name] = state
        self.supervisor.intents[name] = Intent(wanted="up")

    def stopped(self, name: str) -> None:
        """As if it was stopped and seen to be gone."""
        state = replace(self.supervisor.states[name], phase=Phase.STOPPED, started=None, reason="stopped")
        self.supervisor.states[name] = state
        self.supervisor.intents[name] = Intent(wanted="stopped")

    async def ctl(self, *words: str) -> tuple[int, str, str]:
        environment = {**os.environ, "SPARKD_SOCKET": str(self.folder / "run" / "sparkd.sock"), "COLUMNS": "200"}
        argv = [sys.executable, "-m", "sparkd", "ctl", *words]
        with anyio.fail_after(60):
            done = await anyio.run_process(argv, env=environment, check=False, stdin=subprocess.DEVNULL)
        return done.returncode, done.stdout.decode(), done.stderr.decode()

    async def reload(self, expected: int = 0) -> dict[str, Any]:
        code, out, err = await self.ctl("reload", "--json", "-m", "longer context")
        assert code == expected, (out, err)
        return dict(json.loads(out))

    async def one(self, name: str) -> dict[str, Any]:
        _, out, _ = await self.ctl("status", "--json")
        return next(dict(one) for one in json.loads(out)["deployments"] if one["name"] == name)


@asynccontextmanager
async def running() -> AsyncIterator[World]:
    folder = Path(tempfile.mkdtemp(prefix="sparkd-"))
    (folder / "deployments").mkdir()
    (folder / "sparkd.yaml").write_text(CLUSTER.format(folder=folder))
    (folder / "deployments" / "ds4.yaml").write_text(DEPLOYMENT.format(name="ds4"))
    reached: list[str] = []

    def reach(node: Node, owner: str, wake: Callable[[], None]) -> tuple[Host, NodeAccess]:
        reached.append(node.address)
        host = LocalHost(node.name, Sockets(folder / "none", folder / "none"))
        return host, NodeAccess(NodeClient(host, owner), DockerRuntime(node.name, host.docker_socket))

    config = await load_config.load(folder)
    journal, counters = Journal(folder / "state"), Counters()
    await journal.open()
    try:
        async with anyio.create_task_group() as group:
            connections = Connections(reach, await journal.owner(), lambda: None, group)
            await connections.follow(config.cluster.nodes)
            supervisor = Supervisor(
                ledger=Ledger(config, journal, counters),
                journal=journal,
                access=connections.access,
                owner=connections.owner,
                captures=folder / "captures",
                counters=counters,
            )
            await supervisor.ledger.load()
            notifier = Notifier(config.cluster.notify, counters)
            service = serviced(supervisor, partial(load_config.load, folder), connections, notifier)
            await service.showing.learn()
            supervisor.published = _Published(service, None).after_cycle
            async with api.serve(service, config.cluster, counters):
                yield World(folder, supervisor, service, connections, journal, reached)
            notifier.close()
            await connections.aclose()
            group.cancel_scope.cancel()
    finally:
        await journal.aclose()
        shutil.rmtree(folder)


async def test_a_changed_file_of_a_running_deployment_is_restart_pending() -> None:
    async with running() as world:
        world.started("ds4")
        world.write(
            "ds4",
            DEPLOYMENT.format(name="ds4").replace("vllm:1", "vllm:2").replace("[spark1, spark2]", "[spark2, spark1]"),
        )
        answer = await world.reload()
        changes = [
            {"key": "image", "running": "vllm:1", "file": "vllm:2"},
            {"key": "nodes", "running": '["spark1", "spark2"]', "file": '["spark2", "spark1"]'},
        ]
        assert [(one["what"], one["changes"]) for one in answer["deployments"]] == [("pending", changes)]
        one = await world.one("ds4")
        assert (one["restart_pending"], one["pending"]["changes"]) == (True, changes)
        assert [rank["node"] for rank in one["ranks"]] == ["spark1", "spark2"], "shown as it was started"
        _, shown, _ = await world.ctl("status")
        assert "pending    its file has changed (image and nodes); `sparkd ctl restart ds4` applies it" in shown
        assert world.supervisor.ledger.judged("ds4").image == "vllm:1", "what runs is what is checked"
        _, shown, _ = await world.ctl("why")
        assert "image: runs with vllm:1, its file says vllm:2" in shown
        _, shown, _ = await world.ctl("reload")
        assert "ds4: restart pending; `sparkd ctl restart ds4` applies it" in shown
        assert "image vllm:1 -> vllm:2" in shown
        event = next(one for one in await world.journal.history() if one.kind == "reloaded")
        assert (event.message, bool(event.by), event.data["deployments"][0]["what"]) == (
            "longer context",
            True,
            "pending",
        )


async def test_the_next_start_is_checked_by_the_file() -> None:
    async with running() as world:
        world.started("ds4")
        world.write("ds4", DEPLOYMENT.format(name="ds4").replace("vllm:1", "vllm:2"))
        await world.reload()
        world.stopped("ds4")
        assert world.supervisor.ledger.judged("ds4").image == "vllm:2"


async def test_deployments_come_and_go() -> None:
    async with running() as world:
        world.stopped("ds4")
        world.write("qwen")
        world.write("auto", DEPLOYMENT.format(name="auto") + "autostart: true\n")
        world.remove("ds4")
        answer = await world.reload()
        assert {one["name"]: one["what"] for one in answer["deployments"]} == {
            "ds4": "removed",
            "qwen": "added",
            "auto": "added",
        }
        assert set(world.supervisor.states) == {"qwen", "auto"}
        assert {name: one.wanted for name, one in world.supervisor.intents.items()} == {"qwen": "stopped", "auto": "up"}


async def test_a_running_deployment_outlives_its_file_until_it_is_stopped() -> None:
    async with running() as world:
        world.started("ds4")
        world.remove("ds4")
        answer = await world.reload()
        assert [(one["what"], one["removed"]) for one in answer["deployments"]] == [("kept", True)]
        _, shown, _ = await world.ctl("status")
        assert "its file is gone: it goes on as it was started" in shown
        code, _, err = await world.ctl("restart", "--yes")
        assert (code, "its file is gone" in err) == (1, True)
        await world.supervisor.cycle()
        assert "ds4" in world.supervisor.states
        world.stopped("ds4")
        await world.supervisor.cycle()
        assert "ds4" not in world.supervisor.states
        assert [one.kind for one in await world.journal.history("ds4")][-1] == "removed"
        world.write("ds4")
        await world.reload()
        assert world.supervisor.intents["ds4"].wanted == "stopped"


async def test_its_stop_is_done_when_it_is_gone() -> None:
    async with running() as world:
        world.started("ds4")
        world.remove("ds4")
        await world.reload()
        stop = await world.service.operate("ds4", "stop", api.Operation(by="me"))
        world.stopped("ds4")
        await world.supervisor.cycle()
        found = world.service.operation(stop)
        assert found is not None
        assert (found["state"], "removed" in found["sentence"]) == ("done", True)


async def test_a_reader_of_a_log_whose_node_is_let_go_of_ends_and_nothing_else_does() -> None:
    rank = Container("c1", "sparkd-ds4-1", "ds4", 1, 3, "us", "", "running")
    async with running() as world, anyio.create_task_group() as group:
        supervisor = world.supervisor
        group.start_soon(supervisor.run)
        await until("it looks", lambda: supervisor.snapshot is not None)
        lines = RankLogs(supervisor.ledger.running("ds4"), supervisor).lines(5, True)
        async with supervisor.between_looks:
            assert supervisor.snapshot is not None
            docker = DockerUnit(running=True, pid=1)
            read = replace(supervisor.snapshot.nodes["spark2"], boot=BOOT, docker=docker, containers=(rank,))
            nodes = {"spark2": read}
            supervisor.snapshot = replace(supervisor.snapshot, nodes=nodes)
            assert "cannot be read" in (await anext(lines))["text"]
            await world.connections.follow({})  # as a reload does that takes the node out of sparkd.yaml
            assert ["read again" in line["text"] for line in [one async for one in lines]] == [True]
            await world.connections.follow(supervisor.cluster.nodes)
        before = supervisor.last_loop
        supervisor.wake()
        await until("it looks again", lambda: supervisor.last_loop > before)
        group.cancel_scope.cancel()


async def test_work_beside_the_loop_that_fails_ends_alone() -> None:
    async def fails() -> None:
        raise ZeroDivisionError

    async with running() as world, anyio.create_task_group() as group:
        group.start_soon(world.supervisor.run)
        await until("it looks", lambda: world.supervisor.snapshot is not None)
        before = world.supervisor.last_loop
        async with world.supervisor.background(fails):
            world.supervisor.wake()
            await until("it looks again", lambda: world.supervisor.last_loop > before)
        group.cancel_scope.cancel()


async def test_a_check_whose_node_is_let_go_of_says_that_it_could_not_be_asked() -> None:
    async with running() as world:
        await world.supervisor.cycle()
        supervisor, deployment = world.supervisor, world.supervisor.deployments["ds4"]
        assert supervisor.snapshot is not None
        await world.connections.follow({})
        seen, state = supervisor.snapshot, supervisor.states["ds4"]
        checked = await supervisor.checker.check(supervisor.cluster, deployment, state, seen)
        assert any("read again" in one.text for one in checked.findings)
        with pytest.raises(api.Conflict, match="read again"):
            await world.service.cleanup("ds4", False)


async def test_checks_of_a_deployment_that_is_removed_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running() as world, anyio.create_task_group() as group:
        monkeypatch.setattr(supervisor_module, "READABLE_S", 5.0)  # a reload starts a process of its own

        async def removed() -> None:
            await until("somebody waits for a look", world.supervisor._wake.is_set)
            world.stopped("ds4")
            world.remove("ds4")
            await world.reload()
            await world.supervisor.cycle()

        group.start_soon(removed)
        with pytest.raises(api.NotFound, match="no deployment ds4"):
            await world.service.check("ds4")


async def test_a_broken_file_breaks_its_own_deployment_alone() -> None:
    async with running() as world:
        world.started("ds4")
        world.write("ds4", DEPLOYMENT.format(name="ds4") + "prot: 1\n")
        world.write("qwen")
        answer = await world.reload(expected=2)
        assert {one["name"]: one["what"] for one in answer["deployments"]} == {"ds4": "broken", "qwen": "added"}
        one = await world.one("ds4")
        assert (one["phase"], one["restart_pending"]) == ("serve", False), "what runs goes on"
        assert "ds4.yaml:7: prot: unknown key" in one["problems"][0]
        code, _, err = await world.ctl("restart", "ds4", "--yes")
        assert (code, "ds4.yaml:7" in err) == (1, True)
        world.stopped("ds4")
        await world.supervisor.cycle()
        one = await world.one("ds4")
        assert (one["phase"], one["reason"]) == ("held", "held-config")


async def test_a_bad_sparkd_yaml_changes_nothing_and_every_problem_is_said() -> None:
    async with running() as world:
        world.cluster(lambda text: text + "polcy: {}\npolicy: {period: fast}\n")
        world.write("qwen")
        code, _, err = await world.ctl("reload")
        assert code == 2
        assert "sparkd.yaml:7: polcy: unknown key" in err
        assert "sparkd.yaml:8: policy.period" in err
        assert set(world.supervisor.deployments) == {"ds4"}
        _, out, _ = await world.ctl("status", "--json")
        assert len(json.loads(out)["daemon"]["problems"]) == 2
        refused = [one for one in await world.journal.history() if one.kind == "reload-refused"]
        assert len(refused) == 1
        world.cluster()
        await world.reload()
        _, out, _ = await world.ctl("status", "--json")
        assert json.loads(out)["daemon"]["problems"] == []


async def test_what_cannot_change_is_refused_with_the_fix() -> None:
    async with running() as world:
        world.cluster(lambda text: text.replace("/state", "/elsewhere") + "policy: {period: 9}\n")
        code, _, err = await world.ctl("reload")
        assert code == 2
        assert "paths.state" in err
        assert "restart sparkd" in err
        assert world.supervisor.cluster.policy.period == 5.0, "all or nothing"


async def test_nodes_and_policy_change_while_it_runs() -> None:
    async with running() as world:
        first = world.supervisor.access["spark1"]
        more = "  spark3: {address: 10.9.0.3}\nhttp"
        world.cluster(
            lambda text: text.replace("10.9.0.2", "10.9.0.22").replace("http", more) + "policy: {period: 9}\n"
        )
        answer = await world.reload()
        assert [one["key"] for one in answer["cluster"]] == [
            "nodes.spark2.address",
            "nodes.spark3.address",
            "nodes.spark3.name",
            "nodes.spark3.port",
            "nodes.spark3.user",
            "policy.period",
        ]
        assert world.reached == ["local", "10.9.0.2", "10.9.0.22", "10.9.0.3"]
        assert list(world.supervisor.access) == ["spark1", "spark2", "spark3"]
        assert world.supervisor.access["spark1"] is first
        assert world.supervisor.deployments["ds4"].policy.period == 9.0
        await world.supervisor.cycle()
        assert world.supervisor.snapshot is not None
        assert list(world.supervisor.snapshot.nodes) == ["spark1", "spark2", "spark3"]
        world.cluster()
        await world.reload()
        await world.supervisor.cycle()
        assert list(world.supervisor.snapshot.nodes) == ["spark1", "spark2"]


async def test_a_node_stays_while_a_group_runs_there() -> None:
    async with running() as world:
        world.started("ds4")
        world.remove("ds4")
        world.cluster(lambda text: "".join(line for line in text.splitlines(True) if "spark2" not in line))
        code, _, err = await world.ctl("reload")
        assert (code, "sparkd ctl stop ds4" in err) == (2, True)
        world.stopped("ds4")
        await world.reload()


async def test_what_runs_is_judged_as_started_by_the_next_sparkd_too() -> None:
    async with running() as world:
        world.started("ds4")
        await world.journal.save_state("ds4", world.supervisor.states["ds4"])
        as_started = world.supervisor.deployments["ds4"]
        for text in (
            DEPLOYMENT.format(name="ds4").replace("[spark1, spark2]", "[spark2, spark1]"),
            "name: ds4\n",
            None,
        ):
            if text is None:
                world.remove("ds4")
            else:
                world.write("ds4", text)
            ledger = Ledger(await load_config.load(world.folder), world.journal, Counters())
            await ledger.load()
            assert ledger.running("ds4").nodes == as_started.nodes == ("spark1", "spark2")
            assert (ledger.intents["ds4"].wanted, ledger.states["ds4"].before) == ("up", Phase.SERVE)
            assert ledger.roster.broken == ()


async def told(sock: socket.socket) -> list[str]:
    """What systemd was told since the last time."""
    said = []
    while True:
        try:
            said.append(sock.recv(4096).decode())
        except BlockingIOError:
            return said


async def test_systemd_sees_the_reload_begin_and_end(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running() as world:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
            sock.setblocking(False)
            sock.bind(str(world.folder / "notify"))
            monkeypatch.setenv("NOTIFY_SOCKET", str(world.folder / "notify"))
            await world.service.reload("SIGHUP", "")
            assert await told(sock) == [], "READY says more than that while it is only starting"
            await world.supervisor.cycle()
            await world.service.reload("SIGHUP", "")
            begun, ended = await told(sock)
            assert begun.startswith("RELOADING=1\nMONOTONIC_USEC=")
            assert ended == "READY=1"
            world.cluster(lambda text: text + "polcy: {}\n")
            with pytest.raises(api.Unusable):
                await world.service.reload("SIGHUP", "")
            assert (await told(sock))[-1] == "READY=1"


async def test_a_watched_file_counts_once_it_stays_as_it_is() -> None:
    async with running() as world, anyio.create_task_group() as group:
        watch = ChangedFiles(world.folder, world.service, group)
        await watch.look()
        world.write("qwen")
        await watch.look()
        world.write("qwen", DEPLOYMENT.format(name="qwen") + "port: 9000\n")
        await watch.look()
        assert "qwen" not in world.supervisor.deployments, "somebody is writing it"
        await watch.look()
        with anyio.fail_after(30):
            while "qwen" not in world.supervisor.deployments:
                await anyio.sleep(0.05)
        assert world.supervisor.deployments["qwen"].port == 9000
        assert [one.by for one in await world.journal.history() if one.kind == "reloaded"] == ["a changed file"]


async def test_f49_a_look_during_which_sparkd_stood_still_decides_nothing() -> None:
    """It shows how things were before: by now a person may have restarted what was seen to be gone."""
    async with running() as world:
        world.cluster(lambda text: text + "policy: {period: 0.2}\n")
        await world.reload()
        observer = world.supervisor._observer
        look, stood_still = observer.look, [2.0, 2.0]

        async def slept_in(*asked: Any) -> Any:
            seen = await look(*asked)
            time.sleep(stood_still.pop(0))
            return seen

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(type(observer), "look", lambda self, *asked: slept_in(*asked))
            assert await world.supervisor.cycle() is True
            assert world.supervisor.decisions == {}
            await world.supervisor.cycle()
            assert world.supervisor.decisions["ds4"].sentence, (
                "a machine that is always slow is supervised all the same"
            )


async def test_why_states_the_numbers_that_are_set() -> None:
    """A deployment's own over those of sparkd.yaml, and at once: they apply without a restart."""
    async with running() as world:
        world.started("ds4")
        world.supervisor.states["ds4"] = replace(world.supervisor.states["ds4"], reason="memory-wait")
        _, shown, _ = await world.ctl("why", "ds4")
        assert "measured again at 30, 60 and 120 s" in " ".join(shown.split())
        world.cluster(lambda text: text + "policy: {resource_retries: [5, 9], hold_recheck: 20}\n")
        world.write("ds4", DEPLOYMENT.format(name="ds4") + "policy: {resource_retries: [10, 40]}\n")
        await world.reload()
        _, shown, _ = await world.ctl("why", "ds4")
        assert "measured again at 10 and 40 s" in " ".join(shown.split())
        world.supervisor.states["ds4"] = replace(world.supervisor.states["ds4"], reason="held-port")
        _, shown, _ = await world.ctl("why", "ds4")
        assert "read again every 20 s" in " ".join(shown.split())


async def test_whatever_can_be_shown_systemd_hears_that_the_loop_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    """A note of another version's form kept sparkd from ever being ready, and its watchdog from being fed: restarted for ever."""
    sent: list[dict[str, str]] = []
    monkeypatch.setattr(sd_notify, "notify", lambda **fields: sent.append(fields))
    async with running() as world:
        await world.journal.remember("status", {"at": "noon", "groups": [], "nodes": 3})
        await world.service.showing.learn()
        await world.supervisor.published()
        assert (sent[-1]["WATCHDOG"], sent[-1]["STATUS"][:26]) == ("1", "ds4 is stopped, as wanted.")
        kept = world.journal.recall("status")
        assert kept is not None
        assert "deployments" in kept, "the next sparkd finds one that it knows"

        async def broken() -> dict[str, Any]:
            raise KeyError("bug")

        monkeypatch.setattr(world.service.showing, "publish", broken)
        await world.supervisor.published()
        assert sent[-1] == {"WATCHDOG": "1"}
