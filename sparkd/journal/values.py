"""Events to rows that SQLite takes whatever they hold, and rows back to events whatever happened to them."""

from __future__ import annotations

import json
import math
from typing import Any

from sparkd.journal.event import Event

COLUMNS = ("id", "at", "deployment", "generation", "kind", "sentence", "reason", "cls", "signature", "by", "message")
DATA_BYTES = 16 * 1024
"""The details of one event; more is dropped, or a handful of events would fill the file."""
TEXT_CHARS = 4000
"""Of a sentence: one that is too long for the file would wait to be written for ever, and everything after it."""


def row(of: Event) -> tuple[Any, ...]:
    """Values that SQLite takes whatever the event holds: a single one refused would block all that wait behind it."""
    return (*(storable(getattr(of, name)) for name in COLUMNS), _data(of))


def storable(value: str | int | float) -> str | int | float:
    """The value, or the nearest one that a column can hold."""
    if isinstance(value, str):
        # Half of a surrogate pair comes out of JSON (an engine's error text), and has no bytes in UTF-8.
        return value[:TEXT_CHARS].encode("utf-8", "replace").decode()
    if isinstance(value, int):
        return max(-(2**63), min(value, 2**63 - 1))
    return value if math.isfinite(value) else 0.0


def _data(of: Event) -> str:
    text = json.dumps(dict(of.data), default=str, skipkeys=True)
    return text if len(text) <= DATA_BYTES else json.dumps({"dropped_bytes": len(text)})


def event(found: tuple[Any, ...]) -> Event:
    """The event of a row with `COLUMNS` and its data."""
    named = dict(zip(COLUMNS, found[:-1], strict=True))
    numbers = {"id": named.pop("id"), "generation": named.pop("generation"), "at": named.pop("at")}
    try:
        at, generation = float(numbers["at"]), int(numbers["generation"])
        words = {name: text(value) for name, value in named.items()}
        return Event(**words, id=numbers["id"], at=at, generation=generation, data=dict(json.loads(found[-1])))
    except (ValueError, TypeError, RecursionError) as error:
        # One damaged row must not cost all of history; that it is there is told in its place.
        return Event(id=numbers["id"], at=0.0, kind="journal", sentence=f"this entry cannot be read: {error}")


def text(cell: Any) -> str:
    """A cell as text, whatever it became: damage can make bytes or a number of it."""
    return cell if isinstance(cell, str) else readable(cell) if isinstance(cell, bytes) else str(cell)


def readable(raw: bytes) -> str:
    """Text of the file; a flipped bit in it is no reason to read none of it."""
    return raw.decode("utf-8", "replace")
