"""start: it is wanted up from now on."""

from __future__ import annotations

from dataclasses import replace

from sparkd.model.decision import Intent
from sparkd.verbs import Option, Options, Verb, coming_up, serves, while_paused

FORCE = Option("force", "Also where it differs from what worked, and that may break it.")


def _changes(intent: Intent, given: Options) -> Intent:
    """It also releases: a person who asks for a start wants it tried now."""
    release, forced = intent.release + 1, bool(given.get("force"))
    return replace(intent, wanted="up", release=release, lost=frozenset(), forced=forced, unread=False)


VERB = Verb(
    name="start",
    place=10,
    help="Start it, and keep it up from now on.",
    examples=("sparkd ctl start --wait",),
    takes=(FORCE,),
    effect="start {name} on {nodes} and keep it up",
    starts=True,
    event="start-asked",
    conflict=while_paused,
    changes=_changes,
    progress=coming_up,
    goal=serves,
    already="serving",
)
