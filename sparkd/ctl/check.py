"""Turns what the checks found into one table, the trouble below it in words, and the exit code."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from sparkd.ctl.answers import AllChecks, Checks, Row, Status
from sparkd.ctl.client import Api, quote
from sparkd.ctl.errors import NOT_SERVING
from sparkd.ctl.names import pick
from sparkd.ctl.reading import read
from sparkd.ctl.screen import pending_text
from sparkd.ctl.text import Cell, Terminal, clean, count, labelled, listing, table, terminal, wrap

CHECK_S = 30.0
"""A run ends after 16 s at the worst: two rounds of questions, each with its own deadline."""
COLOURS = {"ok": "green", "warn": "yellow", "fail": "red", "unknown": "cyan"}
WORST = ("fail", "unknown", "warn", "ok")


def run_checks(api: Api, name: str | None, as_json: bool) -> int:
    """Has the daemon run the checks now and shows what they found."""
    deployment = pick(read(Status, api.get("/api/v1/status")), name)
    patient = Api(api.path, CHECK_S)
    code = show([patient.post(f"/api/v1/deployments/{quote(deployment.name)}/checks", {})], as_json)
    if not code and deployment.hold and not as_json:
        text = f"{deployment.hold.text}; no check sees that now: `sparkd ctl why {deployment.name}`"
        print("\n".join(["", *labelled("held", text, terminal(), "yellow")]))
    return code


def list_checks(api: Api, as_json: bool) -> int:
    return show_list(api.get("/api/v1/checks"), as_json)


def show(runs: Sequence[dict[str, Any]], as_json: bool) -> int:
    """0 when nothing failed, 4 when something did or could not be read. Of several runs the JSON is one list of rows."""
    found = [read(Checks, one) for one in runs]
    if as_json:
        one = runs[0] if len(runs) == 1 else {"schema": 1, "checks": [row for run in runs for row in run["checks"]]}
        print(json.dumps(one, indent=2))
    else:
        print("\n".join(line for one in found for line in lines(one, terminal())))
    return NOT_SERVING if {"fail", "unknown"} & {row.status for one in found for row in one.checks} else 0


def show_list(raw: dict[str, Any], as_json: bool) -> int:
    if as_json:
        print(json.dumps(raw, indent=2))
        return 0
    rows = [[Cell(one.code, "bold"), Cell(one.severity), Cell(one.description)] for one in read(AllChecks, raw).checks]
    print("\n".join(table(("CHECK", "LEVEL", "WHAT IT LOOKS FOR"), rows, terminal(), "")))
    return 0


def lines(found: Checks, term: Terminal) -> Iterator[str]:
    """A line in words, the table of checks and nodes, then all that is not ok with its evidence and fix."""
    counts = Counter(row.status for row in found.checks)
    yield term.paint(_verdict(found, counts), COLOURS[next((one for one in WORST if counts[one]), "ok")])
    if found.pending:
        text = f"{pending_text(found.pending, found.deployment)}; checked is what it was started with"
        yield from labelled("pending", text, term, "yellow")
    # Rows come worst first; columns keep their places from one look to the next.
    nodes = sorted({row.node for row in found.checks if row.node is not None})
    codes = list(dict.fromkeys(row.code for row in found.checks))
    rows = [[Cell(code), *(_cell(found.checks, code, node) for node in nodes)] for code in codes]
    yield from table(("CHECK", *nodes), rows, term)
    for troubled, row in _troubles(found.checks):
        yield from _trouble(troubled, row, term)


def _verdict(found: Checks, counts: Counter[str]) -> str:
    bad = [f"{counts[status]} {word}" for status, word in WORDS if counts[status]]
    said = ", ".join(bad) if bad else "nothing found"
    checks = count(len({row.code for row in found.checks}), "check")
    return f"{found.deployment}: {said}; {checks} in {found.seconds:.1f} s"


WORDS = (("fail", "failed"), ("unknown", "could not be read"), ("warn", "to look at"))


def _cell(rows: Sequence[Row], code: str, node: str) -> Cell:
    """The worst that this check found there; what is wrong with the deployment itself is wrong on every node."""
    statuses = {row.status for row in rows if row.code == code and row.node in (node, None)}
    worst = next((status for status in WORST if status in statuses), "-")
    return Cell(worst, COLOURS.get(worst, ""))


def _troubles(rows: Sequence[Row]) -> Iterator[tuple[str, Row]]:
    """(checks and places, one of their rows), the worst first: a node that cannot be asked is one trouble, not one for
    each check, and what is wrong in the same words on every node is one too."""
    alike: dict[Row, list[str]] = {}
    for row in sorted(rows, key=lambda row: WORST.index(row.status) if row.status in WORST else 0):
        if row.status != "ok":
            alike.setdefault(row._replace(code="", severity=""), []).append(row.code)
    places: dict[tuple[str, Row], list[Row]] = {}
    for row, codes in alike.items():
        places.setdefault((", ".join(dict.fromkeys(codes)), row._replace(node=None, rank=None)), []).append(row)
    return ((_where(codes, found), row) for (codes, row), found in places.items())


def _where(codes: str, found: Sequence[Row]) -> str:
    """`flags on spark1 rank 0 and spark2 rank 1`."""
    named = (" ".join(filter(None, (row.node, None if row.rank is None else f"rank {row.rank}"))) for row in found)
    places = listing(filter(None, named))
    return f"{codes} on {places}" if places else codes


def _trouble(whose: str, row: Row, term: Terminal) -> Iterator[str]:
    first = f"{row.status:<7}  "
    yield ""
    for line in wrap(whose, term.width - len(first)):
        yield term.paint(first + line, COLOURS.get(row.status, ""))
        first = " " * len(first)
    yield from labelled("what", row.text, term)
    for one in row.evidence:
        yield from labelled("seen", clean(one), term)
    if row.fix:
        yield from labelled("fix", row.fix, term, "bold")
