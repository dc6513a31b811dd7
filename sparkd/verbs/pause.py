"""pause: sparkd looks and does nothing."""

from __future__ import annotations

from dataclasses import replace

from sparkd.model.decision import Intent, Phase, State
from sparkd.verbs import Options, Shown, Verb, Wish


def _conflict(_intent: Intent, _state: State) -> None:
    """None ever: a second pause may have another reason to keep."""


def _changes(intent: Intent, _given: Options) -> Intent:
    return replace(intent, paused=True)


def _progress(_wish: Wish, _intent: Intent, state: State) -> tuple[str, str]:
    return ("done" if state.phase is Phase.PAUSED else "running"), state.sentence


def _goal(shown: Shown) -> bool:
    return shown.paused and shown.phase == Phase.PAUSED


VERB = Verb(
    name="pause",
    place=40,
    help="""Keep looking, but do nothing to it: for work by hand.

What runs goes on running. Lasts until `resume`. Asks first.""",
    examples=('sparkd ctl pause -m "trying other flags by hand"',),
    asks=True,
    effect="pause {name}: sparkd looks, but starts and stops nothing of it until it is resumed",
    event="paused",
    conflict=_conflict,
    changes=_changes,
    progress=_progress,
    goal=_goal,
    already="paused",
)
