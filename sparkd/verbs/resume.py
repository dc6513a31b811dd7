"""resume: a pause ends."""

from __future__ import annotations

from dataclasses import replace

from sparkd.model.decision import Intent, Phase, State
from sparkd.verbs import Options, Shown, Verb, Wish


def _conflict(intent: Intent, _state: State) -> tuple[str, str] | None:
    return None if intent.paused else ("it is not paused", "")


def _changes(intent: Intent, _given: Options) -> Intent:
    return replace(intent, paused=False)


def _progress(_wish: Wish, _intent: Intent, state: State) -> tuple[str, str]:
    return ("running" if state.phase in (Phase.PAUSED, Phase.ADOPTING) else "done"), state.sentence


def _goal(shown: Shown) -> bool:
    return shown.phase not in (Phase.PAUSED, Phase.ADOPTING)


VERB = Verb(
    name="resume",
    place=50,
    help="End a pause: sparkd looks, takes over what runs, acts again.",
    examples=("sparkd ctl resume --wait",),
    effect="resume {name}: sparkd supervises it again",
    event="resumed",
    conflict=_conflict,
    changes=_changes,
    progress=_progress,
    goal=_goal,
)
