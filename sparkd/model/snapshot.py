"""What was seen in one look at the cluster, as one frozen value. A fact that could not be read is `Unknown`, never absent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from sparkd.model.action import Action
from sparkd.model.check import Checked
from sparkd.model.config import Cleanup
from sparkd.model.effort import Efforts, GpuLoad
from sparkd.model.failure_code import FailureCode
from sparkd.model.log_finding import LogFinding
from sparkd.model.machine import (
    Boot,
    DockerUnit,
    EngineProcess,
    Holders,
    Memory,
    Ping,
    Process,
    ShmSegment,
    Socket,
    Work,
)
from sparkd.model.memory_trail import Guard, MemoryTrail
from sparkd.model.rank import unit_name
from sparkd.model.sanity import Said
from sparkd.model.upkeep import Echo, Upkeep

DOCKER_STOPPED = "docker-stopped"
"""Code of an Unknown: Docker was not seen running there."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """A fact that could not be read: why, and since when (seconds on the daemon's clock, CLOCK_BOOTTIME)."""

    why: str
    since: float
    code: str = "unreadable"
    """unreachable | timeout | host-key | protocol | owner | docker-stopped | docker-mute | unreadable"""
    silent: bool = False
    """Of a node: SSH got no answer at all, and it had not said goodbye. Refused, reset or closed is an answer."""


@dataclass(frozen=True, slots=True)
class Container:
    """A rank as its runtime reports it: a container of Docker, or a unit of systemd in the same shape."""

    id: str
    name: str
    deployment: str
    rank: int
    generation: int
    owner: str
    spec: str
    state: str
    """created | running | paused | restarting | removing | exited | dead"""
    exit_code: int | None = None
    oom_killed: bool = False
    error: str = ""
    pid: int = 0
    started_at: str = ""
    finished_at: str = ""
    runtime: str = "docker"
    """What keeps it: docker | process."""

    @property
    def alive(self) -> bool:
        """Something of it may still run (or come back): all but created, exited and dead."""
        return self.state not in ("created", "exited", "dead")

    @property
    def owners(self) -> tuple[str, str]:
        """What the control group of its processes is called: by id for a container, by name for a unit."""
        return self.id, unit_name(self.name)


@dataclass(frozen=True, slots=True)
class NodeView:
    """One node in one look. `boot` Unknown means that the node could not be asked at all."""

    name: str
    boot: Boot | Unknown
    memory: Memory | Unknown
    system: str | Unknown
    docker: DockerUnit | Unknown
    containers: tuple[Container, ...] | Unknown
    """Every container with an io.sparkd.deployment label or a name of ours, of any owner."""
    processes: tuple[Process, ...] | Unknown
    """Processes of those containers."""
    sockets: tuple[Socket, ...] | Unknown
    """TCP sockets on the deployments' ports."""
    pings: tuple[Ping, ...] | Unknown = ()
    images: Mapping[str, str | None] | Unknown = field(default_factory=dict)
    """Image reference -> id, or None where it is missing; asked only where a start is near."""
    paths: Mapping[str, str] | Unknown = field(default_factory=dict)
    """Mount source -> `dir`, `file`, `missing` …; asked only where a start is near."""
    shm: tuple[ShmSegment, ...] | Unknown = ()
    leftovers: Mapping[str, tuple[Process, ...]] | Unknown = field(default_factory=dict)
    """Deployment -> processes whose environment names it, wherever they are; asked only while its ranks are torn down."""
    units: tuple[Container, ...] | Unknown = ()
    """Ranks of the process runtime, of any owner: transient units of the node's systemd."""
    users: Mapping[str, int | None] | Unknown = field(default_factory=dict)
    """User -> uid, or None where there is none; asked only where a start of the process runtime is near."""
    engines: tuple[EngineProcess, ...] | Unknown = ()
    """Every process that looks like an engine, whatever started it; read only where a start is near."""
    holders: Holders | Unknown | None = None
    """Who has the memory; asked only where a start is near."""
    effort: Efforts | Unknown | None = None
    """What its ranks and its fabric have done between two looks; asked only while something is suspicious."""
    gpu: GpuLoad | Unknown | None = None
    """How hard its GPUs work; asked then, and now and then while nobody asks the engine."""
    work: tuple[Work, ...] | Unknown = field(default=(), kw_only=True)
    """What the processes of ranks have done so far; asked only while one of their deployments starts."""
    in_use: tuple[str, ...] = field(default=("docker",), kw_only=True)
    """Runtimes of the deployments with a rank here."""

    @property
    def unread(self) -> Unknown | None:
        """Why ranks on this node cannot be judged, or None when all of them can."""
        found = (self.unread_for(runtime) for runtime in ("", *self.in_use))
        return next((why for why in found if why is not None), None)

    def unread_for(self, runtime: str) -> Unknown | None:
        """The same for the ranks of one runtime: a node without Docker tells all about ranks that need none."""
        kept_by = {"docker": (self.docker, self.containers), "process": (self.units,)}
        facts = (self.boot, *kept_by.get(runtime, ()))
        return next((fact for fact in facts if isinstance(fact, Unknown)), None)

    @property
    def rank_owners(self) -> frozenset[str]:
        """Owners of the control groups of all those ranks."""
        return frozenset(owner for one in self.ranks for owner in one.owners)

    @property
    def ranks(self) -> tuple[Container, ...]:
        """Every rank that could be read, whatever keeps it."""
        read = [(name, kept) for name, kept in (("docker", self.containers), ("process", self.units))]
        return tuple(
            one for name, kept in read if not isinstance(kept, Unknown) and not self.unread_for(name) for one in kept
        )


def blind(name: str, why: Unknown) -> NodeView:
    """A node of which nothing could be read."""
    return NodeView(name, why, why, why, why, why, why, why)


@dataclass(frozen=True, slots=True)
class EngineMetrics:
    """Progress counters from the engine's own /metrics. Counters move only on steps with output (vLLM 0.32)."""

    running: float
    waiting: float
    prompt_tokens: float
    generation_tokens: float
    kv_cache_usage: float | None = None
    acceptance: tuple[float, ...] = ()
    kv_cache_tokens: int | None = None
    """How many tokens its KV cache holds, over all engines."""


@dataclass(frozen=True, slots=True)
class Canary:
    """The last real completion sent to this generation. Times are seconds on the daemon's clock."""

    generation: int
    sent_at: float
    ended_at: float
    ok: bool
    why: str = ""
    tokens: int = 0
    first_token_s: float | None = None
    tokens_per_second: float | None = None
    kind: Literal["", "late", "key", "error"] = ""
    """Of a failure: no answer within the deadline of our own running time; the engine wants another key than we have; or what it
    answers is an error, or no answer."""
    said: Said | None = None
    """The answer itself, of a question that is asked for it."""


@dataclass(frozen=True, slots=True)
class EngineView:
    """What the engine says of itself over HTTP. `health` is the status of GET /health, None when the connection was refused."""

    health: int | None | Unknown
    metrics: EngineMetrics | None | Unknown = None
    stage: str | None = None
    """Start-up stage by log lines and process titles, while it starts."""
    log: int | None = None
    """Stands for the last lines of the head's log, while it starts: another number is another text. None without any."""
    log_findings: tuple[LogFinding, ...] = ()
    """What the logs of the ranks say, after ready and while something looks wrong."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How the last action of a deployment ended. `value` is what it found (a Canary, before/after figures …)."""

    action: Action
    ok: bool
    ended_at: float
    error: str = ""
    code: FailureCode | None = None
    """Why, where it is not `ok`."""
    node: str = ""
    value: object = None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One look at everything. `at` is on the daemon's clock (CLOCK_BOOTTIME seconds), `wall` is Unix time for people."""

    at: float
    wall: float
    nodes: Mapping[str, NodeView]
    owner: str = ""
    """This sparkd's owner id: containers with another one belong to another sparkd."""
    engines: Mapping[str, EngineView] = field(default_factory=dict)
    outcomes: Mapping[str, Outcome] = field(default_factory=dict)
    """Deployment -> the action that ended since the last decision."""
    busy: Mapping[str, Action] = field(default_factory=dict)
    """Deployment -> the action in flight."""
    cleanup: Cleanup = field(default_factory=Cleanup)
    """What sparkd.yaml allows to be cleaned before a start."""
    memory: Mapping[str, MemoryTrail] = field(default_factory=dict)
    """Node -> the looks at its memory until now."""
    guard: Guard = field(default_factory=Guard)
    """What sparkd.yaml says of a node whose memory runs out."""
    checks: Mapping[str, Checked] = field(default_factory=dict)
    """Deployment -> the last run of its checks."""
    upkeep: Mapping[str, Upkeep] = field(default_factory=dict)
    """Node -> planned work on it, and its power hook."""
    echoes: Mapping[str, tuple[Echo, ...]] = field(default_factory=dict)
    """Silent node -> pings to it, by every node that can be asked."""
    took_s: float = 0.0
    """Seconds for which nodes and engines were waited for, each within its deadline: the loop is not late for them."""

    def readable(self, nodes: Iterable[str], runtime: str) -> bool:
        """Could each of these nodes be asked what runs on it?"""
        return all(node in self.nodes and self.nodes[node].unread_for(runtime) is None for node in nodes)
