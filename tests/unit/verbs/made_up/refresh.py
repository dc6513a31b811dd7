"""refresh: a verb that there is not, made of this one file."""

from __future__ import annotations

from dataclasses import replace

from sparkd.model.decision import Intent, Phase, State
from sparkd.verbs import Option, Options, Shown, Verb, Wish

GENTLY = Option("gently", "Leave its caches as they are.", effect="Its caches stay as they are.")


def _conflict(intent: Intent, _state: State) -> tuple[str, str] | None:
    return ("it is paused, and stays stale", "sparkd ctl resume {name}") if intent.paused else None


def _changes(intent: Intent, given: Options) -> Intent:
    asked = intent.restart + 1
    return replace(intent, wanted="up", restart=asked, clean=intent.clean if given.get("gently") else asked)


def _progress(_wish: Wish, intent: Intent, state: State) -> tuple[str, str]:
    fresh = state.phase is Phase.SERVE and state.restart_done >= intent.restart
    return ("done", "fresh as the morning") if fresh else ("running", state.sentence)


def _goal(shown: Shown) -> bool:
    return shown.phase == Phase.WARMUP


VERB = Verb(
    name="refresh",
    place=35,
    help="""Start it anew with empty caches.

Nobody needs that.""",
    examples=("sparkd ctl refresh --wait",),
    takes=(GENTLY,),
    asks=True,
    effect="refresh {name} on {nodes} as generation {next}",
    starts=True,
    event="restart-asked",
    conflict=_conflict,
    changes=_changes,
    progress=_progress,
    goal=_goal,
    already="fresh",
)
