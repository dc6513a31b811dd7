"""Turns the daemon's status into what `status` and `nodes` print, and into the exit code."""

from __future__ import annotations

import json

from sparkd.ctl.answers import Node, PowerUse, Status, Work
from sparkd.ctl.client import Api
from sparkd.ctl.errors import NOT_SERVING
from sparkd.ctl.names import pick
from sparkd.ctl.reading import read
from sparkd.ctl.screen import screen
from sparkd.ctl.text import Cell, Terminal, ago, clock, labelled, size, table, terminal


def show_status(api: Api, name: str | None, as_json: bool) -> int:
    """0 when everything that is wanted up serves, else 4."""
    raw = api.get("/api/v1/status")
    status = read(Status, raw)
    if name is not None:
        name = pick(status, name).name
        raw["deployments"] = [one for one in raw["deployments"] if one["name"] == name]
    if as_json:
        print(json.dumps(raw, indent=2))
    else:
        print("\n".join(screen(status, terminal(), name)))
    missed = [one for one in status.deployments if name in (None, one.name) and one.missed]
    return NOT_SERVING if missed else 0


def show_nodes(api: Api, as_json: bool) -> int:
    raw = api.get("/api/v1/status")
    status = read(Status, raw)
    if as_json:
        print(json.dumps({"schema": 1, "at": raw["at"], "nodes": raw["nodes"]}, indent=2))
    else:
        print("\n".join(node_lines(status, terminal())))
    return 0


def node_lines(status: Status, term: Terminal) -> list[str]:
    header = ("NODE", "STATE", "BOOTED", "FREE", "AVAILABLE", "PAGE CACHE", "SWAP USED")
    lines = table(header, [_node(node, status.at) for node in status.nodes], term)
    for node in status.nodes:
        if node.why:
            since = f"since {ago(node.since, status.at)}: " if node.since is not None else ""
            lines += labelled(node.name, since + node.why, term, "yellow")
        for alert in node.memory_alerts:
            since = f"since {ago(alert.since, status.at)}: " if alert.since is not None else ""
            lines += labelled(node.name, since + alert.text, term, "yellow")
            lines += labelled("fix", alert.fix, term, "bold") if alert.fix else []
        if node.maintenance:
            lines += labelled(node.name, planned_words(node.maintenance, status.at), term, "yellow")
        if node.power and node.power.last:
            lines += labelled(node.name, power_words(node.power.last, status.at), term)
    return lines


def planned_words(work: Work, now: float) -> str:
    """`under maintenance until 14:05 (in 40 min) or its next boot, asked by milo: new firmware`."""
    until = f" until {ago(work.until, now)} or its next boot" if work.until is not None else ""
    by = f", asked by {work.by}" if work.by else ""
    return f"under maintenance{until}{by}" + (f": {work.message}" if work.message else "")


def power_words(use: PowerUse, now: float) -> str:
    how = f"by {use.by}" if use.by else "by sparkd itself"
    why = f" ({use.message})" if use.message else ""
    return f"its power was taken {ago(use.at, now)} {how}{why}: {use.text or 'how that ended is not known'}"


def _node(node: Node, now: float) -> list[Cell]:
    memory = node.memory
    figures = (memory.free, memory.available, memory.page_cache, memory.swap_used) if memory else (None,) * 4
    booted = "?" if node.boot_at is None else clock(node.boot_at, now)
    state = Cell("planned" if node.maintenance else node.state, "green" if node.state == "ok" else "yellow")
    return [Cell(node.name), state, Cell(booted), *(Cell(size(figure)) for figure in figures)]
