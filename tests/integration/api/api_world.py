"""A daemon for the API to talk to: real listeners, real streams, and a service that remembers what it was asked."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import aiohttp
import anyio

from sparkd.api import Conflict, Drifts, Hub, NotFound, Operation, Unusable, Unwritable, serve
from sparkd.base import clock
from sparkd.base.errors import DockerMute
from sparkd.checks.shared.report import report
from sparkd.journal import Event
from sparkd.model.check import Checked, Finding, Level, Status
from sparkd.model.config import BrokenDeployment, Cluster, Deployment, Http, Node, Paths
from sparkd.model.decision import Cause, Decision, Intent, Phase, Planned, State
from sparkd.model.machine import Boot, DockerUnit, Memory
from sparkd.model.outage import Outage
from sparkd.model.snapshot import Canary, Container, EngineMetrics, EngineView, NodeView, Snapshot, Unknown
from sparkd.model.view import ClusterView, DaemonFacts
from sparkd.reporting import outage_list as outages
from sparkd.reporting.copies import Shown
from sparkd.reporting.metrics import Counters

NODES = {"spark1": Node(name="spark1", address="local"), "spark2": Node(name="spark2", address="10.0.0.2")}
DS4 = Deployment(name="ds4-flash", engine="vllm", nodes=("spark1", "spark2"), digest="d")
QWEN = Deployment(name="qwen", engine="vllm", nodes=("spark1",), digest="d")
CHECKED = Checked(
    1.0,
    0.4,
    (
        Finding(
            code="ghost-path", severity=Level.FAIL, status=Status.FAIL, node="spark2", text="a ghost", fix="bury it"
        ),
        Finding(code="ghost-path", severity=Level.FAIL, status=Status.OK, node="spark1"),
        Finding(code="flags", severity=Level.FAIL, status=Status.WARN, text="odd"),
    ),
)
CHECKS = report("ds4-flash", CHECKED, 1.7e9)
BROKEN = BrokenDeployment(name="broken", file="broken.yaml", problems=("broken.yaml:3: port: no number",))


def node(name: str, *containers: Container) -> NodeView:
    memory = Memory(128 << 30, 20 << 30, 90 << 30, 70 << 30, 1 << 30, 0)
    docker = DockerUnit(running=True, pid=1)
    return NodeView(name, Boot("b", 5, 7200.0), memory, "running", docker, containers, (), ())


def a_view() -> ClusterView:
    """One deployment that serves, one that backs off, one whose file is broken."""
    at, wall = clock.now(), clock.wall()
    ranks = [
        Container(f"{rank}abc", f"sparkd-ds4-flash-{rank}", "ds4-flash", rank, 14, "o", "s", "running")
        for rank in (0, 1)
    ]
    serving = State(
        phase=Phase.SERVE,
        since=at - 600,
        generation=14,
        serving_since=at - 600,
        digest="d",
        cause=Cause.BOOT,
    )
    lost = Outage(at - 30, wall - 30, 2, "exit-137", "rank 0 is gone", "transient")
    waiting = State(phase=Phase.BACKOFF, since=at - 30, generation=3, cause=Cause.CRASH, outage=lost)
    planned = Planned(at + 250, "group restart")
    engine = EngineView(200, EngineMetrics(1, 0, 100, 2000, 0.25, (0.9, 0.7)))
    return ClusterView(
        cluster="desk",
        at=at,
        wall=wall,
        daemon=DaemonFacts(version="0.1.0", since_wall=wall - 999, loop_age_s=1.0),
        snapshot=Snapshot(
            at - 1,
            wall - 1,
            {"spark1": node("spark1", ranks[0]), "spark2": node("spark2", ranks[1])},
            engines={"ds4-flash": engine, "qwen": EngineView(Unknown("refused", at))},
            checks={"ds4-flash": CHECKED},
        ),
        nodes=NODES,
        drift={"ds4-flash": {"breaks": 1, "slows": 0, "unknown": 0, "benign": 2}},
        deployments=(DS4, QWEN, BROKEN),
        states={"ds4-flash": serving, "qwen": waiting},
        intents={name: Intent(wanted="up") for name in ("ds4-flash", "qwen")},
        decisions={
            "ds4-flash": Decision(serving, (), "serving since 03:10, canary 37.1 tok/s", "serving"),
            "qwen": Decision(waiting, (), "rank 0 is gone; restarting the group in 4 min", "failed", next=planned),
        },
        canaries={"ds4-flash": Canary(14, at - 31, at - 30, ok=True, tokens=1, tokens_per_second=37.1)},
    )


@dataclass
class Recorded:
    """One deployment's drift, which says what it was asked."""

    name: str

    async def drift(self, against: str | None) -> Mapping[str, Any]:
        return {"schema": 1, "drift": self.name, "against": against}

    async def build(self) -> Mapping[str, Any]:
        return {"schema": 1, "nodes": {}}

    async def hashes(self) -> Mapping[str, Any]:
        return {"schema": 1, "complete": True}

    async def listing(self) -> Mapping[str, Any]:
        return {"schema": 1, "known_good": []}

    async def show(self, generation: int) -> Mapping[str, Any]:
        if generation != 12:
            raise NotFound(f"nothing is recorded of generation {generation}", "recorded: 12")
        return {"schema": 1, "generation": generation}

    async def apart(self, before: int, after: int) -> Mapping[str, Any]:
        return {"schema": 1, "apart": [before, after]}

    async def bless(self, generation: int | None, note: str) -> Mapping[str, Any]:
        return {"schema": 1, "blessed": [generation, note]}


