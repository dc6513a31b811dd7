"""Configuration as frozen values. Field names are the keys of the YAML files; durations are seconds, sizes bytes.

Built by `sparkd.settings`, which reports every problem with file and line; nothing here validates.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Scalar = str | int | float | bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One box. `address` is `local` for the head, where sparkd runs; `data_address` is its address on the fabric."""

    name: str
    address: str
    user: str = "sparkd"
    port: int = 22
    key: str | None = None
    data_address: str | None = None

    @property
    def is_local(self) -> bool:
        return self.address == "local"


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Automatic group starts allowed: `starts` in `per` seconds and `per_day` in 24 h, then held (DESIGN 7)."""

    starts: int = 5
    per: float = 3600.0
    per_day: int = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """Pause before an automatic restart: `first`, doubling to `max`, `jitter` as a fraction, forgotten after `reset_after` of serving."""

    first: float = 15.0
    max: float = 900.0
    jitter: float = 0.25
    reset_after: float = 1800.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Every clock of supervision, in seconds. Defaults are the numbers of DESIGN sections 6 and 7."""

    period: float = 5.0
    budget: Budget = field(default_factory=Budget)
    backoff: Backoff = field(default_factory=Backoff)
    drift: str = "warn"
    dead_after: float = 30.0
    """An engine that says it is dead, or a rank that logged an exception, together with a failed canary."""
    stuck_after: float = 60.0
    """A rank's process in state T or D, together with a failed canary."""
    silent_after: float = 60.0
    """A peer silent on the fabric while SSH works, together with a failed canary."""
    suspect_after: float = 180.0
    stalled_after: float = 600.0
    """Canaries fail and no token moves: suspected, then acted on."""
    busy_after: float = 1800.0
    not_yet: float = 600.0
    """For this long after a node's boot a missing mount, link, Docker or GPU is `not yet`, never a failure."""
    notice_after: float = 60.0
    """A node unread for this long is worth a notice."""
    hold_recheck: float = 30.0
    resource_retries: tuple[float, ...] = (30.0, 60.0, 120.0)
    canary_timeout: float = 60.0
    """One canary may take this long before it counts as failed (vLLM answers one token in well under a second, queues included)."""
    node_deadline: float = 4.0
    """One look at one node may take this long; a mute node costs the loop no more than that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleanup:
    drop_caches: bool = True
    swapoff: bool = False
    remove_strays: str = "own"


@dataclass(frozen=True, slots=True, kw_only=True)
class Http:
    """The read-only listener for machines and browsers; `listen` is HOST:PORT, or empty for none."""

    listen: str = "127.0.0.1:9477"
    token_file: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    url: str
    secret_file: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Notify:
    urls: tuple[str, ...] = ()
    webhook: Webhook | None = None
    exec: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Paths:
    state: str = "/var/lib/sparkd"
    run: str = "/run/sparkd"
    node_read_roots: tuple[str, ...] = ("/var/log", "/etc/systemd")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """sparkd.yaml as a whole. `nodes` keep the order of the file: the first is the head."""

    cluster: str
    nodes: Mapping[str, Node]
    policy: Policy = field(default_factory=Policy)
    checks: Mapping[str, str] = field(default_factory=dict)
    cleanup: Cleanup = field(default_factory=Cleanup)
    http: Http = field(default_factory=Http)
    notify: Notify = field(default_factory=Notify)
    paths: Paths = field(default_factory=Paths)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """A bind mount; `source` is a path on the node, which must exist (a missing source must fail, never become an empty folder)."""

    source: str
    target: str
    read_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLimit:
    max_size: str = "50m"
    max_file: int = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerSpec:
    privileged: bool = True
    network: str = "host"
    ipc: str = "host"
    gpus: str | None = "all"
    shm_size: str | None = None
    devices: tuple[str, ...] = ()
    cap_add: tuple[str, ...] = ()
    ulimits: Mapping[str, int] = field(default_factory=dict)
    user: str | None = None
    workdir: str | None = None
    entrypoint: tuple[str, ...] | None = None
    mounts: tuple[Mount, ...] = ()
    log: LogLimit = field(default_factory=LogLimit)
    memory: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Start-up budgets in seconds: 45 min with cold caches, 30 warm (first boots of 40 minutes are normal)."""

    timeout: float = 2700.0
    warm_timeout: float = 1800.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """`grace`: seconds between SIGTERM and SIGKILL. A headless vLLM worker needs more than Docker's 10 (evidence 17a)."""

    grace: float = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Warmup:
    """The first real completion. `expect` may hold `reasoning: true` (a reasoning text) and `contains: TEXT` (in the answer)."""

    prompt: str = "Reply with the word ready."
    max_tokens: int = 16
    expect: Mapping[str, Any] = field(default_factory=dict)
    api: str = "chat"
    """chat | completions: a base model without a chat template answers only the latter. The canary uses the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """`canary_after`: seconds without a moving token before one canary request of one token is sent."""

    canary_after: float = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """One deployment file, its chosen profile already merged. `nodes` in rank order: rank 0 is the head.

    `args` values are scalars, lists (values repeated after one flag) or mappings (JSON); numbers keep their spelling as strings
    where YAML would lose it (`0.90`). `file` is where it came from, `digest` the sha256 of its canonical form.
    """

    name: str
    engine: str
    nodes: tuple[str, ...]
    runtime: str = "docker"
    hardware: str = "gb10"
    autostart: bool = False
    image: str | None = None
    user: str | None = None
    model: str = ""
    served_name: str | None = None
    port: int = 8000
    master_port: int = 29501
    command: tuple[str, ...] = ()
    container: ContainerSpec = field(default_factory=ContainerSpec)
    env: Mapping[str, str] = field(default_factory=dict)
    node_env: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict)
    """Name of an environment variable -> file that holds its value."""
    args: Mapping[str, Any] = field(default_factory=dict)
    profiles: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    profile: str | None = None
    mods: tuple[Any, ...] = ()
    markers: tuple[Mapping[str, Any], ...] = ()
    provides: Mapping[str, Any] = field(default_factory=dict)
    build_metadata: Mapping[str, Any] = field(default_factory=dict)
    start: Start = field(default_factory=Start)
    stop: Stop = field(default_factory=Stop)
    warmup: Warmup = field(default_factory=Warmup)
    health: Health = field(default_factory=Health)
    memory: Mapping[str, Any] = field(default_factory=dict)
    known_good: Mapping[str, Any] = field(default_factory=dict)
    after: tuple[str, ...] = ()
    requires: tuple[str, ...] = ()
    checks: Mapping[str, str] = field(default_factory=dict)
    policy: Policy = field(default_factory=Policy)
    """The cluster's policy with this file's overrides merged in."""
    file: str = ""
    digest: str = ""

    @property
    def workers(self) -> tuple[int, ...]:
        return tuple(range(1, len(self.nodes)))

    @property
    def api_name(self) -> str:
        """The model name that requests carry."""
        return self.served_name or self.model


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenDeployment:
    """A deployment file that cannot be used: this deployment alone is held, with every problem; the rest runs."""

    name: str
    file: str
    problems: tuple[str, ...]
