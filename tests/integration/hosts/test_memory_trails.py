"""The memory of nodes, followed beside the loop: each second while a group starts, one question at a time, never for ever."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import pytest

from sparkd.base import clock
from sparkd.hosts import LocalHost, Sockets
from sparkd.hosts.client import NodeClient
from sparkd.model.config import Cluster, Deployment, Node
from sparkd.model.decision import Failure, FailureClass, Phase, State
from sparkd.model.machine import Holders, Memory
from sparkd.model.memory_trail import Guard, MemorySettings, MemoryTrail
from sparkd.model.snapshot import EngineMetrics, EngineView
from sparkd.observe import NodeAccess, Observer, memory_trails
from sparkd.observe.memory_look import memory_look
from sparkd.observe.memory_trails import MemoryTrails
from sparkd.runtimes.docker import DockerRuntime

from ..waiting import until
from .services import Say, odd_service, real_service

MIB, GIB = 1 << 20, 1 << 30
FIELDS = {
    "Cached": 0,
    "Buffers": 0,
    "SReclaimable": 0,
    "Shmem": 0,
    "MemTotal": 128 << 20,
    "SwapTotal": 0,
    "SwapFree": 0,
}
HOLDERS = "now MemTotal 9\nnow MemFree 1\nnow Buffers 1\nnow Cached 1\nnow AnonPages 1\nnow Slab 1\n"
ONE = Deployment(name="demo", engine="vllm", nodes=("a",))
STOP = Deployment(name="demo", engine="vllm", nodes=("a",), memory={"guard": {"act": "stop"}})


def access(folder: Path, name: str = "a") -> NodeAccess:
    host = LocalHost(name, Sockets(folder / "docker", folder / name))
    return NodeAccess(NodeClient(host, "11111111-1111-4111-8111-111111111111"), DockerRuntime(name, host.docker_socket))


@dataclass(slots=True)
class Told:
    """A node service that tells these figures (bytes available), one after the other, and then the last for ever."""

    figures: list[int]
    asked: list[tuple[str, ...]] = field(default_factory=list)
    at_once: int = 0
    most_at_once: int = 0
    hangs: bool = False

    async def answer(self, request: Mapping[str, Any], say: Say) -> None:
        if request["op"] != "probe":
            fields = {"service": "1", "protocols": [1], "boot_id": "b", "pid1_ticks": 1, "hostname": "a"}
            await say(ok=True, result=fields)
            return
        self.asked.append(tuple(one["name"] for one in request["probes"]))
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            if self.hangs:
                await anyio.sleep_forever()
            available = self.figures.pop(0) if len(self.figures) > 1 else self.figures[0]
            lines = {**FIELDS, "MemFree": available >> 10, "MemAvailable": available >> 10}
            text = "".join(f"{key}: {count} kB\n" for key, count in lines.items()) + "ShmFiles: 0\n"
            await say(probe="meminfo", text=text)
            if "holders" in self.asked[-1]:
                await say(probe="holders", text=HOLDERS)
            await say(done=True, boot_id="b", pid1_ticks=1)
        finally:
            self.at_once -= 1


@dataclass(slots=True)
class Followed:
    trails: MemoryTrails
    group: Any
    woken: list[float]

    def look(self, phase: Phase, deployment: Deployment = ONE, **more: Any) -> dict[str, MemoryTrail]:
        """One cycle of the loop, whose own look read no memory."""
        states = {"demo": State(phase=phase, **more)}
        found = self.trails.seen(clock.now(), {}, {}, [deployment], states)  # no views: it read no node
        self.trails.follow(self.group)
        return found

    @property
    def looks(self) -> list[int | None]:
        memory = [one.memory for one in self.look(Phase.START_HEAD)["a"].looks]
        return [one.available if one is not None else None for one in memory]


@asynccontextmanager
async def following(folder: Path, **nodes: Told) -> Any:
    woken: list[float] = []
    trails = MemoryTrails(lambda: woken.append(clock.now()))
    trails.configure({name: access(folder, name) for name in nodes}, Guard())
    async with AsyncExitStack() as stack:
        for name, told in nodes.items():
            await stack.enter_async_context(odd_service(folder / name, told.answer))
        async with anyio.create_task_group() as group:
            yield Followed(trails, group, woken)
            group.cancel_scope.cancel()
        for node in trails.access.values():
            await node.client.aclose()


@pytest.fixture
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred looks in a second, and a deadline to match."""
    monkeypatch.setattr(memory_trails, "EVERY_S", 0.02)
    monkeypatch.setattr(memory_trails, "DEADLINE_S", 0.5)


async def test_a_real_node_service_tells_its_memory_and_who_has_it(folder: Path) -> None:
    node = access(folder)
    async with real_service(folder / "a", folder):
        alone = await memory_look("a", node, holders=False, deadline_s=5.0)
        whole = await memory_look("a", node, holders=True, deadline_s=5.0)
        await node.client.aclose()
    assert isinstance(alone.memory, Memory)
    assert alone.memory.total > alone.memory.available > 0
    assert alone.holders is None
    assert isinstance(whole.holders, Holders)
    assert whole.holders.processes


async def test_a_look_of_the_loop_has_the_trail_and_the_guard_of_the_cluster(folder: Path) -> None:
    node, guard = access(folder), Guard(below="2GiB", act="stop")
    nodes = {"a": Node(name="a", address="local")}
    cluster = Cluster(cluster="c", nodes=nodes, memory=MemorySettings(guard=guard))
    observer = Observer(cluster, {"a": node}, "11111111-1111-4111-8111-111111111111")
    async with real_service(folder / "a", folder):
        for _ in range(2):
            seen = await observer.look([ONE], {"demo": State(phase=Phase.START_HEAD)})
        await node.client.aclose()
    assert seen.guard == guard
    trail = seen.memory["a"]
    assert [one.memory is not None for one in trail.looks] == [True, True]
    assert trail.looks[-1].memory == seen.nodes["a"].memory
    assert trail.turns == ("demo",), "the cluster's guard is the deployment's"


