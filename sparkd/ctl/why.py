"""Turns the daemon's answer to why into the cause, its evidence, the rule behind the last decision, the next step."""

from __future__ import annotations

import json
from collections.abc import Iterator

from sparkd.ctl.answers import Cause, Status, Why
from sparkd.ctl.client import Api, quote
from sparkd.ctl.names import pick
from sparkd.ctl.reading import read
from sparkd.ctl.text import Terminal, labelled, terminal, wrap
from sparkd.ctl.words import down_for, verdict, what_next


def show_why(api: Api, name: str | None, as_json: bool) -> int:
    status = read(Status, api.get("/api/v1/status"))
    deployment = pick(status, name)
    raw = api.get(f"/api/v1/deployments/{quote(deployment.name)}/why")
    if as_json:
        print(json.dumps(raw, indent=2))
        return 0
    said, term = read(Why, raw), terminal()
    first = verdict(deployment, status)
    lines = [
        *(term.paint(line, first.colour) for line in wrap(first.text, term.width)),
        *(labelled("down for", down, term) if (down := down_for(deployment, status)) else ()),
        *why_lines(said, term, deployment.restart_pending),
    ]
    if failure := deployment.last_failure:
        shown = f"`sparkd ctl logs {deployment.name} --generation {failure.generation}`"
        saved = said.cause is not None and any(one.source == "saved" for one in said.cause.evidence)
        lines += labelled("logs", shown, term) if saved else []
    lines += labelled("next", what_next(deployment, status), term)
    print("\n".join(lines))
    return 0


def why_lines(why: Why, term: Terminal, runs_on: bool) -> Iterator[str]:
    """`runs_on`: what was started by another file still runs; otherwise it only did."""
    if why.sentence:
        yield from labelled("sparkd", why.sentence, term)
    if why.cause:
        yield from _cause("cause", why.cause, term)
    else:
        yield from labelled("cause", "it has not failed, as far as sparkd remembers", term)
    for change in why.pending.changes if why.pending else ():
        ran, file = ("(not set)" if text is None else text for text in (change.running, change.file))
        text = f"{change.key}: {'runs' if runs_on else 'last ran'} with {ran}, its file says {file}"
        yield from labelled("pending" if runs_on else "changed", text, term, "yellow")
    for other in why.also:
        yield from _cause("also", other, term)
    if why.rule or why.reason:
        yield from labelled("rule", f"{why.rule or ''} [{why.reason}]".strip() if why.reason else str(why.rule), term)


def _cause(label: str, cause: Cause, term: Terminal) -> Iterator[str]:
    kind = ", ".join(word for word in (cause.class_, cause.signature, cause.confidence) if word)
    yield from labelled(label, f"{cause.text} ({kind})" if kind else cause.text, term, "bold")
    for one in cause.evidence:
        where = ":".join(str(part) for part in (one.source, one.line) if part is not None)
        yield from labelled("evidence", f"{where}: {one.text}" if where else one.text, term)
    if cause.fix:
        yield from labelled("fix", cause.fix, term, "bold")
