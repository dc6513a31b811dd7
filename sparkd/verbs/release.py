"""release: what is held is tried again."""

from __future__ import annotations

from dataclasses import replace

from sparkd.model.decision import Intent, Phase, State
from sparkd.verbs import Options, Verb, coming_up, serves, while_paused, while_planned


def _conflict(intent: Intent, state: State) -> tuple[str, str] | None:
    if refused := while_paused(intent, state) or while_planned(state):
        return refused
    if state.phase not in (Phase.HELD, Phase.BACKOFF):
        return f"it is not held, its phase is {state.phase.value}", ""
    return None


def _changes(intent: Intent, _given: Options) -> Intent:
    return replace(intent, release=intent.release + 1)


VERB = Verb(
    name="release",
    place=60,
    help="""Try again after a hold, once its cause is fixed.

Needed only for holds that do not heal by themselves; `status` says which.""",
    examples=('sparkd ctl release --wait -m "cable replaced"',),
    effect="release {name} from its hold and try again, with a fresh restart budget",
    event="released",
    conflict=_conflict,
    changes=_changes,
    progress=coming_up,
    goal=serves,
)
