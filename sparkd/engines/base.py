"""What an engine is: from a deployment to argument vectors, and from an engine's own output to plain facts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources.abc import Traversable
from typing import Any, Protocol

from sparkd.model.config import Deployment, Node
from sparkd.model.log_finding import LogFinding
from sparkd.model.machine import Socket
from sparkd.model.printed import Unread
from sparkd.model.snapshot import EngineMetrics


@dataclass(frozen=True, slots=True)
class PortUse:
    """A TCP port that a rank opens on its node; `what` it is for, in a word or two: `api`, `master` …"""

    rank: int
    port: int
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """A value of a variable with which the engine fails."""

    name: str
    value: str
    instead: str
    """The value to set where an image, or what is around the rank, sets the other."""
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """A variable that says after how many seconds the engine itself gives up a start, and what it is where nobody sets it."""

    name: str
    default_s: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Variables:
    """Names in the environment of a rank that mean something to the engine."""

    own: str = ""
    """The beginning of the names that are the engine's own."""
    key: str | None = None
    """With this secret the engine wants a bearer token from every client, sparkd included."""
    address: str | None = None
    """The address at which the other ranks reach this one: its value is right on one node only."""
    caches: tuple[str, ...] = ()
    """They move its caches to other folders."""
    secret_flags: Mapping[str, str] = field(default_factory=dict)
    """Flag that holds a secret -> the variable that is read in its place."""
    broken: tuple[Broken, ...] = ()
    patience: Patience | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RankFlags:
    """Names of the flags that may differ between the ranks of a group."""

    number: str | None = None
    worker: str | None = None
    """The bare flag of a rank that serves no API."""
    given: tuple[str, ...] = ()
    """Flags that sparkd sets by itself, from keys of the deployment file."""
    api: tuple[str, ...] = ()
    """Flags that only the API server reads."""
    api_group: str | None = None
    """A group of the engine's parser whose flags only the API server reads, too."""

    def is_own(self, name: str, group: str | None) -> bool:
        """May ranks of one group differ in this flag?"""
        return name in (self.number, self.worker) or self.api_only(name, group)

    def api_only(self, name: str, group: str | None) -> bool:
        return name in self.api or (group is not None and group == self.api_group)


@dataclass(frozen=True, slots=True)
class MemoryNeed:
    """What one rank wants of its node before it starts, and by which figure the engine judges whether it is there."""

    bytes: int
    reads: str
    """free | available, as in /proc/meminfo"""
    why: str
    """How it comes about, in a clause."""