async def test_a_node_without_a_service_is_unknown_and_no_error(folder: Path) -> None:
    found = await memory_look("a", access(folder), holders=True, deadline_s=1.0)
    assert (found.memory, found.holders) == (None, None)


@pytest.mark.usefixtures("quickly")
async def test_while_a_group_starts_memory_is_followed_and_the_loop_woken_below_the_guard(folder: Path) -> None:
    told = Told([8 * GIB, 6 * GIB, 3 * GIB, 2 * GIB, GIB, GIB - 100 * MIB, GIB - 200 * MIB])
    async with following(folder, a=told) as node:
        node.look(Phase.START_HEAD)
        assert node.woken == []
        await until("the loop is woken", lambda: node.woken)
        assert node.looks[:6] == [8 * GIB, 6 * GIB, 3 * GIB, 2 * GIB, GIB, GIB - 100 * MIB]
        assert told.asked[0] == ("meminfo",), "who has it is not asked while there is enough"
        assert told.asked[3] == ("meminfo", "holders")
        assert told.most_at_once == 1


@pytest.mark.usefixtures("quickly")
async def test_once_a_group_serves_its_node_is_left_to_the_loop(folder: Path) -> None:
    told = Told([8 * GIB])
    async with following(folder, a=told) as node:
        node.look(Phase.START_HEAD)
        await until("it is followed", lambda: len(told.asked) > 3)
        node.look(Phase.SERVE)
        await until("the last look has ended", lambda: not node.trails._nodes["a"].asking)
        node.look(Phase.SERVE)
        await until("one look for the drain", lambda: told.asked[-1] == ("meminfo", "holders"))
        before = len(told.asked)
        for _ in range(5):
            node.look(Phase.SERVE)
            await anyio.wait_all_tasks_blocked()
        assert len(told.asked) == before, "and then none for ten minutes"
        assert len(node.look(Phase.SERVE)["a"].slow) == 1
        assert node.look(Phase.CLEANUP)["a"].slow == (), "what happens in a start is no drain"


@pytest.mark.usefixtures("quickly")
async def test_a_node_that_hangs_is_asked_once_at_a_time_and_holds_up_nobody(folder: Path) -> None:
    mute, well = Told([8 * GIB], hangs=True), Told([8 * GIB])
    both = Deployment(name="demo", engine="vllm", nodes=("a", "b"))
    async with following(folder, a=mute, b=well) as node:
        for _ in range(20):
            node.look(Phase.START_HEAD, both)
        await until("the other is followed", lambda: len(well.asked) > 5)
        assert len(mute.asked) == 1
        await until("the deadline has passed", lambda: node.look(Phase.START_HEAD, both)["a"].looks)
        given_up = node.look(Phase.START_HEAD, both)["a"].looks
        assert [one.memory for one in given_up] == [None] * len(given_up)
        assert len(mute.asked) <= len(given_up) + 1, "the next question waits for the end of the one before"
    assert node.woken == []


@pytest.mark.usefixtures("quickly")
async def test_a_start_that_waits_for_memory_goes_on_when_it_comes(folder: Path) -> None:
    told = Told([8 * GIB, 8 * GIB, 8 * GIB + 10 * MIB, 9 * GIB])
    async with following(folder, a=told) as node:
        node.look(Phase.CLEANUP, reason="memory-wait")
        await until("the loop is woken", lambda: node.woken)
        assert node.looks[:4] == [8 * GIB, 8 * GIB, 8 * GIB + 10 * MIB, 9 * GIB]


@pytest.mark.usefixtures("quickly")
async def test_a_node_that_comes_near_its_guard_while_it_serves_is_asked_who_has_it(folder: Path) -> None:
    told = Told([3 * GIB])
    async with following(folder, a=told) as node:
        node.look(Phase.SERVE)
        await until("the first look", lambda: node.trails._nodes["a"].looks)
        node.trails._nodes["a"].looks = []
        await until("another", lambda: node.look(Phase.SERVE) and len(told.asked) > 0)
        assert told.asked[0] == ("meminfo", "holders")


def test_the_trail_says_who_may_be_stopped_and_who_is_being() -> None:
    trails = MemoryTrails(lambda: None)
    trails.configure({"a": None}, Guard())  # type: ignore[dict-item]
    states = {"demo": State(phase=Phase.SERVE)}
    assert trails.seen(1.0, {}, {}, [STOP, STOP], states)["a"].turns == ("demo",)
    assert trails.seen(1.0, {}, {}, [ONE], states)["a"].turns == ()
    failure = Failure(1, FailureClass.RESOURCE, "memory-guard", "", 1.0, 1.0)
    states = {"demo": State(phase=Phase.BACKOFF, failure=failure)}
    assert trails.seen(2.0, {}, {}, [STOP], states)["a"].going == "demo"


def test_the_slow_row_knows_whether_people_ask() -> None:
    trails = MemoryTrails(lambda: None)
    trails.configure({"a": None}, Guard())  # type: ignore[dict-item]
    states, metrics = {"demo": State(phase=Phase.SERVE)}, EngineMetrics(0, 0, 40.0, 2.0)
    for engines, tokens in (({"demo": EngineView(200, metrics)}, 42.0), ({}, None)):
        trails.seen(1.0, {}, engines, [ONE], states)
        assert trails._nodes["a"].tokens == tokens
    trails.seen(1.0, {}, {}, [ONE], {"demo": State(phase=Phase.STOPPED)})
    assert trails._nodes["a"].tokens == 0.0
