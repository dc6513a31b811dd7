"""Turns the ranks' logs into lines that say which rank on which node wrote them, interleaved by time."""

from __future__ import annotations

import json
from datetime import datetime

from sparkd.ctl.answers import Line, Status, check_schema, read
from sparkd.ctl.client import Api, quote
from sparkd.ctl.errors import Refused, Unreached, Usage
from sparkd.ctl.names import pick
from sparkd.ctl.text import Terminal, clean, terminal

TICK_S = 30.0
RANK_COLOURS = ("cyan", "yellow", "green", "red")


def show_logs(api: Api, name: str | None, tail: int, follow: bool, rank: int | None, as_json: bool) -> int:
    """Follows until the daemon ends the stream, or ctrl-C."""
    deployment = pick(read(Status, api.get("/api/v1/status")), name)
    ranks = [one.rank for one in deployment.ranks]
    if rank is not None and ranks and rank not in ranks:
        raise Usage(f"{deployment.name} has no rank {rank}", f"its ranks: {', '.join(map(str, ranks))}")
    term = terminal()
    path = f"/api/v1/deployments/{quote(deployment.name)}/logs"
    stream = api.lines(path, TICK_S if follow else None, tail=tail, follow="true" if follow else "false")
    lines = (_line(text) for text in stream if text and text.strip())
    mine = (pair for pair in lines if rank in (None, pair[1].rank))
    try:
        for raw, line in mine if follow else sorted(mine, key=lambda pair: pair[1].at or 0.0):
            print(raw if as_json else _show(line, term), flush=follow)
    except KeyboardInterrupt:
        return 0  # how following ends
    return 0


def _line(text: str) -> tuple[str, Line]:
    try:
        raw = json.loads(text)
    except ValueError:
        raise Unreached(f"the daemon's answer is no JSON: {text[:60]!r}", "look at it: journalctl -u sparkd") from None
    if isinstance(raw, dict):
        check_schema(raw)
        if isinstance(error := raw.get("error"), dict):
            raise Refused(str(error.get("text")), str(error.get("fix") or ""), str(error.get("code", "failed")), 500)
    return text, read(Line, raw)


def _show(line: Line, term: Terminal) -> str:
    at = "" if line.at is None else datetime.fromtimestamp(line.at).strftime("%H:%M:%S.%f")[:-3] + " "
    prefix = term.paint(f"{line.rank}@{line.node}", RANK_COLOURS[line.rank % len(RANK_COLOURS)])
    return f"{term.paint(at, 'dim')}{prefix} {clean(line.text)}"
