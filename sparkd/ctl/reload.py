"""Asks the daemon to read its configuration again, and turns what became of it into lines and an exit code."""

import json
import sys
from collections.abc import Iterator
from typing import NamedTuple

from sparkd.ctl.answers import Change
from sparkd.ctl.client import Api
from sparkd.ctl.errors import USAGE, Refused
from sparkd.ctl.reading import read
from sparkd.ctl.text import Terminal, terminal, wrap
from sparkd.ctl.wait import ProgressLine

PATIENCE_S = 120.0
"""Reading takes a second, then the loop finishes its look; on a starved machine both take their time."""


class Setting(NamedTuple):
    key: str
    before: str | None = None
    after: str | None = None


class Entry(NamedTuple):
    """What the reload means for one deployment; `what`: added removed kept broken pending changed."""

    name: str
    what: str
    sentence: str
    changes: tuple[Change, ...] = ()
    problems: tuple[str, ...] = ()


class Reloaded(NamedTuple):
    sentence: str
    cluster: tuple[Setting, ...] = ()
    deployments: tuple[Entry, ...] = ()


def reload(api: Api, message: str, as_json: bool) -> int:
    """0 when it counts as it stands; 2 when a file cannot be used: a deployment's alone, or nothing was changed at all."""
    api.deadline_s = PATIENCE_S
    line = ProgressLine(terminal(sys.stderr))
    line.show("reading", "reading the configuration; what runs goes on")
    try:
        raw = api.post("/api/v1/reload", {"message": message})
    except Refused as error:
        if error.code == "config":
            error.exit_code = USAGE
        raise
    finally:
        line.clear()
    if as_json:
        print(json.dumps(raw, indent=2))
    else:
        print("\n".join(_lines(read(Reloaded, raw), terminal())))
    return USAGE if any(one["what"] == "broken" for one in raw["deployments"]) else 0


def _lines(reloaded: Reloaded, term: Terminal) -> Iterator[str]:
    if not reloaded.cluster and not reloaded.deployments:
        yield "The configuration was read again: nothing has changed."
        return
    yield "The configuration was read again."
    for setting in reloaded.cluster:
        yield from _item(f"sparkd.yaml: {setting.key} {_pair(setting.before, setting.after)}", term)
    for one in reloaded.deployments:
        pending = f"restart pending; `sparkd ctl restart {one.name}` applies it"
        yield from _item(f"{one.name}: {pending if one.what == 'pending' else one.sentence}", term)
        details = [f"{change.key} {_pair(change.running, change.file)}" for change in one.changes]
        for text in (*details, *one.problems[1:]):
            yield from _item(text, term, "    ")


def _item(text: str, term: Terminal, indent: str = "  ") -> list[str]:
    first, *more = wrap(text, term.width - len(indent) - 2)
    return [f"{indent}{first}", *(f"{indent}  {line}" for line in more)]


def _pair(before: str | None, after: str | None) -> str:
    """`8192 -> 4096`."""
    return f"{'(not set)' if before is None else before} -> {'(not set)' if after is None else after}"
