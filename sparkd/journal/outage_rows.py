"""Outages that ended, as rows of the journal: their key begins with the time, so that their order is that of the keys."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache

from sparkd.codec import Undecodable, decode, encode
from sparkd.model.outage import Outage

KEPT = 5_000
"""Of all deployments together; with one a day that is more than ten years."""


def added(rows: Mapping[str, str], name: str, outage: Outage) -> dict[str, str | None]:
    """What to write so that this one is kept, and not too many are. The same one again is the same row."""
    key = f"{max(0.0, outage.began_wall):017.3f} {name}"
    gone = sorted(rows.keys() - {key})[: max(0, len(rows.keys() | {key}) - KEPT)]
    return {key: json.dumps(encode(outage)), **dict.fromkeys(gone)}


def read(rows: Mapping[str, str]) -> list[tuple[str, Outage]]:
    """(deployment, outage). One that cannot be read is left out: it must not cost all the others."""
    found = ((key.partition(" ")[2], _outage(text)) for key, text in sorted(rows.items()))
    return [(name, outage) for name, outage in found if outage is not None]


@lru_cache(maxsize=KEPT)
def _outage(text: str) -> Outage | None:
    try:
        return decode(Outage, json.loads(text))
    except (Undecodable, ValueError):
        return None
