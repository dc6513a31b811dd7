"""What a check looks at: configuration, the last look of the loop, the facts it needs, and the answers to its questions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from sparkd.drift.report import Drift
from sparkd.engines.flags import FlagTable
from sparkd.engines.tables import SHIPPED, Tables
from sparkd.facts import Fact
from sparkd.model.check import Level
from sparkd.model.config import Cluster, Deployment
from sparkd.model.decision import FailureClass
from sparkd.model.hiding import BY_NAME, Hiding
from sparkd.model.place import HOST, Place
from sparkd.model.snapshot import NodeView, Unknown

__all__ = [
    "HOST",
    "Answer",
    "Ask",
    "Changes",
    "Check",
    "Look",
    "Page",
    "Place",
    "Scene",
    "Space",
    "Text",
    "Trouble",
    "always",
    "nothing",
]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Look:
    """What is at this path? Answered with `file`, `dir`, `other`, `missing` or `unreadable`; links are followed."""

    node: str
    place: Place
    path: str


@dataclass(frozen=True, slots=True)
class Text:
    """What does this file say? Answered with at most 1 MiB of it, or None where there is no such file."""

    node: str
    place: Place
    path: str


@dataclass(frozen=True, slots=True)
class Space:
    """Which file system is below this path of the host? Answered with the line of the `disks` probe."""

    node: str
    path: str
    place: Place = HOST


@dataclass(frozen=True, slots=True)
class Changes:
    """What of a container's own layer could an engine load? Answered with JSON, see `Inside.changes`."""

    node: str
    place: Place
    path: str = "/"


@dataclass(frozen=True, slots=True)
class Page:
    """How does the engine's API at this place answer GET `path` without a key? Answered with the status, as text."""

    node: str
    place: Place
    path: str


Ask = Look | Text | Changes | Space | Page
Answer = str | None | Unknown


@dataclass(frozen=True, slots=True)
class Trouble:
    """What a check has to say. How bad it is comes from the check's level; `mild` is a warning at any level."""

    node: str | None
    text: str
    fix: str
    evidence: tuple[str, ...] = ()
    rank: int | None = None
    mild: bool = False
    not_yet: bool = False
    passing: bool = False
    """The trouble is about something that sparkd itself ends before a start: it is true only until then."""


@dataclass(frozen=True, slots=True)
class Scene:
    """Everything one run of the checks may look at. `facts` and `answers` hold Unknown where it could not be read."""

    cluster: Cluster
    deployment: Deployment
    owner: str
    running: bool
    """Ranks of this deployment run, or are being started: their own ports and memory are theirs."""
    nodes: Mapping[str, NodeView]
    """The loop's last look at the deployment's nodes."""
    facts: Mapping[tuple[str, str], object] = field(default_factory=dict)
    """(node, name of the fact) -> value or Unknown."""
    answers: Mapping[Ask, Answer] = field(default_factory=dict)
    parser: FlagTable | None = None
    """What the engine's own parser says; None where it could not be asked yet."""
    unasked: str = ""
    """Why `parser` is None."""
    engine_id: str | None = None
    """Where more than the image decides which engine it is, see RankForm."""
    tables: Tables = SHIPPED
    """The tables by which arguments are read: those of this engine, and of every other one on the nodes."""

    says: Mapping[tuple[str, str], Mapping[str, Any] | Unknown] = field(default_factory=dict)
    """(node, container or unit of an engine) -> what it says of itself, see `sparkd.drift.said`."""

    secrets: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Name of a secret whose file holds no value for it -> why, and what to do about it."""

    veil: Hiding = BY_NAME
    """Knows the values of the deployment's secrets, where the caller has read them."""

    longest_start_s: float | None = None
    """The most that a start of this profile ever took, None where none is known: before the first, and without a daemon."""

    drift: Drift | Unknown | None = None
    """What the next start differs in from what worked; None where nothing is recorded."""

    def fact(self, node: str, fact: Fact[T]) -> T | Unknown:
        found = self.facts.get((node, fact.name))
        return Unknown("not asked", 0.0) if found is None else cast(T | Unknown, found)

    def each(self, fact: Fact[T]) -> Iterator[tuple[str, T]]:
        """(node, value) in rank order, of the nodes where it could be read: the others are reported as unknown."""
        for node in self.deployment.nodes:
            value = self.fact(node, fact)
            if not isinstance(value, Unknown):
                yield node, value

    def answer(self, ask: Ask) -> Answer:
        return self.answers.get(ask, Unknown("not asked", 0.0))

    def missing(self, ask: Look) -> bool:
        """Known not to be there. Unknown is not missing."""
        return self.answer(ask) == "missing"


def nothing(scene: Scene) -> Iterator[Ask]:
    return iter(())


def always(deployment: Deployment) -> bool:
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One check. `evaluate` yields its troubles and nothing for nodes where all is well; it never raises for odd facts."""

    code: str
    order: int
    """Where it is shown: checks with lower numbers come first. In tens, so that another one fits in between."""
    level: Level
    """Unless the configuration says otherwise."""
    description: str
    """One sentence: what is looked for and why it matters."""
    evaluate: Callable[[Scene], Iterator[Trouble]]
    needs: tuple[Fact[Any], ...] = ()
    reads: tuple[str, ...] = ()
    """Fields of NodeView that it reads: unknown there is unknown here, never ok."""
    asks: Callable[[Scene], Iterator[Ask]] = nothing
    """Questions that follow from the facts: paths named by units, files in images. Asked after `needs` were read."""
    applies: Callable[[Deployment], bool] = always
    cls: FailureClass = FailureClass.PERMANENT
