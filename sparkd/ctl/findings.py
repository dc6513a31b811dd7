"""Differences -> a diff that people read: the worst first, the line that was in red, the line that is in green."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sparkd.base.one_line import escaped
from sparkd.ctl.drift_values import Difference, Drift
from sparkd.ctl.text import Terminal, count, labelled, listing, wrap
from sparkd.model.words import short

COLOURS = {"breaks": "red", "slows": "yellow", "unknown": "cyan", "benign": "dim"}


def screen(drift: Drift, term: Terminal) -> list[str]:
    """Two headings, every difference with why and what to do, a verdict, and what was not compared."""
    found = drift.findings
    lines = [term.paint(f"--- {escaped(drift.against)}", "red"), term.paint(f"+++ {escaped(drift.live)}", "green")]
    for group in _alike(found):
        lines += ["", *(line for one in group for line in _difference(one, term)), *_said(group[0], term)]
    counts = {severity: sum(one.severity == severity for one in found) for severity in COLOURS}
    said = [f"{number} {severity}" for severity, number in counts.items() if number]
    colour = next((COLOURS[severity] for severity, number in counts.items() if number), "green")
    whole = f"{count(len(found), 'difference')}: {listing(said)}." if found else "No difference in what was compared."
    lines += ["", *(term.paint(line, colour) for line in wrap(whole, term.width))]
    for text in drift.not_compared:
        what, _, why = escaped(text).partition(": ")
        lines += [term.paint(line, "dim") for line in wrap(f"Not compared: {what} ({why}).", term.width)]
    return lines


def _alike(found: Iterable[Difference]) -> Iterable[list[Difference]]:
    """What has one cause and one remedy is told once: a rank that was started by another script differs in everything."""
    groups: dict[object, list[Difference]] = {}
    for number, one in enumerate(found):
        key = (one.severity, one.kind, one.rank, one.node, one.why, one.fix) if one.why or one.fix else number
        groups.setdefault(key, []).append(one)
    return groups.values()


def _difference(one: Difference, term: Terminal) -> Iterator[str]:
    place = "" if one.rank is None else f", rank {one.rank}" + (f" on {one.node}" if one.node else "")
    yield (
        term.paint(f"{one.severity:<8}", COLOURS.get(one.severity, ""))
        + term.paint(escaped(one.name), "bold")
        + f" ({one.kind}{place})"
    )
    if one.known is not None or one.live is not None:
        yield term.paint(f"  - {escaped(short(one.known))}", "red")
        yield term.paint(f"  + {escaped(short(one.live))}", "green")


def _said(one: Difference, term: Terminal) -> Iterator[str]:
    for label, text in (("why", one.why), ("fix", one.fix)):
        if text:
            yield from labelled(label, escaped(text), term)
