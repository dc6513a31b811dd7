"""States and outages to the text of their rows and back. The key of an outage begins with its time: their orders are the same."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from functools import lru_cache

from sparkd.base.json_codec import Undecodable, decode, encode
from sparkd.journal import earlier
from sparkd.journal.moment import Moment, shift_s, shifted
from sparkd.model.decision import Intent, State
from sparkd.model.outage import Outage

OUTAGES = 5_000
"""Kept of all deployments together; with one a day that is more than ten years."""


def state_text(state: State, saved: Moment) -> str:
    return json.dumps({"state": encode(state), **asdict(saved)})


def state_from(text: str, loaded: Moment) -> State:
    """The state, its times on the clock of the boot of `loaded`. Raises Undecodable, ValueError, KeyError, TypeError."""
    row = json.loads(text)
    by_s = shift_s(Moment(row["boot"], row["at"], row["wall"]), loaded)
    return shifted(decode(State, earlier.state(row["state"])), by_s)


def intent_from(text: str) -> Intent:
    """What was wanted. Raises Undecodable, ValueError, RecursionError, also where only one word of it cannot be read: the default
    in its place would be another wish (a pause ended, a stop), and nobody had said that."""
    intent = decode(Intent, json.loads(text), must=("wanted", "paused", "lost"))
    if intent.wanted not in ("up", "stopped"):
        raise Undecodable(f"{intent.wanted!r} is neither up nor stopped")
    return intent


def with_outage(rows: Mapping[str, str], name: str, outage: Outage) -> dict[str, str | None]:
    """What to write so that this one is kept, and not too many are. The same one again is the same row."""
    key = f"{max(0.0, outage.began_wall):017.3f} {name}"
    too_many = max(0, len(rows.keys() | {key}) - OUTAGES)
    return {key: json.dumps(encode(outage)), **dict.fromkeys(sorted(rows.keys() - {key})[:too_many])}


def outages_from(rows: Mapping[str, str]) -> list[tuple[str, Outage]]:
    """(deployment, outage) in their order. One that cannot be read is left out: it must not cost all the others."""
    found = ((key.partition(" ")[2], _outage(text)) for key, text in sorted(rows.items()))
    return [(name, outage) for name, outage in found if outage is not None]


@lru_cache(maxsize=OUTAGES)
def _outage(text: str) -> Outage | None:
    try:
        return decode(Outage, json.loads(text))
    except (Undecodable, ValueError, RecursionError):
        return None
