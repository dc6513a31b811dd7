"""Turns a comparison of what runs with what worked into a diff, and the exit code."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any

from sparkd.ctl.answers import Status
from sparkd.ctl.client import Api, quote
from sparkd.ctl.drift_values import Build, Drift
from sparkd.ctl.errors import DIFFERENT, FAILED
from sparkd.ctl.findings import screen
from sparkd.ctl.hashing import hash_weights
from sparkd.ctl.names import pick
from sparkd.ctl.reading import read
from sparkd.ctl.text import Cell, Terminal, clean, hint, listing, table, terminal, wrap
from sparkd.model.words import OF_A_FILE

DRIFT_S = 30.0
"""Two surveys of 8 s, and the moment that a node may take to be connected."""


ASLEEP = (
    "without an engine in it: the next start was compared. What `docker exec` started there has ended, and with what flags "
    "only its script knows: start it and ask again, or compare the script with what `sparkd ctl known-good show` prints: "
    "`sparkd compare GOOD.yaml SCRIPT`"
)
"""A container that only sleeps, as in the first field report."""


def show_drift(api: Api, name: str | None, against: str | None, hashed: bool, as_json: bool) -> int:
    """0 without differences above benign, 5 with some, 1 where a node could not be read."""
    deployment = pick(read(Status, api.get("/api/v1/status")), name)
    patient = Api(api.path, DRIFT_S)
    if hashed:
        hash_weights(patient, deployment.name)
    raw = patient.get(f"/api/v1/deployments/{quote(deployment.name)}/drift", against=against)
    return show(raw, as_json, lambda found: _next(found, against))


def show_build(api: Api, name: str | None, as_json: bool) -> int:
    """What the image says of its own making, a column for each node; exits like a comparison of the nodes."""
    deployment = pick(read(Status, api.get("/api/v1/status")), name)
    raw = Api(api.path, DRIFT_S).get(f"/api/v1/deployments/{quote(deployment.name)}/build")
    found = read(Build, raw)
    if as_json:
        print(json.dumps(raw, indent=2))
    else:
        print("\n".join(_build(found, terminal())))
    return FAILED if found.unread else DIFFERENT if found.findings else 0


def _build(found: Build, term: Terminal) -> Iterator[str]:
    nodes = found.nodes if isinstance(found.nodes, dict) else {}
    keys = list(dict.fromkeys(key for said in nodes.values() for key in said or ()))
    yield term.paint(f"{found.image or found.deployment}, by its own {found.path}:", "bold")
    if keys:
        rows = [[Cell(key), *(_cell(nodes.values(), said, key) for said in nodes.values())] for key in keys]
        yield from table(("KEY", *nodes), rows, term)
    else:
        yield "  it says nothing of how it was built"
    for node, why in sorted(found.unread.items()) if isinstance(found.unread, dict) else ():
        yield from (
            term.paint(line, "red") for line in wrap(f"{node} could not be read: {clean(str(why))}.", term.width)
        )


def _cell(every: Collection[Any], said: Any, key: str) -> Cell:
    """Red where the nodes do not say the same."""
    alike = len({(one or {}).get(key) for one in every}) == 1
    return Cell(clean(str((said or {}).get(key, "-"))), "" if alike else "red")


def show(raw: dict[str, Any], as_json: bool, hints: Callable[[Drift], Iterable[tuple[str, str]]] | None = None) -> int:
    """`hints`: commands to type next, and what they do, where something differs."""
    found = read(Drift, raw)
    serious = any(one.severity != "benign" for one in found.findings)
    if as_json:
        print(json.dumps(raw, indent=2))
    else:
        term = terminal()
        lines = [*screen(found, term), *_missing(found, term)]
        for command, what in hints(found) if hints and serious else ():
            lines += hint(command, what, term)
        print("\n".join(lines))
    return FAILED if found.unread else DIFFERENT if serious else 0


def _next(found: Drift, against: str | None) -> Iterator[tuple[str, str]]:
    """What undoes the difference, and what makes it right."""
    name = found.deployment
    if against == "wanted":
        yield f"sparkd ctl restart {name}", "starts it as its file says"
        return
    that = "" if against in (None, "known-good") else f" --generation {against}"
    if any(one.kind in OF_A_FILE and one.severity != "benign" for one in found.findings):
        yield f"sparkd ctl known-good rollback {name}{that}", "puts the file of that time back"
    if not (found.absent or found.ended or found.asleep):
        yield f"sparkd ctl bless {name}", "if it should be as it is now"


def _missing(found: Drift, term: Terminal) -> Iterator[str]:
    """Which table the flags were read with, which ranks do not run, and which nodes could not be read."""
    if found.flags_by:
        yield from (
            term.paint(line, "dim") for line in wrap(f"Flags were read by {clean(found.flags_by)}.", term.width)
        )
    for ranks, one, more in (
        (found.absent, "does not run: the next start was compared", "do not run: the next start was compared"),
        (found.ended, "has ended", "have ended"),
        (found.asleep, f"has a container {ASLEEP}", f"have containers {ASLEEP}"),
    ):
        if ranks:
            said = f"Rank{'s' * (len(ranks) > 1)} {listing(map(str, ranks))} {one if len(ranks) == 1 else more}."
            yield from (term.paint(line, "yellow") for line in wrap(said, term.width))
    for node, why in sorted(found.unread.items()) if isinstance(found.unread, dict) else ():
        for line in wrap(f"{node} could not be read: {clean(str(why))}.", term.width):
            yield term.paint(line, "red")
