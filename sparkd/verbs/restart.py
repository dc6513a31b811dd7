"""restart: all ranks end together and start as a new generation."""

from __future__ import annotations

from dataclasses import replace

from sparkd.model.decision import Intent, State
from sparkd.verbs import Option, Options, Verb, Wish, coming_up, serves, while_paused, while_planned
from sparkd.verbs.start import FORCE

CLEAN = Option(
    "clean",
    "Empty its compile caches first, on every node.",
    effect="Its compile caches are emptied first, so this start takes as long as the very first one.",
)


def _conflict(intent: Intent, state: State) -> tuple[str, str] | None:
    return while_paused(intent, state) or while_planned(state)


def _changes(intent: Intent, given: Options) -> Intent:
    restart, forced = intent.restart + 1, bool(given.get("force"))
    clean = restart if given.get("clean") else intent.clean
    return replace(intent, wanted="up", restart=restart, clean=clean, forced=forced, unread=False)


def _progress(wish: Wish, intent: Intent, state: State) -> tuple[str, str]:
    """What serves is the old generation until there is a new one."""
    stands, sentence = coming_up(wish, intent, state)
    return ("running" if stands == "done" and state.generation <= wish.generation else stands), sentence


VERB = Verb(
    name="restart",
    place=30,
    help="""Stop all its ranks, and start them as a new generation.

Costs nothing of the restart budget. Asks first. Caches that --clean
empties are those in its mounts, such as .cache/vllm, never models.""",
    examples=('sparkd ctl restart --wait -m "new image"',),
    takes=(FORCE, CLEAN),
    asks=True,
    effect="restart {name}: its ranks on {nodes} end together and start again as generation {next}",
    starts=True,
    event="restart-asked",
    conflict=_conflict,
    changes=_changes,
    progress=_progress,
    goal=serves,
)
