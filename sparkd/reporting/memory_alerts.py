"""The times in which the memory of a node runs out or drains, and which go on: for the status of that node, and for `why`. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sparkd.model.decision import State
from sparkd.model.memory_trail import MemoryEpisode
from sparkd.model.words import rfc3339

KINDS = ("low", "drain")
Json = dict[str, Any]


def memory_alerts(states: Mapping[str, State], node: str) -> list[Json]:
    """One of each kind, however many deployments have a rank there: the first that was told."""
    first: dict[str, MemoryEpisode] = {}
    for state in states.values():
        for one in state.memory:
            if one.node == node and (one.kind not in first or one.since_wall < first[one.kind].since_wall):
                first[one.kind] = one
    return [_json(first[kind]) for kind in KINDS if kind in first]


def _json(episode: MemoryEpisode) -> Json:
    since = rfc3339(episode.since_wall)
    return {"kind": episode.kind, "since": since, "text": episode.text, "fix": episode.fix, "acted": episode.acted}


def also(state: State) -> list[Json]:
    """The same of one deployment, as causes beside that of its last failure."""
    return [
        {
            "class": "resource",
            "signature": f"memory-{one.kind}",
            "text": one.text,
            "confidence": "certain",
            "rank": None,
            "evidence": [{"source": one.node, "line": None, "text": f"since {rfc3339(one.since_wall)}"}],
            "fix": one.fix or None,
        }
        for one in state.memory
    ]
