"""What people can ask of a deployment: one small pure file a verb, named like it.

A new verb is one file here with a `VERB`. What the API accepts, what `sparkd ctl` offers, explains, completes, asks and
waits for, the manual, and who is named in the history all follow from it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Protocol

from sparkd.base import listed
from sparkd.model.decision import Intent, Phase, State

Options = Mapping[str, Any]
"""Key of an option -> what was given: True for a switch, or names of nodes. What was not given is not in it."""


@dataclass(frozen=True, slots=True)
class Option:
    """What can be given with a verb: a key in the body of a request, an option on the command line."""

    key: str
    help: str
    nodes: bool = False
    """It takes names of nodes and can be repeated; all others are switches."""
    effect: str = ""
    """A sentence of what will happen because of it; with `nodes` one for each {node}."""
    answering: str = ""
    """What to say as well of a {node} that answers."""

    @property
    def flag(self) -> str:
        return f"--{self.key.replace('_', '-')}"


@dataclass(frozen=True, slots=True)
class Wish:
    """One accepted operation. `asked_at` is on the daemon's clock, `generation` the one that ran when it was asked."""

    id: str
    deployment: str
    verb: str
    asked_at: float
    generation: int


class Shown(Protocol):
    """A deployment as the status shows it."""

    @property
    def wanted(self) -> str: ...
    @property
    def phase(self) -> str: ...
    @property
    def serving(self) -> bool: ...
    @property
    def paused(self) -> bool: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Verb:
    """All there is to know of one verb."""

    name: str
    place: int
    """Verbs are listed in the order of this number."""
    help: str
    """The first paragraph is one sentence: lists of commands show it."""
    examples: tuple[str, ...]
    takes: tuple[Option, ...] = ()
    asks: bool = False
    """It ends answers or supervision, so a person has to confirm it."""
    effect: str
    """Completes "would …"; knows {name}, {nodes} and {next}, the number of the next generation."""
    starts: bool = False
    """It starts ranks: from a file that can be used, on nodes that are cleaned first, unless a check fails."""
    ends: bool = False
    """It is done as well when the deployment is gone for good."""
    event: str
    """The kind of event that history has of it; such events name who asked, and why."""
    conflict: Callable[[Intent, State], tuple[str, str] | None]
    """(reason, fix) why it makes no sense now, or None. The fix may have {name}."""
    changes: Callable[[Intent, Options], Intent]
    """The intent after it; who asked, why and when is in there already."""
    progress: Callable[[Wish, Intent, State], tuple[str, str]]
    """(`running` | `done` | `failed`, sentence)."""
    goal: Callable[[Shown], bool]
    """Whether it has come true, as far as the status tells: for a daemon that was restarted and forgot the wish."""
    already: str = ""
    """What a deployment is at its goal, where asking again would change nothing."""


@cache
def verbs() -> Mapping[str, Verb]:
    """Name -> verb, of every file in this folder."""
    table: list[Verb] = listed.each(__name__, __path__, "VERB", lambda verb: verb.name)
    return {one.name: one for one in sorted(table, key=lambda one: one.place)}


def options() -> Mapping[str, Option]:
    """Key -> option, of all verbs."""
    return {one.key: one for verb in verbs().values() for one in verb.takes}


def changed(intent: Intent, verb: Verb, given: Options, by: str, message: str, at: float) -> Intent:
    """The intent after this verb. `at` is Unix time."""
    return verb.changes(replace(intent, by=by, message=message, at=at), given)


def progress(wish: Wish, intent: Intent | None, state: State | None) -> tuple[str, str]:
    """(`running` | `done` | `failed`, sentence) of an operation; intent and state are None once its deployment is gone."""
    verb = verbs()[wish.verb]
    if intent is None or state is None:  # only one of which nothing runs is let go of
        return "done" if verb.ends else "failed", "it has no usable file and nothing of it runs: removed"
    return verb.progress(wish, intent, state)


# ---------------------------------------------------------------------------------------- what several verbs have in common


def while_paused(intent: Intent, _state: State) -> tuple[str, str] | None:
    """The conflict of what would start or stop something."""
    return ("it is paused: sparkd acts on nothing", "sparkd ctl resume {name}") if intent.paused else None


def while_planned(state: State) -> tuple[str, str] | None:
    """The conflict of what would start something now that is stopped for planned work on a node."""
    kind, _, node = state.hold.fact.partition(":") if state.hold is not None else ("", "", "")
    if kind != "maintenance" or state.phase is not Phase.HELD:
        return None
    return f"{node} is under maintenance, and it goes on by itself after that", f"sparkd ctl maintenance {node} --end"


def coming_up(wish: Wish, intent: Intent, state: State) -> tuple[str, str]:
    """The progress of what ends with answers."""
    if intent.wanted != "up":
        return "failed", "it was stopped meanwhile"
    if state.phase is Phase.HELD and state.since > wish.asked_at:
        return "failed", state.sentence
    handled = state.restart_done >= intent.restart and state.release_done >= intent.release
    return ("done" if state.phase is Phase.SERVE and handled else "running"), state.sentence


def serves(shown: Shown) -> bool:
    """The goal of what ends with answers."""
    return shown.serving and shown.wanted == "up"
