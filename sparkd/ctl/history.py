"""Turns the daemon's journal into one line an event, oldest first; with `follow`, also what happens from now on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from sparkd.ctl.answers import Event, History, Status
from sparkd.ctl.client import Api
from sparkd.ctl.errors import Unreached
from sparkd.ctl.names import pick
from sparkd.ctl.reading import read
from sparkd.ctl.text import LAST_COLUMN, Terminal, terminal, wrap

TICK_S = 30.0
COLOURS = {
    "failed": "red",
    "held": "red",
    "down": "red",
    "memory-low": "red",
    "drift": "yellow",
    "memory-drain": "yellow",
    "memory-back": "green",
    "serving": "green",
    "recovered": "green",
    "healed": "green",
}


def show_history(api: Api, name: str | None, limit: int, follow: bool, as_json: bool) -> int:
    status = read(Status, api.get("/api/v1/status"))
    if name is not None:
        name = pick(status, name).name
    names = [one.name for one in status.deployments] if name is None else []
    column = max(map(len, names)) if len(names) > 1 else 0
    if follow:
        return _follow(api, name, limit, column, as_json)
    raw = api.get("/api/v1/history", deployment=name, limit=limit)
    if as_json:
        print(json.dumps(raw, indent=2))
        return 0
    events = sorted(read(History, raw).events, key=lambda event: event.at)
    lines = [line for event in events for line in _event(event, column, terminal())]
    print("\n".join(lines) if lines else "Nothing has happened yet.")
    return 0


def _event(event: Event, column: int, term: Terminal) -> Iterator[str]:
    """Date and time to the second: what belongs together is often seconds apart, and nights apart from the rest."""
    generation = "" if event.generation is None else f"g{event.generation}"
    head = datetime.fromtimestamp(event.at).strftime("%d %b %H:%M:%S ")
    head += f"{event.deployment or '-':<{column}} {generation:<4} " if column else f"{generation:<4} "
    asked = f" (by {event.by}{f': {event.message}' if event.message else ''})" if event.by else ""
    beside = term.width - len(head) >= LAST_COLUMN
    indent = len(head) if beside else 4
    first, *more = wrap(event.sentence + asked, term.width - indent)
    colour = COLOURS.get(event.kind, "")
    if not beside:
        yield term.paint(head.rstrip(), "dim")
    yield (term.paint(head, "dim") if beside else " " * indent) + term.paint(first, colour)
    for line in more:
        yield " " * indent + term.paint(line, colour)


def _follow(api: Api, name: str | None, limit: int, column: int, as_json: bool) -> int:
    """The stream is opened before the journal is read: nothing falls between them, what comes twice is dropped."""
    stream = api.events(TICK_S)
    answer = api.get("/api/v1/history", deployment=name, limit=limit)
    try:
        printed = {_print(raw, column, as_json) for raw in _raw_events(answer)}
        for item in stream:
            if item is None or item[0] != "event" or name not in (None, item[1].get("deployment")):
                continue
            if read(Event, item[1]) not in printed:
                _print(item[1], column, as_json)
    except KeyboardInterrupt:
        return 0  # how following ends
    raise Unreached("sparkd ended the event stream", "it may be restarting: systemctl status sparkd")


def _raw_events(answer: dict[str, Any]) -> list[dict[str, Any]]:
    read(History, answer)
    return sorted(answer.get("events") or (), key=lambda raw: str(raw.get("at")))


def _print(raw: dict[str, Any], column: int, as_json: bool) -> Event:
    event = read(Event, raw)
    if as_json:
        print(json.dumps({"schema": 1, **raw}), flush=True)
    else:
        print("\n".join(_event(event, column, terminal())), flush=True)
    return event
