"""Follows an operation of the daemon to its end, for `--wait`: one line kept up to date, then the outcome."""

from __future__ import annotations

import json
import sys
import time
from typing import Any, NamedTuple

from sparkd.ctl.answers import Deployment, Status
from sparkd.ctl.client import Api, quote
from sparkd.ctl.errors import FAILED, INTERRUPTED, OUT_OF_TIME, CtlError, Refused, Unreached
from sparkd.ctl.reading import read
from sparkd.ctl.text import Terminal, count, duration, labelled, say, terminal
from sparkd.ctl.words import STARTING, verdict, what_next, why
from sparkd.verbs import Verb

POLL_S = 0.5
PATIENCE_S = 60.0
"""How long sparkd itself may be away meanwhile: it may be restarted at any time, and is back within 15 s."""

PHASES = {
    **STARTING,
    "stopped": "stopped",
    "adopting": "sparkd is looking at what runs",
    "serve": "serving",
    "backoff": "pausing before the next start",
    "held": "held",
    "paused": "paused",
}


class Operation(NamedTuple):
    id: str
    verb: Verb
    deployment: str


class Look(NamedTuple):
    """What one look at the daemon found; `outcome` is done, failed, or None while it goes on."""

    outcome: str | None
    said: str
    deployment: Deployment
    status: Status
    raw: dict[str, Any]


class Removed(Exception):
    """Done, and with it the deployment is gone: its file was, and it went on only until it was stopped."""


class ProgressLine:
    """On a terminal one line, rewritten in place; elsewhere a line whenever `change` is another than before."""

    def __init__(self, term: Terminal) -> None:
        self._term = term
        self._last: object = None

    def show(self, change: object, text: str) -> None:
        if self._term.live:
            sys.stderr.write(f"\r\x1b[K{text[: self._term.width - 1]}")
            sys.stderr.flush()
        elif change != self._last:
            print(text, file=sys.stderr, flush=True)
        self._last = change

    def clear(self) -> None:
        if self._term.live:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def follow(api: Api, operation: Operation, timeout_s: float | None, as_json: bool) -> int:
    """The exit code: 0 done, 1 failed or held, 6 out of time, 130 interrupted. The operation is never touched."""
    line = ProgressLine(terminal(sys.stderr))
    began = heard = time.monotonic()
    try:
        while True:
            elapsed = time.monotonic() - began
            try:
                look = _look(api, operation)
                heard = time.monotonic()
            except Unreached as error:
                if time.monotonic() - heard > PATIENCE_S:
                    raise
                look = None
                line.show("away", f"{operation.deployment}: {error.text}; trying again")
            except Removed as removed:
                line.clear()
                return _removed(str(removed), operation, elapsed, as_json)
            if look:
                line.show(_change(look), f"{operation.deployment}: {_doing(look)} [{duration(elapsed)}]")
            if look and look.outcome:
                line.clear()
                return _end(look, operation, elapsed, as_json)
            if timeout_s is not None and elapsed >= timeout_s:
                line.clear()
                return _out_of_time(look, operation, elapsed, as_json)
            time.sleep(POLL_S if timeout_s is None else min(POLL_S, max(0.0, timeout_s - elapsed)))
    except KeyboardInterrupt:
        line.clear()
        say(
            f"\nNot cancelled: sparkd goes on with the {operation.verb.name} of {operation.deployment}. "
            f"See it with: `sparkd ctl watch {operation.deployment}`",
            sys.stderr,
        )
        return INTERRUPTED


def _look(api: Api, operation: Operation) -> Look:
    try:
        answer = api.get(f"/api/v1/operations/{quote(operation.id)}")
    except Refused as error:
        if error.status != 404:
            raise
        answer = {}  # sparkd was restarted meanwhile: intent and state survive that, its list of operations does not
    raw = api.get("/api/v1/status")
    status = read(Status, raw)
    deployment = next((one for one in status.deployments if one.name == operation.deployment), None)
    if deployment is None and answer.get("state") == "done":
        raise Removed(answer["sentence"])
    if deployment is None:
        raise CtlError(f"{operation.deployment} is not configured any more", "see what is: sparkd config check")
    mine = next(one for one in raw["deployments"] if one["name"] == deployment.name)
    state = str(answer.get("state") or _told_from(deployment, operation.verb))
    return Look(_OUTCOMES.get(state), str(answer.get("sentence") or ""), deployment, status, mine)


_OUTCOMES = {"done": "done", "failed": "failed", "held": "failed", "superseded": "failed"}


def _told_from(deployment: Deployment, verb: Verb) -> str:
    """How far an operation is that the daemon does not know any more, told from the deployment alone."""
    if verb.goal(deployment):
        return "done"
    return "held" if deployment.phase == "held" else "running"


def _change(look: Look) -> object:
    one = look.deployment
    late = one.start.suspect is not None if one.start else False
    return one.phase, one.start.stage if one.start else None, late, _still_up(one)


def _still_up(deployment: Deployment) -> int:
    return sum(rank.state == "up" for rank in deployment.ranks)


def _doing(look: Look) -> str:
    deployment = look.deployment
    if deployment.wanted != "up" and _still_up(deployment):
        return f"stopping, {count(_still_up(deployment), 'rank')} still up"
    words = PHASES.get(deployment.phase, deployment.phase)
    if deployment.start is None or deployment.phase not in STARTING:
        return words
    if deployment.start.stage:
        words += f", {deployment.start.stage}"
    eta = deployment.start.eta_s
    if deployment.start.suspect:
        words += ", which takes longer than it ever did"
    return words if eta is None else f"{words}, about {duration(eta)} to go"


def _end(look: Look, operation: Operation, elapsed: float, as_json: bool) -> int:
    code = 0 if look.outcome == "done" else FAILED
    if as_json:
        _print_json(look, operation, look.outcome or "", elapsed)
        return code
    if code == 0:
        say(f"{verdict(look.deployment, look.status).text} [{operation.verb.name}: {duration(elapsed)}]")
        return code
    term = terminal()
    say(f"The {operation.verb.name} failed after {duration(elapsed)}. {verdict(look.deployment, look.status).text}")
    for label, text in (
        ("why", look.said or why(look.deployment)),
        ("fix", look.deployment.hold.fix if look.deployment.hold else ""),
        ("next", what_next(look.deployment, look.status)),
        ("see", f"sparkd ctl why {operation.deployment}"),
    ):
        if text:
            print("\n".join(labelled(label, text, term)))
    return code


def _removed(said: str, operation: Operation, elapsed: float, as_json: bool) -> int:
    if as_json:
        _print_json(None, operation, "done", elapsed, said)
    else:
        say(f"{operation.deployment} is stopped: {said} [{operation.verb.name}: {duration(elapsed)}]")
    return 0


def _out_of_time(look: Look | None, operation: Operation, elapsed: float, as_json: bool) -> int:
    if as_json:
        _print_json(look, operation, "timeout", elapsed)
    else:
        state = f" It is at: {_doing(look)}." if look else ""
        say(f"Not done after {duration(elapsed)}: the {operation.verb.name} of {operation.deployment} goes on.{state}")
        say(f"See it with: `sparkd ctl watch {operation.deployment}`")
    return OUT_OF_TIME


def _print_json(look: Look | None, operation: Operation, outcome: str, elapsed: float, said: str = "") -> None:
    answer = {
        "schema": 1,
        "operation": operation.id,
        "verb": operation.verb.name,
        "outcome": outcome,
        "text": look.said or why(look.deployment) if look else said,
        "seconds": round(elapsed, 1),
        "deployment": look.raw if look else None,
    }
    print(json.dumps(answer, indent=2))
