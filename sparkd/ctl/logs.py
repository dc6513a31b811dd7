"""Turns the ranks' logs into lines that say which rank on which node wrote them, interleaved by time."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple

from sparkd.ctl.answers import Deployment, Line, Status
from sparkd.ctl.client import Api, quote
from sparkd.ctl.errors import Refused, Unreached, Usage
from sparkd.ctl.names import pick
from sparkd.ctl.reading import check_schema, read
from sparkd.ctl.text import Terminal, clean, say, terminal

TICK_S = 30.0
RANK_COLOURS = ("cyan", "yellow", "green", "red")
PROBE = re.compile(r'"GET /(health|metrics|version|v1/models|server_info\S*) HTTP/[0-9.]+" (200|404)')
"""The engine's access line of a look at it: two every 5 s, a hundred lines of nothing else in four minutes; and of the pages
that say how it runs, some of which older ones do not have."""
TAIL_MAX = 10_000
PROBES_SHARE = 20
"""So many lines are asked for to be left with one that is no probe."""


class Asked(NamedTuple):
    """What was typed beside the name. `every`: the answers to probes too; `generation`: a saved one's."""

    tail: int = 100
    follow: bool = False
    rank: int | None = None
    every: bool = False
    generation: int | None = None


def show_logs(api: Api, name: str | None, asked: Asked, as_json: bool) -> int:
    """Follows until the daemon ends the stream, or ctrl-C."""
    tail, follow, rank, every, _ = asked
    deployment = pick(read(Status, api.get("/api/v1/status")), name)
    ranks = [one.rank for one in deployment.ranks]
    if rank is not None and ranks and rank not in ranks:
        raise Usage(f"{deployment.name} has no rank {rank}", f"its ranks: {', '.join(map(str, ranks))}")
    term = terminal()
    mine = _wanted(_stream(api, deployment.name, asked), rank, every)
    shown = 0
    try:
        for raw, line in mine if follow else sorted(mine, key=lambda pair: pair[1].at or 0.0)[-tail:]:
            print(raw if as_json else _show(line, term), flush=follow)
            shown += 1
    except KeyboardInterrupt:
        return 0  # how following ends
    if not shown:
        say(_nothing(deployment, asked), sys.stderr)
    return 0


def _stream(api: Api, name: str, asked: Asked) -> Iterator[str | None]:
    """Fetches so many lines that enough are left after filtering."""
    path, whole = f"/api/v1/deployments/{quote(name)}", asked.every and asked.rank is None
    tail = asked.tail if asked.follow or whole else min(TAIL_MAX, asked.tail * PROBES_SHARE)
    if asked.generation is None:
        return api.lines(
            f"{path}/logs",
            TICK_S if asked.follow else None,
            tail=tail,
            follow="true" if asked.follow else "false",
        )
    if asked.follow:
        raise Usage("a saved log does not go on", "leave out --follow, or --generation")
    return api.lines(f"{path}/captures/{asked.generation}/logs", tail=tail)


def _wanted(stream: Iterator[str | None], rank: int | None, every: bool) -> Iterator[tuple[str, Line]]:
    for text in stream:
        if text and text.strip():
            raw, line = _line(text)
            if rank in (None, line.rank) and (every or not PROBE.search(line.text)):
                yield raw, line


def _nothing(deployment: Deployment, asked: Asked) -> str:
    if asked.generation is not None or any(rank.container for rank in deployment.ranks):
        return "nothing to show" + ("" if asked.every else " but answers to /health and /metrics, which --all shows")
    return f"no rank exists now; what was saved of failed generations: `sparkd ctl capture list {deployment.name}`"


def _line(text: str) -> tuple[str, Line]:
    try:
        raw = json.loads(text)
    except ValueError:
        raise Unreached(f"the daemon's answer is no JSON: {text[:60]!r}", "look at it: journalctl -u sparkd") from None
    if isinstance(raw, dict):
        check_schema(raw)
        if isinstance(error := raw.get("error"), dict):
            raise Refused(
                clean(str(error.get("text"))), clean(str(error.get("fix") or "")), str(error.get("code", "failed")), 500
            )
    return text, read(Line, raw)


def _show(line: Line, term: Terminal) -> str:
    at = "" if line.at is None else datetime.fromtimestamp(line.at).strftime("%H:%M:%S.%f")[:-3] + " "
    prefix = term.paint(f"{line.rank}@{line.node}", RANK_COLOURS[line.rank % len(RANK_COLOURS)])
    return f"{term.paint(at, 'dim')}{prefix} {clean(line.text)}"
