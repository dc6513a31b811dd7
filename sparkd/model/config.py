"""Configuration as frozen values. Field names are the keys of the YAML files; durations are seconds, sizes bytes.

Built by `sparkd.settings`, which reports every problem with file and line; nothing here validates.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from sparkd.model.container import ContainerSpec as ContainerSpec
from sparkd.model.container import LogLimit as LogLimit
from sparkd.model.container import Mount as Mount
from sparkd.model.memory_trail import MemorySettings
from sparkd.model.policy import Backoff as Backoff
from sparkd.model.policy import Budget as Budget
from sparkd.model.policy import Health as Health
from sparkd.model.policy import Policy as Policy
from sparkd.model.policy import Start as Start
from sparkd.model.policy import Stop as Stop
from sparkd.model.policy import Tokens
from sparkd.model.power import Power as Power

Scalar = str | int | float | bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One box, and how it is reached."""

    name: str
    address: str
    """`local` for the head; for the others the host name or IP address where SSH answers."""
    user: str = "sparkd"
    """Login on the node."""
    port: int = 22
    """Port of the node's SSH server."""
    key: str | None = None
    """File on the head with the private key; without it, what SSH finds in the home of sparkd's user."""
    data_address: str | None = None
    """IP address on the fabric, where ranks meet; needed by a node of a deployment on several."""
    power: Power | None = None
    """How its power is taken and given back, where that can be done from afar; without it, a person walks there."""

    @property
    def is_local(self) -> bool:
        return self.address == "local"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleanup:
    """Done on every node of a group once its last generation is verified gone."""

    drop_caches: bool = True
    """Give the page cache back before a start: on GB10 it is memory that the engine wants."""
    swapoff: bool = False
    """Switch swap off before a start."""
    remove_strays: str = "own"
    """Engine processes of no current generation: remove those proven to be sparkd's `own`, also the `holders` of its ports, or `never`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Http:
    """The listener for machines and browsers."""

    listen: str = "127.0.0.1:9477"
    """HOST:PORT, or empty for none."""
    token_file: str | None = None
    """File with a token of at least 16 bytes; who sends it as bearer may also start and stop. Without it: read only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """Where notices are posted, and how the receiver knows that they are genuine."""

    url: str
    """Notices are posted there as JSON."""
    secret_file: str | None = None
    """File with the secret that signs them (`X-Sparkd-Signature`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notify:
    """Notices of what goes down, comes back, or needs a person."""

    urls: tuple[str, ...] = ()
    """Service URLs; this version delivers to none."""
    webhook: Webhook | None = None
    """One web address that notices are posted to."""
    exec: tuple[str, ...] = ()
    """Programs, by their paths, that are run for a notice and get it as JSON on standard input."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reload:
    """When the configuration is read again, besides `sparkd ctl reload`."""

    watch: bool = False
    """Read the configuration again by itself, whenever one of its files was changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Paths:
    """Folders, from `/`."""

    state: str = "/var/lib/sparkd"
    """Folder of the journal and of what was saved of failed generations."""
    run: str = "/run/sparkd"
    """Folder of the API's socket."""
    node_read_roots: tuple[str, ...] = ("/var/log", "/etc/systemd")
    """Folders on the nodes whose files checks may read: those of `markers` and `build_metadata` in a mount, or of ranks without a
    container. A node whose `/etc/sparkd/node.json` has `read_roots` goes by these instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """sparkd.yaml as a whole. `nodes` keep the order of the file: the first is the head."""

    cluster: str
    """The cluster's name, shown everywhere."""
    nodes: Mapping[str, Node]
    """Node by name; the first is the head, where sparkd runs."""
    policy: Policy = field(default_factory=Policy)
    """Clocks and limits of supervision, for every deployment that has none of its own."""
    checks: Mapping[str, str] = field(default_factory=dict)
    """Code of a check -> `off`, `warn` or `fail`."""
    cleanup: Cleanup = field(default_factory=Cleanup)
    """What is tidied on the nodes before a start."""
    memory: MemorySettings = field(default_factory=MemorySettings)
    """What is done when the memory of a node runs out."""
    http: Http = field(default_factory=Http)
    """Metrics, status page and API for machines and browsers."""
    notify: Notify = field(default_factory=Notify)
    """Who is told when something goes down, comes back, or needs a person."""
    reload: Reload = field(default_factory=Reload)
    """When these files are read again."""
    paths: Paths = field(default_factory=Paths)
    """Where sparkd keeps what it knows, and what it may read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Warmup:
    """The first real completion: only a correct answer, streamed to its end, makes a group serve."""

    prompt: str = "Reply with the word ready."
    """A question with a short answer."""
    max_tokens: Tokens = 16
    """The answer is cut there; a model that thinks first needs some hundreds."""
    expect: Mapping[str, Any] = field(default_factory=dict)
    """What the answer must have: `reasoning: true`, a reasoning text; `contains: TEXT`, this text."""
    api: str = "chat"
    """A base model without a chat template answers only `completions`. The canary uses the same."""


LAUNCH = (
    *("name", "engine", "runtime", "hardware", "nodes", "image", "user", "model", "served_name", "port", "master_port"),
    *("command", "container", "env", "node_env", "secrets", "args", "mods"),
)
"""Keys of a deployment that shape its ranks. What differs here is `restart pending`; `digest` covers these."""

LIVE = ("autostart", "start", "stop", "health", "memory", "after", "requires", "checks", "policy", "file")
"""Keys that count at once, whatever runs: how it is watched, not what it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """One deployment file, its chosen profile already merged. `nodes` in rank order: rank 0 is the head.

    `args` values are scalars, lists (values repeated after one flag) or mappings (JSON); numbers keep their spelling as strings
    where YAML would lose it (`0.90`). `file` is where it came from, `digest` the sha256 of its canonical form.
    """

    name: str
    """What people and scripts call it: small letters, digits and dashes."""
    engine: str
    """What runs: `vllm`."""
    nodes: tuple[str, ...]
    """Names of sparkd.yaml in the order of the ranks: the first runs rank 0, the head of the group."""
    runtime: str = "docker"
    """How ranks are run: `docker` in containers, `process` as systemd units of their nodes."""
    hardware: str = "gb10"
    """`gb10`: one GPU a node, its memory the node's; `gpu`: any number; `cpu`: none."""
    autostart: bool = False
    """A new file's deployment is started by itself; otherwise a person does it once. A stop by hand outlives it."""
    image: str | None = None
    """Image that runtime docker runs, REGISTRY/NAME:TAG."""
    user: str | None = None
    """User whom ranks of runtime process run as; needed there."""
    model: str = ""
    """Path of the model as the rank sees it, or its name on the hub."""
    served_name: str | None = None
    """Name that requests carry; without it, `model`."""
    port: int = 8000
    """Port of the engine's API on the first node."""
    master_port: int = 29501
    """Port on the first node where the ranks meet."""
    command: tuple[str, ...] = ()
    """Program and first arguments in place of the engine's own command; runtime process needs it, with a path from `/`."""
    container: ContainerSpec = field(default_factory=ContainerSpec)
    """The container of every rank."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Environment of every rank; values are texts, written as they are."""
    node_env: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Node -> environment of the rank there, over `env`."""
    secrets: Mapping[str, str] = field(default_factory=dict)
    """Name of an environment variable -> file that holds its value: UTF-8 text; the line end at its end is not part of it."""
    args: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of the engine without dashes in front, `a_b` being `a-b`: true is the bare flag, false is `--no-…`,
    null leaves it out, a list repeats values, a mapping is passed as JSON."""
    profiles: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Name -> keys of this file that it changes, merged over them."""
    profile: str | None = None
    """The profile that is used unless a person chose another."""
    mods: tuple[Any, ...] = ()
    """Changes to the image; this version applies none, bake them in."""
    markers: tuple[Mapping[str, Any], ...] = ()
    """Files that must be as they should: `path` as the rank sees it, and `pattern` with `count`, or `key` with `equals`."""
    provides: Mapping[str, Any] = field(default_factory=dict)
    """What the image must have: `modules` of Python, `binaries`."""
    build_metadata: Mapping[str, Any] = field(default_factory=dict)
    """A file of the image that says how it was built: `path`, and in `equals` what it must say."""
    start: Start = field(default_factory=Start)
    """How long a start may take."""
    stop: Stop = field(default_factory=Stop)
    """How a stop is done."""
    warmup: Warmup = field(default_factory=Warmup)
    """The request that proves that the engine answers."""
    health: Health = field(default_factory=Health)
    """How a silent engine is asked whether it lives."""
    memory: Mapping[str, Any] = field(default_factory=dict)
    """The gate before a start: `gate: auto` or `off`, and `reserve` for what is no engine memory on the `head` and on a `worker`;
    `guard: {below, act}`, over sparkd.yaml's."""
    known_good: Mapping[str, Any] = field(default_factory=dict)
    """Figures measured when all was well, such as `decode_tokens_per_second`."""
    after: tuple[str, ...] = ()
    """Deployments that must serve before this one is started."""
    requires: tuple[str, ...] = ()
    """The same, and a restart of theirs restarts this one."""
    checks: Mapping[str, str] = field(default_factory=dict)
    """Over those of sparkd.yaml."""
    policy: Policy = field(default_factory=Policy)
    """Over sparkd.yaml's, number by number."""
    file: str = ""
    digest: str = ""

    @property
    def workers(self) -> tuple[int, ...]:
        return tuple(range(1, len(self.nodes)))

    @property
    def sources(self) -> dict[str, str]:
        """What must be on every node before a start: path -> what it is for."""
        if self.runtime == "docker":
            mounted = {mount.source: f"mounted at {mount.target}" for mount in self.container.mounts}
            return {**dict.fromkeys(self.devices, "a device of the container"), **mounted}
        found = {self.command[0]: "the command"} if self.command else {}
        if self.container.workdir is not None:
            found[self.container.workdir] = "the working folder"
        return {**found, self.model: "the model"} if self.model.startswith("/") else found

    @property
    def devices(self) -> tuple[str, ...]:
        """Device files that must be on every node. A privileged container gets those that there are."""
        asked = self.runtime == "docker" and not self.container.privileged
        return tuple(one.partition(":")[0] for one in self.container.devices) if asked else ()

    @property
    def api_name(self) -> str:
        """The model name that requests carry."""
        return self.served_name or self.model


def as_started(started: Deployment | None, wanted: Deployment) -> Deployment:
    """What runs is judged as it was started, whatever its file (`wanted`) says by now: other nodes, other ports."""
    if started is None or started.digest == wanted.digest:
        return wanted
    return replace(started, **{key: getattr(wanted, key) for key in LIVE})


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenDeployment:
    """A deployment file that cannot be used: this deployment alone is held, with every problem; the rest runs."""

    name: str
    file: str
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """A configuration directory. `files` are all that were read. A name is in `deployments` or in `broken`, never in both."""

    cluster: Cluster
    deployments: tuple[Deployment, ...]
    broken: tuple[BrokenDeployment, ...] = ()
    files: tuple[str, ...] = ()
