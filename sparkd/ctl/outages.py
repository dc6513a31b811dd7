"""Turns the records of outages into a table, the latest last, and a sum for every month."""

from __future__ import annotations

import json
from collections.abc import Iterator

from sparkd.ctl.answers import Month, Outage, Outages, Status
from sparkd.ctl.client import Api
from sparkd.ctl.errors import Usage
from sparkd.ctl.names import pick
from sparkd.ctl.reading import read
from sparkd.ctl.text import Cell, Terminal, clock, count, duration, table, terminal


def show_outages(api: Api, name: str | None, limit: int, follow: bool, as_json: bool) -> int:
    """`limit` bounds the table alone: the sums are of everything that is kept. Raises Usage where it is to `follow`."""
    if follow:
        raise Usage("--outages cannot be followed", "leave out --follow, or --outages")
    status = read(Status, api.get("/api/v1/status"))
    if name is not None:
        name = pick(status, name).name
    raw = api.get("/api/v1/outages", deployment=name)
    if as_json:
        print(json.dumps(raw, indent=2))
        return 0
    found = read(Outages, raw)
    print("\n".join(_lines(found, limit, status.at, terminal())) if found.outages else "No outage is recorded.")
    return 0


def _lines(found: Outages, limit: int, now: float, term: Terminal) -> Iterator[str]:
    many = len({one.deployment for one in found.outages}) > 1
    header = ("BEGAN", "LASTED", "UNREAD", "GEN.", "STARTS", "CAUSE")
    rows = [_row(one, now, many) for one in found.outages[-limit:]]
    yield from table(header, rows, term, "")
    yield ""
    heads = ("MONTH", "OUTAGES", "DOWN", "LONGEST", "UNREAD", "ASKED FOR")
    yield from table(heads, [_month(one) for one in found.months], term, "")


def _row(one: Outage, now: float, many: bool) -> list[Cell]:
    text = _cause(one)
    return [
        Cell(clock(one.began, now)),
        Cell(duration(one.seconds)),
        Cell(duration(one.unread_s) if one.unread_s else "-", "yellow" if one.unread_s else ""),
        Cell("-" if one.generation is None else str(one.generation)),
        Cell(str(one.starts)),
        Cell(f"{one.deployment}: {text}" if many else text, "red" if one.ended is None else ""),
    ]


def _cause(one: Outage) -> str:
    """Its words and code, and what a reader of the figures has to know beside them."""
    notes = [
        "ended by a stop" if one.ended is not None and one.answered is None else "",
        "sparkd itself was away for a part of it" if one.unwatched else "",
    ]
    known = "; ".join(note for note in (one.cause.text.rstrip("."), *notes) if note)
    return f"{'goes on: ' if one.ended is None else ''}{known} ({one.cause.code})"


def _month(one: Month) -> list[Cell]:
    return [
        Cell(one.month),
        Cell(str(one.outages)),
        Cell(duration(one.down_s) if one.outages else "-"),
        Cell(duration(one.longest_s) if one.outages else "-"),
        Cell(duration(one.unread_s) if one.unread_s else "-"),
        Cell(f"{count(one.asked, 'restart')}, {duration(one.asked_s)}" if one.asked else "-"),
    ]
