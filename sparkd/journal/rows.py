"""What the tables hold, and which of two copies of a row counts: each has a number that only grows, and a checksum.

A row that was cut, flipped or put under another name does not fit its checksum any more, and its spare is taken instead. A row
without one was written by a sparkd that made none; it counts as far as it can be read.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from sparkd.journal import values
from sparkd.journal.event import Event

TABLES = {"meta": ("key", "value"), "states": ("name", "json"), "intents": ("name", "json"), "outages": ("id", "json")}
"""Name and value column of each; all of them are known in memory too."""
TWICE = ("states", "intents")
"""Tables whose rows are kept in a spare too."""
FIELDS = {"states": ("state", "boot", "at", "wall"), "intents": ("wanted", "paused", "restart", "release", "lost")}
"""What a row without a checksum must have: `{}` is JSON too, and would be read as nothing but defaults."""


class Row(NamedTuple):
    """One value. `number` grows with every write and tells which of two copies is the newer one."""

    text: str
    number: int | None = None
    sum: str | None = None


@dataclass(slots=True)
class Copy:
    """One copy of a table: its rows that are whole, and the names of those that are not."""

    rows: dict[str, Row] = field(default_factory=dict)
    damaged: set[str] = field(default_factory=set)
    unread: bool = False
    """It is there and cannot be read at all: whose rows it held is not known."""

    def add(self, table: str, name: str, row: Row) -> None:
        if _whole(table, name, row):
            self.rows[name] = row
        else:
            self.damaged.add(name)


@dataclass(slots=True)
class Batch:
    """What is written in one transaction. A value of None deletes the row."""

    meta: dict[str, str | None] = field(default_factory=dict)
    states: dict[str, str | None] = field(default_factory=dict)
    intents: dict[str, str | None] = field(default_factory=dict)
    outages: dict[str, str | None] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)

    @property
    def empty(self) -> bool:
        return not (any(getattr(self, table) for table in TABLES) or self.events)


@dataclass(slots=True)
class Rows:
    """What a file and its spare held when it was opened."""

    meta: dict[str, str] = field(default_factory=dict)
    states: dict[str, str] = field(default_factory=dict)
    intents: dict[str, str] = field(default_factory=dict)
    outages: dict[str, str] = field(default_factory=dict)
    """Of those that ended. Events are forgotten in time; these are few, and a sum over months needs them all."""
    last_event: int = 0
    generations: dict[str, int] = field(default_factory=dict)
    """Deployment -> the highest generation that history tells of."""
    mended: dict[str, list[str]] = field(default_factory=dict)
    """Table -> names of the rows that came from their spare."""
    lost: dict[str, list[str]] = field(default_factory=dict)
    """Table -> names of the rows that are damaged in both."""
    intents_lost: bool = False
    """Neither the file nor its spare tells what was wanted: not even of whom anything was."""


def row(table: str, name: str, text: str, number: int) -> Row:
    """The row as it is kept."""
    return Row(text, number, _sum(table, name, text, number))


def _sum(table: str, name: str, text: str, number: int | None) -> str:
    said = "\0".join((table, name, text, str(number)))
    return hashlib.sha256(said.encode("utf-8", "replace")).hexdigest()[:16]


def _whole(table: str, name: str, row: Row) -> bool:
    if row.sum is not None or row.number is not None:
        return row.sum == _sum(table, name, row.text, row.number)
    try:
        return table not in FIELDS or set(FIELDS[table]) <= set(json.loads(row.text))
    except (ValueError, TypeError, RecursionError):
        return False


def newer(mine: Row | None, kept: Row | None) -> Row | None:
    """The copy that counts. The spare is written after the file: only a file that lost its last writes is the older one."""
    if mine is None or kept is None:
        return mine or kept
    return kept if (kept.number or 0) > (mine.number or 0) > 0 else mine


def read(connection: sqlite3.Connection, table: str, strict: bool) -> Copy:
    """A table of the file. Without `strict` what a damaged file still has, and raises nothing."""
    found, (key, value) = Copy(), TABLES[table]
    try:
        cursor = connection.execute(f"SELECT * FROM {table}")
        columns = [column[0] for column in cursor.description]
        for cells in cursor:
            named = dict(zip(columns, cells, strict=True))
            number, kept = named.get("number"), named.get("sum")
            text = values.text(named.get(value))
            one = Row(text, number if isinstance(number, int) else None, None if kept is None else values.text(kept))
            found.add(table, values.text(named.get(key)), one)
    except (sqlite3.Error, UnicodeDecodeError):
        if strict:
            raise
        found.unread = True
    return found


def merge(table: str, mine: Copy, spare: Copy | None, into: Rows) -> dict[str, Row]:
    """Name -> the row that counts; `into` learns where it is not the file's own, and where there is none."""
    kept = spare or Copy()
    found: dict[str, Row] = {}
    for name in sorted({*mine.rows, *mine.damaged, *kept.rows, *kept.damaged}):
        one = newer(mine.rows.get(name), kept.rows.get(name))
        if one is None:
            into.lost.setdefault(table, []).append(name)
            continue
        found[name] = one
        if one is not mine.rows.get(name):
            into.mended.setdefault(table, []).append(name)
    if table == "intents":
        nowhere = spare is None or spare.unread
        into.intents_lost = (mine.unread and nowhere) or (not mine.rows and spare is not None and spare.unread)
    return found


def texts(rows: Mapping[str, Row]) -> dict[str, str]:
    return {name: one.text for name, one in rows.items()}
