"""Keeps the status screen up to date: redrawn when the daemon says that something changed, and every 2 s."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator

from sparkd.ctl.answers import Status
from sparkd.ctl.client import Api
from sparkd.ctl.errors import CtlError, Unreached
from sparkd.ctl.names import pick
from sparkd.ctl.reading import read
from sparkd.ctl.screen import screen
from sparkd.ctl.text import clock, duration, terminal
from sparkd.ctl.words import verdict

REFRESH_S = 2.0


def watch(api: Api, name: str | None, as_json: bool) -> int:
    """Until ctrl-C, which is how a watch ends: exit 0. Raises Unreached only when the first look fails."""
    status = read(Status, api.get("/api/v1/status"))
    name = pick(status, name).name if name is not None else None
    try:
        if as_json:
            return _stream(api, name)
        term = terminal()
        if term.live:
            return _redraw(api, name, status)
        return _lines(api, name, status)
    except KeyboardInterrupt:
        return 0


def _stream(api: Api, name: str | None) -> int:
    """NDJSON: each object as the daemon sent it, with its kind in `event` (status or event)."""
    for item in api.events(REFRESH_S):
        if item is None:
            continue
        kind, data = item
        if name is None or kind == "status" or data.get("deployment") == name:
            print(json.dumps({"schema": 1, "event": kind, **data}), flush=True)
    raise Unreached("sparkd ended the event stream", "it may be restarting: systemctl status sparkd")


def _looks(api: Api, status: Status) -> Iterator[Status | CtlError]:
    """The status whenever it may have changed; an error while the daemon is away, which it may be at any time."""
    yield status
    while True:
        try:
            for _ in api.events(REFRESH_S):
                yield read(Status, api.get("/api/v1/status"))
        except CtlError as error:
            yield error
        time.sleep(REFRESH_S)


def _redraw(api: Api, name: str | None, status: Status) -> int:
    sys.stdout.write("\x1b[2J")
    last = time.time()
    for look in _looks(api, status):
        term = terminal()
        if isinstance(look, CtlError):
            away = f"{look.text} (for {duration(time.time() - last)}; trying again)"
            sys.stdout.write(f"\x1b[H{term.paint(away, 'red')}\x1b[K")
        else:
            last = time.time()
            lines = (f"{line}\x1b[K\n" for line in _fit(screen(look, term, name)))
            sys.stdout.write(f"\x1b[H{''.join(lines)}\x1b[J")
        sys.stdout.flush()
    return 0


def _fit(lines: list[str]) -> list[str]:
    """As many lines as the terminal is high: a longer screen would scroll, and the verdict with it."""
    import shutil  # not on the way of `ctl status`

    return lines[: max(5, shutil.get_terminal_size().lines - 1)]


def _lines(api: Api, name: str | None, status: Status) -> int:
    """Without a terminal: a line whenever the state behind a verdict changes (the verdict itself counts down)."""
    said: dict[str, object] = {}
    for look in _looks(api, status):
        if isinstance(look, CtlError):
            if said.get("") is None:
                print(f"{clock(time.time(), time.time())} {look.text}", flush=True)
            said[""] = look.text
            continue
        said[""] = None
        for one in look.deployments:
            late = one.start.suspect if one.start else None
            slow = late.stage if late else None
            state = (one.wanted, one.phase, one.serving, look.unread_nodes(one) != (), slow)
            if name in (None, one.name) and said.get(one.name) != state:
                print(f"{clock(look.at, look.at)} {verdict(one, look).text}", flush=True)
                said[one.name] = state
    return 0
