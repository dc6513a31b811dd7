"""Asks the daemon for planned work on a node, or its end; says before what that stops, and waits until it is stopped."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

from sparkd.ctl.answers import Deployment, Status
from sparkd.ctl.change import confirm
from sparkd.ctl.client import Api, quote
from sparkd.ctl.errors import OUT_OF_TIME, Unreached, Usage
from sparkd.ctl.names import pick_node
from sparkd.ctl.reading import read
from sparkd.ctl.text import ago, count, duration, listing, say, terminal
from sparkd.ctl.wait import PATIENCE_S, POLL_S, ProgressLine
from sparkd.ctl.words import planned_on

USUAL_S = 86400.0
"""What the daemon takes where no time is given."""
GONE = ("absent", "exited", "unknown")
"""States of ranks that are not in the way of a reboot: of an unknown one nobody can say more."""


class Asked(NamedTuple):
    for_s: float | None
    end: bool
    wait: bool
    timeout_s: float | None
    message: str
    yes: bool
    dry_run: bool


def maintain(api: Api, node: str, asked: Asked, as_json: bool) -> int:
    """0 when it is written down, and with --wait when nothing runs there any more; 6 out of time. Raises CtlError."""
    if asked.end and asked.for_s is not None:
        raise Usage("--for says how long it lasts, and --end that it is over", "leave one of them out")
    if asked.timeout_s is not None and not asked.wait:
        raise Usage("--timeout says how long to wait, and nothing waits here", "add --wait")
    if asked.end and asked.wait:
        raise Usage("--wait waits until nothing runs there, and --end starts it", "leave one of them out")
    status = read(Status, api.get("/api/v1/status"))
    name = pick_node(status, node).name
    effect = list(_ending(status, name) if asked.end else _effect(status, name, asked.for_s))
    if asked.dry_run:
        return _dry_run(name, effect, as_json)
    if not asked.end and not asked.yes:
        confirm(effect)
    body: dict[str, object] = {"message": asked.message}
    body |= {"end": True} if asked.end else {} if asked.for_s is None else {"for_s": asked.for_s}
    answer = api.post(f"/api/v1/nodes/{quote(name)}/maintenance", body)
    code = _wait(api, name, asked.timeout_s) if asked.wait else 0
    if as_json:
        print(json.dumps(answer | ({"stopped": code == 0} if asked.wait else {}), indent=2))
    else:
        _told(name, answer, asked, code)
    return code


def _told(name: str, answer: dict[str, Any], asked: Asked, code: int) -> None:
    if asked.end:
        say(f"The maintenance of {name} is over: what was stopped for it goes on. See it with: `sparkd ctl status`")
    elif code:
        say(f"Not stopped yet after {duration(asked.timeout_s or 0.0)}; it goes on. See it with: `sparkd ctl status`")
    elif asked.wait:
        say(f"Nothing of sparkd's runs on {name} any more. After its next boot it goes on by itself.")
    else:
        say(f"The maintenance of {name} begins: see when all is stopped with `sparkd ctl status`, end it with --end.")
    for one in answer.get("deployments") or ():
        if not asked.end:
            say(f"{one.get('name')}: {one.get('what')}", indent="  ")


def _effect(status: Status, name: str, for_s: float | None) -> Iterator[str]:
    here = [one for one in status.deployments if any(rank.node == name for rank in one.ranks)]
    stops = [one for one in here if one.wanted == "up" and not one.paused]
    what = f"drain and stop {listing(one.name for one in stops)}, on all of its nodes" if stops else "stop nothing"
    yield f"begin planned work on {name}: {what}"
    for one in stops:
        if one.serving:
            yield f"{one.name} is serving" + (
                f" since {ago(one.serving_since, status.at)}." if one.serving_since else "."
            )
    for one in here:
        if one.paused:
            yield f"{one.name} is paused: sparkd stops nothing of it, and its ranks die with a reboot."
    yield f"It goes on by itself after the next boot of {name}, and in {duration(for_s or USUAL_S)} at the latest."


def _ending(status: Status, name: str) -> Iterator[str]:
    node = status.node(name)
    if node is None or node.maintenance is None:
        yield f"be refused: {name} is not under maintenance"
        return
    held = [one.name for one in status.deployments if planned_on(one) == name]
    yield f"end the maintenance of {name}" + (f", and start {listing(held)}" if held else "")


def _dry_run(name: str, effect: list[str], as_json: bool) -> int:
    first, *more = effect
    text = " ".join([f"would {first}.", *more])
    if as_json:
        print(json.dumps({"schema": 1, "dry_run": True, "verb": "maintenance", "node": name, "text": text}, indent=2))
    else:
        say(text)
        say("Nothing was changed.")
    return 0


def _wait(api: Api, name: str, timeout_s: float | None) -> int:
    """Until no rank of sparkd's runs there. A sparkd that is restarted meanwhile goes on with it."""
    line = ProgressLine(terminal(sys.stderr))
    began = heard = time.monotonic()
    try:
        while True:
            try:
                left = _left(read(Status, api.get("/api/v1/status")), name)
                heard = time.monotonic()
            except Unreached:
                if time.monotonic() - heard > PATIENCE_S:
                    raise
                left = ["sparkd is away"]
            if not left:
                return 0
            elapsed = time.monotonic() - began
            line.show(left, f"{name}: {'; '.join(left)} [{duration(elapsed)}]")
            if timeout_s is not None and elapsed >= timeout_s:
                return OUT_OF_TIME
            time.sleep(POLL_S if timeout_s is None else min(POLL_S, max(0.0, timeout_s - elapsed)))
    finally:
        line.clear()


def _left(status: Status, name: str) -> list[str]:
    """What is still to be stopped, in words."""
    node = status.node(name)
    if node is not None and node.maintenance is None:
        return ["the maintenance begins"]
    here = [one for one in status.deployments if any(rank.node == name for rank in one.ranks)]
    return [said for one in here if one.wanted == "up" and not one.paused and (said := _still(one))]


def _still(one: Deployment) -> str:
    up = sum(rank.state not in GONE for rank in one.ranks)
    if planned_on(one) and not up:
        return ""
    return f"{one.name} is {'draining' if one.reason == 'draining' else 'stopping'}, {count(up, 'rank')} still up"