@dataclass
class RecordedNodes:
    """Nodes that remember what they were asked."""

    asked: list[tuple[object, ...]] = field(default_factory=list)

    async def maintain(self, node: str, for_s: float | None, by: str, message: str) -> Mapping[str, Any]:
        self.asked.append(("maintain", node, for_s, message))
        return {"schema": 1, "node": node, "sentence": "begins", "deployments": []}

    async def end(self, node: str, by: str, message: str) -> Mapping[str, Any]:
        raise Conflict(f"{node} is not under maintenance")

    def power(self, node: str) -> Mapping[str, Any]:
        return {"schema": 1, "node": node, "would": "run /srv/cycle"}

    async def power_cycle(self, node: str, force: bool, by: str, message: str) -> Mapping[str, Any]:
        self.asked.append(("power-cycle", node, force, message))
        return {"schema": 1, "node": node, "ok": True, "text": "exit code 0"}


@dataclass
class Daemon:
    """Implements `sparkd.api.Service`."""

    look: Callable[[], ClusterView] = a_view
    hub: Hub = field(default_factory=Hub)
    asked: list[tuple[str, str, Operation]] = field(default_factory=list)
    reloads: list[tuple[str, str]] = field(default_factory=list)
    lines: int = 3
    events: list[Event] = field(default_factory=list)
    saved: Path = Path("/nowhere")
    nodes: RecordedNodes = field(default_factory=RecordedNodes)

    def __post_init__(self) -> None:
        self.shown = Shown(self.view)

    def view(self) -> ClusterView:
        return self.look()

    async def operate(self, name: str, verb: str, operation: Operation) -> str:
        if verb == "pause":
            raise Conflict("it is paused already", "nothing to do")
        if verb == "resume":
            raise Unwritable("the disk is full", "free some space")
        self.asked.append((name, verb, operation))
        return f"op-{len(self.asked)}"

    async def reload(self, by: str, message: str) -> Mapping[str, Any]:
        if message == "broken":
            raise Unusable(["sparkd.yaml:3: polcy: unknown key `polcy`", "sparkd.yaml:9: nodes: no nodes"])
        self.reloads.append((by, message))
        return {"schema": 1, "sentence": "nothing has changed", "cluster": [], "deployments": []}

    def operation(self, id: str) -> Mapping[str, Any] | None:
        return {"operation": id, "state": "running"} if id == "op-1" else None

    async def history(self, deployment: str | None, limit: int, after_id: int) -> Sequence[Event]:
        return [one for one in self.events if one.id > after_id and deployment in (None, one.deployment)][-limit:]

    def outages(self, name: str | None) -> Mapping[str, Any]:
        return outages.listing((), self.look().states, clock.now(), name)

    def subscribe(self) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        return self.hub.subscribe()

    async def logs(self, name: str, tail: int, follow: bool) -> AsyncIterator[Mapping[str, Any]]:
        for number in range(min(tail, self.lines)):
            yield {
                "at": "2026-11-27T07:00:00Z",
                "rank": number % 2,
                "node": "spark1",
                "stream": "o",
                "text": "x" * 1000,
            }
        if name == "qwen":
            raise DockerMute("spark1", "no answer in 5 s")
        while follow:
            await anyio.sleep(0.01)
            yield {"at": "2026-11-27T07:00:01Z", "rank": 0, "node": "spark1", "stream": "stdout", "text": "more"}

    def checks(self, name: str) -> Mapping[str, Any]:
        return CHECKS

    async def check(self, name: str) -> Mapping[str, Any]:
        return CHECKS

    def drifts(self, name: str) -> Drifts:
        return Recorded(name)

    async def cleanup(self, name: str, clean: bool) -> Mapping[str, Any]:
        return {"schema": 1, "nodes": {"spark1": {"caches": {"/c": 1} if clean else {}}}}

    def captures(self, name: str) -> Path:
        return self.saved / name

    def why(self, name: str) -> Mapping[str, Any]:
        if name == "broken":
            raise RuntimeError("a bug, with a secret in it")
        return {"schema": 1, "cause": None, "also": []}


@dataclass(frozen=True)
class Place:
    """Where it answers."""

    daemon: Daemon
    counters: Counters
    sock: Path
    port: int

    @asynccontextmanager
    async def unix(self) -> AsyncIterator[aiohttp.ClientSession]:
        connector = aiohttp.UnixConnector(str(self.sock))
        async with aiohttp.ClientSession("http://sparkd", connector=connector) as session:
            yield session

    @asynccontextmanager
    async def tcp(self) -> AsyncIterator[aiohttp.ClientSession]:
        async with aiohttp.ClientSession(f"http://127.0.0.1:{self.port}") as session:
            yield session


@contextmanager
def short_folder() -> Iterator[Path]:
    """A folder whose path leaves room for a socket's name (108 bytes)."""
    folder = Path(tempfile.mkdtemp(prefix="sparkd-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


@asynccontextmanager
async def running(daemon: Daemon | None = None, **http: Any) -> AsyncIterator[Place]:
    """The API on a Unix socket and a free TCP port."""
    daemon, counters = daemon or Daemon(), Counters()
    port, opened = 0, anyio.Event()

    def on_tcp(number: int) -> None:
        nonlocal port
        port = number
        opened.set()

    with short_folder() as folder:
        settings = Http(listen="127.0.0.1:0", **http)
        cluster = Cluster(cluster="desk", nodes=NODES, http=settings, paths=Paths(run=str(folder)))
        async with serve(daemon, cluster, counters, on_tcp):
            with anyio.fail_after(10):
                await opened.wait()
            yield Place(daemon, counters, folder / "sparkd.sock", port)


def later(seconds: float) -> ClusterView:
    """The view of a daemon whose loop has not run for this long."""
    view = a_view()
    return replace(view, daemon=replace(view.daemon, loop_age_s=seconds))
