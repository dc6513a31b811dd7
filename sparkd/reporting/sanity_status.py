"""What the answers of a deployment are worth -> the JSON of its status. Pure."""

from __future__ import annotations

from typing import Any

from sparkd.model.decision import State
from sparkd.model.words import rfc3339


def sanity_status(state: State) -> dict[str, Any] | None:
    """`sanity` of a deployment; null where none of its answers was judged. `ok`: the last one of this generation made sense,
    null before there is one."""
    known = state.sanity
    mine = known.generation == state.generation and known.wall > 0
    if not mine and known.known is None:
        return None
    good = known.known
    return {
        "ok": not known.bad if mine else None,
        "at": rfc3339(known.wall) if mine else None,
        "text": known.text if mine else None,
        "why": (known.why or None) if mine else None,
        "in_a_row": known.bad if mine else 0,
        "known_good": good and {"text": good.text, "at": rfc3339(good.wall), "generation": good.generation},
    }
