"""stop: nothing of it is to run until somebody starts it."""

from __future__ import annotations

from dataclasses import replace

from sparkd.model.decision import Intent, Phase, State
from sparkd.verbs import Option, Options, Shown, Verb, Wish, while_paused

LOST = Option(
    "assume_lost",
    "This node is switched off for good: count what ran there as dead, unseen. Repeatable.",
    nodes=True,
    effect="{node} is declared lost: what runs there counts as dead, unseen. Only right if it is switched off.",
    answering="But {node} answers right now.",
)


def _changes(intent: Intent, given: Options) -> Intent:
    return replace(intent, wanted="stopped", lost=intent.lost | frozenset(given.get("assume_lost", ())), unread=False)


def _progress(_wish: Wish, intent: Intent, state: State) -> tuple[str, str]:
    if intent.wanted != "stopped":
        return "failed", "another operation took its place"
    return ("done" if state.phase is Phase.STOPPED and state.reason == "stopped" else "running"), state.sentence


def _goal(shown: Shown) -> bool:
    return shown.phase == Phase.STOPPED and shown.wanted == "stopped"


VERB = Verb(
    name="stop",
    place=20,
    help="""Stop all its ranks; it stays down until somebody starts it.

That survives restarts of sparkd and reboots. Asks first.""",
    examples=(
        "sparkd ctl stop --wait --yes",
        'sparkd ctl stop --assume-lost spark2 -m "power supply is dead"',
    ),
    takes=(LOST,),
    asks=True,
    effect="stop {name}: its ranks on {nodes} end, and it stays down until somebody starts it",
    ends=True,
    event="stopping",
    conflict=while_paused,
    changes=_changes,
    progress=_progress,
    goal=_goal,
    already="stopped",
)