class Engine(Protocol):
    """One engine. Everything is pure; nothing raises on what an engine prints, however odd: where a value is and cannot be read,
    Unread stands in its place."""

    @property
    def name(self) -> str: ...

    @property
    def command(self) -> tuple[str, ...]:
        """Program and first words, where a deployment names none of its own."""
        ...

    @property
    def start_order(self) -> tuple[str, ...]:
        """`workers` and `head`, in the order they are started."""
        ...

    @property
    def reserved_args(self) -> frozenset[str]:
        """Names (with dashes) that `args` may not hold: sparkd adds them, or cannot work with them."""
        ...

    @property
    def stages(self) -> tuple[str, ...]:
        """Start-up stages in order; the last is `ready`."""
        ...

    @property
    def flags_file(self) -> Traversable | None:
        """The flag table that ships, as `flags.parse_table` reads it; None: flags are read by their looks."""
        ...

    @property
    def severities_file(self) -> Traversable | None:
        """How bad a change of its variables and flags is, in rows as `sparkd/drift/severities.toml` has them."""
        ...

    @property
    def parser_script(self) -> Traversable | None:
        """A program that the engine's own Python runs, and that prints such a table on stdout; None: it cannot be asked. Its one
        argument is the number of seconds after which it ends."""
        ...

    @property
    def rank_flags(self) -> RankFlags: ...

    @property
    def size_flag(self) -> str:
        """The argument that spreads the model over so many GPUs."""
        ...

    @property
    def share_flag(self) -> str | None:
        """The argument that is the share of the memory it takes: more than 0, at most 1."""
        ...

    @property
    def drain_flag(self) -> str | None:
        """The argument that is how many seconds a head goes on with its requests after SIGTERM; None: it never does."""
        ...

    @property
    def lost_json(self) -> str:
        """What becomes of a start whose flag `{}` wants JSON and gets none, in a clause."""
        ...

    @property
    def health_path(self) -> str:
        """A GET of it answers 200 when the engine says that it serves, 503 when it says that it is dead."""
        ...

    @property
    def metrics_path(self) -> str:
        """The page that `metrics` reads."""
        ...

    @property
    def keyed_page(self) -> str:
        """A page that the engine shows to nobody without its key, where it has one."""
        ...

    @property
    def variables(self) -> Variables: ...

    @property
    def stamped(self) -> tuple[str, ...]:
        """Files below a folder of Python packages, `*` for any name: what is another one after every installation, and what its
        parser is made of, for a mod may change that alone."""
        ...

    def argument_fix(self, name: str) -> str:
        """What to write instead of the reserved argument `name`."""
        ...

    def argv(self, deployment: Deployment, rank: int, nodes: Mapping[str, Node]) -> tuple[str, ...]:
        """The whole command of one rank. Raises KeyError for a node that is not in `nodes`."""
        ...

    def env(self, deployment: Deployment, rank: int, nodes: Mapping[str, Node]) -> dict[str, str]:
        """What the engine needs in a rank's environment besides the deployment's own; the deployment's wins."""
        ...

    def ports(self, deployment: Deployment) -> tuple[PortUse, ...]: ...

    def world_size(self, args: Mapping[str, Any]) -> int | None:
        """Processes with a GPU each over all ranks, or None when `args` do not say it in whole numbers."""
        ...

    def stage(self, titles: Sequence[str], lines: Sequence[str], health: int | None) -> str | None:
        """How far a start has come, by titles and log lines of any ranks and the status of /health; None: not begun."""
        ...

    @property
    def stage_words(self) -> Mapping[str, str]:
        """Stage -> what goes on in it, for sentences: `loading weights`."""
        ...

    def meeting(self, titles: Sequence[str]) -> str | None:
        """By the titles of one rank's processes: `waits` for other ranks, has `met` them, or None where they do not say."""
        ...

    def findings(self, lines: Iterable[str]) -> tuple[LogFinding, ...]:
        """What a log says of trouble, each once, in the order they first appeared; of which rank it is, the reader knows."""
        ...

    @property
    def pages(self) -> tuple[str, ...]:
        """Paths of the API that say how the engine runs."""
        ...

    def arguments(self, lines: Iterable[str]) -> dict[str, Any] | None:
        """Flag -> value (or Unread), as the first lines of its log say what it was given; None where they do not."""
        ...

    def in_use(self, lines: Iterable[str]) -> dict[str, Any]:
        """Flag -> what became of it (or Unread), and `version`, by its log."""
        ...

    def page(self, path: str, answer: Any) -> dict[str, Any]:
        """The same by one of `pages`."""
        ...

    def metrics(self, text: str) -> EngineMetrics | None | Unread:
        """Progress from the engine's metrics page, by presence; None when the page shows no token counter, Unread when one of them
        is no number: `nan` is another than itself, and would be progress at every look."""
        ...

    def completion(
        self, deployment: Deployment, prompt: str, max_tokens: int, whole: bool = False
    ) -> tuple[str, dict[str, Any]]:
        """(path, JSON body) of one streamed completion. `whole`: of all of these tokens, whatever the model would end with."""
        ...

    def memory(self, deployment: Deployment, total_bytes: int) -> MemoryNeed:
        """What a rank needs on a node with so much memory. Unknown needs count as nothing: the engine itself checks later."""
        ...

    def widowed(self, sockets: Iterable[Socket], deployment: Deployment) -> bool:
        """Do a worker's sockets show that its head is gone?"""
        ...


def base_url(deployment: Deployment, nodes: Mapping[str, Node]) -> str:
    """Where sparkd reaches the API from its own node: loopback, or the management address where rank 0 is on another node."""
    node = nodes[deployment.nodes[0]]
    host = "127.0.0.1" if node.is_local else node.address
    return f"http://[{host}]:{deployment.port}" if ":" in host else f"http://{host}:{deployment.port}"
