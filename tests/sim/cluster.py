"""A cluster in memory: nodes, containers and the life of an engine's ranks, from actions and faults to snapshots."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from sparkd.model.check import Checked, Finding, Level, Status
from sparkd.model.config import Deployment
from sparkd.model.decision import ASK_ENGINE, ASK_LEFTOVERS, ASK_SOURCES, STARTING, State
from sparkd.model.machine import Boot, DockerUnit, Memory, Ping, Process, Socket, Work
from sparkd.model.memory_trail import MemoryLook, MemoryTrail
from sparkd.model.snapshot import Container, EngineMetrics, EngineView, NodeView, Snapshot, Unknown
from sparkd.model.upkeep import Echo, Upkeep

from . import loads

OWNER = "owner-1"
LOAD_S = 40.0
"""From all ranks running to an engine that answers."""
MEMORY = Memory(128 << 30, 118 << 30, 120 << 30, 10 << 30, 0, 0)
TAKEN = Memory(128 << 30, 20 << 30, 21 << 30, 1 << 30, 0, 0)


@dataclass(slots=True)
class SimContainer:
    id: str
    rank: int
    generation: int
    owner: str = OWNER
    state: str = "created"
    exit_code: int | None = None
    pid: int = 0
    frozen: bool = False
    """Its process is stopped (SIGSTOP)."""
    loaded_s: float = 0.0
    """Head only: how long all ranks have been up together."""
    doomed_at: float | None = None
    """Head only: when it notices that a peer is gone; None = never (an idle head)."""
    dead: bool = False
    """Head only: its API answers 503."""
    wedged: bool = False
    """It looks well in every way and answers nothing."""
    late: bool = False
    """Docker finished its start after sparkd had given up."""
    up_s: float = 0.0
    """How long it has been running."""
    hollow: bool = False
    """Its engine has ended without a word, and what had started it runs on."""
    met: bool = False
    """All ranks of its generation have met, so that its process has its last title."""
    cpu_ms: int = 0

    @property
    def runs(self) -> bool:
        return self.state == "running"

    def end(self, code: int) -> None:
        self.state, self.exit_code, self.pid, self.dead = "exited", code, 0, False


@dataclass(slots=True)
class SimNode:
    name: str
    booted_at: float = -100000.0
    boot: int = 1
    on: bool = True
    reachable: bool = True
    docker: str = "running"
    """running | stopped | mute"""
    stopping: bool = False
    image: bool = True
    mount: bool = True
    sockets: bool = True
    """Can the sockets be read?"""
    port_held: bool = False
    check_fails: bool = False
    """One of the checks finds something that forbids a start."""
    memory_taken: bool = False
    """Somebody else has so much memory that no rank fits."""
    drains: int = 0
    """Bytes that a rank of ours takes each second while it runs there."""
    returns: int = 1 << 60
    """Bytes that are given back each second once no rank runs."""
    drained: int = 0
    """Bytes taken in that way."""
    looks: list[MemoryLook] = field(default_factory=list)
    """The memory of each second, as far back as sparkd remembers it."""
    stuck: bool = False
    """Stops and kills hang (moby/moby#22802)."""
    unread_since: float | None = None
    """Since when sparkd has not been able to read it, as it remembers."""
    containers: list[SimContainer] = field(default_factory=list)
    strays: list[int] = field(default_factory=list)
    """Pids of processes that outlived their container."""

    @property
    def unread(self) -> bool:
        return not self.on or not self.reachable or self.docker != "running"

    @property
    def memory(self) -> Memory:
        whole = TAKEN if self.memory_taken else MEMORY
        if not self.drained:
            return whole
        left = max(0, whole.available - self.drained)
        return replace(whole, available=left, free=max(0, whole.free - self.drained))

    def pass_second(self, at: float) -> None:
        """Memory is taken while a rank runs, and given back afterwards; sparkd looks at it each second."""
        runs = any(one.runs and one.owner == OWNER for one in self.containers)
        self.drained = max(0, self.drained + (self.drains if runs else -self.returns))
        self.looks = [*self.looks[-59:], MemoryLook(at, self.memory if self.on and self.reachable else None)]


@dataclass(slots=True)
class SimCluster:
    deployment: Deployment
    now: float = 1000.0
    fabric: bool = True
    idle: bool = False
    """Nobody asks: a head that lost its worker never notices (evidence 01)."""
    load_s: float = LOAD_S
    late_s: dict[int, float] = field(default_factory=dict)
    """Rank -> how long its container runs before the engine in it begins."""
    busy: bool = True
    """What comes before the engine computes."""
    walled: bool = False
    """A firewall between the nodes keeps the ranks from meeting."""
    titles: dict[str, str] = field(default_factory=dict)
    """Container -> what its process calls itself, where that is something else than it should be."""
    tokens: float = 0.0
    slow_page: bool = False
    """Its metrics come too late to be read."""
    silent: bool = False
    """The engine is well, and answers nothing for now: no token moves, whatever its nodes do."""
    doing: dict[str, loads.Doing] = field(default_factory=dict)
    """Node -> what it is seen to do; nothing is seen of others."""
    looked: dict[str, float] = field(default_factory=dict)
    """Node -> when it was last asked for that."""
    saturated: bool = False
    """Tokens flow, and a canary waits behind so many other requests that its time runs out."""
    requests: float = 0.0
    """What the engine says of requests that run, true or not."""
    says: str = "lantern 4729 copper. Paris."
    """What it answers to the fixed question."""
    nodes: dict[str, SimNode] = field(default_factory=dict)
    serial: int = 100
    upkeep: dict[str, Upkeep] = field(default_factory=dict)
    """Node -> planned work on it."""

    def __post_init__(self) -> None:
        self.nodes = {name: SimNode(name) for name in self.deployment.nodes}

    # ---------------------------------------------------------------------------------------------------------- truth

    def ours(self) -> Iterator[tuple[SimNode, SimContainer]]:
        for node in self.nodes.values():
            yield from ((node, one) for one in node.containers if one.owner == OWNER)

    def running(self) -> list[tuple[SimNode, SimContainer]]:
        return [(node, one) for node, one in self.ours() if one.runs]

    def rank(self, rank: int) -> SimContainer | None:
        """Our container of this rank on its node, of any generation."""
        node = self.nodes[self.deployment.nodes[rank]]
        return next((one for one in node.containers if one.rank == rank and one.owner == OWNER), None)

    def begun(self, one: SimContainer) -> bool:
        """Is there an engine in it?"""
        return one.runs and not one.hollow and one.up_s >= self.late_s.get(one.rank, 0.0)

    def peers_up(self, head: SimContainer) -> bool:
        peers = [self.rank(rank) for rank in self.deployment.workers]
        same = all(peer is not None and self.begun(peer) and peer.generation == head.generation for peer in peers)
        return same and self.begun(head)

    def answers(self, generation: int) -> bool:
        """Would a completion sent to this generation be answered?"""
        head = self.rank(0)
        if head is None or not head.runs or head.generation != generation or head.loaded_s < self.load_s or head.dead:
            return False
        ranks = [self.rank(rank) for rank in range(len(self.deployment.nodes))]
        return (
            self.fabric
            and not self.silent
            and self.peers_up(head)
            and not any(one is not None and (one.frozen or one.wedged) for one in ranks)
        )

    def replies(self, generation: int) -> bool:
        """Would a canary be answered in its time?"""
        return self.answers(generation) and not self.saturated

    def next_id(self) -> int:
        self.serial += 1
        return self.serial

    # ----------------------------------------------------------------------------------------------------------- time

    def pass_time(self, seconds: float) -> None:
        for node in self.nodes.values():
            moves = node.drains or node.drained  # else each second shows the same
            for second in range(1 if moves else int(seconds), int(seconds) + 1):
                node.pass_second(self.now + second)
        self.now += seconds
        for _, one in self.running():
            one.up_s += seconds
            works = self.begun(one) or (self.busy and not one.hollow)
            one.cpu_ms += int(100 * seconds) if works else 0
        for node, head in self.running():
            if head.rank != 0 or node.stopping:
                continue
            kept = self.walled or any(one.frozen for _, one in self.running())
            if kept and self.peers_up(head) and head.loaded_s < self.load_s:
                continue  # a start waits for all of its ranks
            if self.peers_up(head):
                head.loaded_s, head.doomed_at = head.loaded_s + seconds, None
                for _, one in self.running():
                    one.met |= one.generation == head.generation
            elif head.loaded_s >= self.load_s and not self.idle:
                head.doomed_at = head.doomed_at if head.doomed_at is not None else self.now + 5.0
            if head.doomed_at is not None and self.now >= head.doomed_at:
                head.end(0)  # every engine death after start-up exits 0

    def power_off(self, name: str) -> None:
        node = self.nodes[name]
        node.on, node.stopping, node.strays = False, False, []
        for one in node.containers:
            if one.runs:
                one.end(137)

    def power_on(self, name: str) -> None:
        node = self.nodes[name]
        if not node.on:
            node.on, node.docker, node.stuck = True, "running", False
            node.boot, node.booted_at = node.boot + 1, self.now

    def shut_down(self, name: str) -> None:
        """The orderly way: Docker ends the ranks while the node says that it is stopping."""
        node = self.nodes[name]
        node.stopping = node.on
        for one in node.containers:
            if one.runs:
                one.end(143)

    # ----------------------------------------------------------------------------------------------------------- look

    def look(self, state: State) -> Snapshot:
        """What the daemon would see, asking what it asks in this phase and nothing else."""
        nodes = {name: self._view(node, state) for name, node in self.nodes.items()}
        engine = self._engine(state)
        engines = {self.deployment.name: engine} if engine is not None else {}
        checks = {self.deployment.name: Checked(self.now, 0.1, self._findings())}
        known: dict[str, Any] = {
            "memory": {name: MemoryTrail(tuple(node.looks)) for name, node in self.nodes.items()},
            "upkeep": dict(self.upkeep),
            "echoes": {name: self._echoes(name) for name in nodes},
        }
        return Snapshot(self.now, 1.7e9 + self.now, nodes, OWNER, engines, checks=checks, **known)

    def _echoes(self, name: str) -> tuple[Echo, ...]:
        """A node that cannot be reached is frozen: whoever can be asked still gets an answer to a ping from it while it is on."""
        node = self.nodes[name]
        others = [one for one in self.nodes.values() if one is not node and one.on and one.reachable]
        silent = not node.on or not node.reachable
        return tuple(Echo(one.name, "lan", node.on) for one in others) if silent else ()

    def _findings(self) -> tuple[Finding, ...]:
        failing = (name for name, node in self.nodes.items() if node.check_fails)
        return tuple(
            Finding(code="ghost-path", severity=Level.FAIL, status=Status.FAIL, node=name, text=f"a ghost on {name}")
            for name in failing
        )

    def _view(self, node: SimNode, state: State) -> NodeView:
        name = self.deployment.name
        node.unread_since = (node.unread_since or self.now) if node.unread else None
        away = Unknown("unreachable", node.unread_since or self.now, "unreachable", silent=True)
        if not node.on or not node.reachable:
            return NodeView(node.name, *[away] * 12)
        no_docker = Unknown("Docker does not answer", node.unread_since or self.now, f"docker-{node.docker}")
        docker = node.docker == "running"
        asks_sources, asks_left = state.phase in ASK_SOURCES, state.phase in ASK_LEFTOVERS
        image, mounts = self.deployment.image or "", self.deployment.container.mounts
        return NodeView(
            name=node.name,
            boot=Boot(f"{node.name}-{node.boot}", 10, self.now - node.booted_at),
            memory=node.memory,
            system="stopping" if node.stopping else "running",
            docker=DockerUnit(running=node.docker != "stopped"),
            containers=tuple(self._container(one) for one in node.containers) if docker else no_docker,
            processes=tuple(self._process(one) for one in node.containers if one.runs),
            sockets=tuple(self._sockets(node)) if node.sockets else Unknown("no answer", self.now, "timeout"),
            pings=tuple(self._pings(node)),
            images=({image: "sha" if node.image else None} if asks_sources else {}) if docker else no_docker,
            paths={one.source: "dir" if node.mount else "missing" for one in mounts} if asks_sources else {},
            leftovers={name: tuple(self._left(node))} if asks_left else {},
            **self._load(node, state),
            work=tuple(Work(one.id, one.cpu_ms, 0) for one in node.containers if one.runs)
            if state.phase in STARTING
            else (),
        )

    def _load(self, node: SimNode, state: State) -> dict[str, Any]:
        """Asked every 15 s while something is suspicious, else once a minute, as `observe/effort.py` does."""
        rank, doing = next((one for one in node.containers if one.runs), None), self.doing.get(node.name)
        pause = 15.0 if state.watch.suspicious else 60.0
        if rank is None or doing is None or self.now - self.looked.get(node.name, 0.0) < pause:
            return {}
        self.looked[node.name] = self.now
        return {"effort": loads.efforts(doing, rank.id, rank.pid), "gpu": loads.gpu(doing, rank.pid)}

    def _container(self, one: SimContainer) -> Container:
        name = f"sparkd-{self.deployment.name}-{one.rank}"
        known = (one.id, name, self.deployment.name, one.rank, one.generation, one.owner, "spec")
        return Container(*known, state=one.state, exit_code=one.exit_code)

    def _process(self, one: SimContainer) -> Process:
        return Process(one.pid, 1, one.pid * 10, "T" if one.frozen else "S", 1 << 30, one.id, self._title(one))

    def _title(self, one: SimContainer) -> str:
        if one.id in self.titles:
            return self.titles[one.id]
        if not self.begun(one):
            return "bash start.sh"
        return f"VLLM::Worker_TP{one.rank}" if one.met else "VLLM::Worker"

    def _left(self, node: SimNode) -> Iterator[Process]:
        yield from (Process(pid, 1, pid * 10, "S", 1 << 20, "-", "VLLM::Worker") for pid in node.strays)
        # The environment of what runs in a container names the deployment too.
        yield from (self._process(one) for one in node.containers if one.runs and one.owner == OWNER)

    def _sockets(self, node: SimNode) -> Iterator[Socket]:
        ports = (self.deployment.port, self.deployment.master_port)
        if node.port_held:
            yield Socket("LISTEN", "0.0.0.0", ports[0], "0.0.0.0", 0, 0, 0, 1, 77)
        for one in node.containers:
            if not one.runs:
                continue
            head = self.rank(0)
            if one.rank == 0:
                yield from (Socket("LISTEN", "0.0.0.0", port, "0.0.0.0", 0, 0, 0, 2, one.pid) for port in ports)
            elif head is not None and head.state == "exited" and head.generation == one.generation and head.loaded_s:
                yield Socket("CLOSE_WAIT", "10.0.0.2", 40000, "10.0.0.1", ports[1], 0, 0, 3, one.pid)
            elif head is not None and self.begun(head) and self.begun(one) and not self.walled:
                yield Socket("ESTABLISHED", "10.0.0.2", 40000, "10.0.0.1", ports[1], 0, 0, 3, one.pid)

    def _pings(self, node: SimNode) -> Iterator[Ping]:
        for other in self.nodes.values():
            if other is not node:
                yield Ping(f"fabric-{other.name}", 0.1 if self.fabric and other.on else None)

    def _engine(self, state: State) -> EngineView | None:
        head = self.rank(0)
        if state.phase not in ASK_ENGINE or head is None or not head.runs or head.generation != state.generation:
            return None
        if self.nodes[self.deployment.nodes[0]].unread:
            return None
        if head.dead or head.loaded_s < self.load_s:
            return EngineView(health=503 if head.dead else None, stage="weights" if head.met else "rendezvous")
        if not self.idle and self.answers(state.generation):
            self.tokens += 10.0
        metrics = EngineMetrics(self.requests, 0.0, self.tokens, self.tokens, 0.1)
        return EngineView(200, Unknown("late", self.now) if self.slow_page else metrics, stage="ready")
