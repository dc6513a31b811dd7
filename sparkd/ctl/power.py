"""Asks the daemon to take the power of a node and give it back; says before what that does, and afterwards how it ended."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from sparkd.ctl.answers import Status
from sparkd.ctl.change import confirm
from sparkd.ctl.client import Api, quote
from sparkd.ctl.errors import FAILED
from sparkd.ctl.names import pick_node
from sparkd.ctl.reading import read
from sparkd.ctl.text import say

MARGIN_S = 15.0
"""Beside the hook's own time, for a daemon that is busy."""


class Asked(NamedTuple):
    force: bool
    message: str
    yes: bool
    dry_run: bool


def cycle(api: Api, node: str, asked: Asked, as_json: bool) -> int:
    """0 where the hook succeeded, else 1. Raises CtlError."""
    status = read(Status, api.get("/api/v1/status"))
    name = pick_node(status, node).name
    path = f"/api/v1/nodes/{quote(name)}"
    known = api.get(f"{path}/power")
    effect = list(_effect(name, known, status))
    if asked.dry_run:
        return _dry_run(name, known, effect, asked, as_json)
    if not asked.yes:
        confirm(effect)
    api.deadline_s = float(known.get("timeout_s") or 0.0) + MARGIN_S
    answer = api.post(f"{path}/power-cycle", {"message": asked.message, **({"force": True} if asked.force else {})})
    if as_json:
        print(json.dumps(answer, indent=2))
    elif answer.get("ok"):
        say(
            f"The power of {name} was taken and given back ({answer.get('text')}). See it boot with: `sparkd ctl nodes`"
        )
    else:
        say(f"The power of {name} was NOT taken and given back: {answer.get('text')}")
    return 0 if answer.get("ok") else FAILED


def _effect(name: str, known: dict[str, Any], status: Status) -> Iterator[str]:
    """What it does, and what speaks against it. The first sentence is without its capital and its full stop."""
    yield f"power-cycle {name}: {known.get('would')}"
    if known.get("answers"):
        yield f"But {name} answers right now: `sparkd ctl maintenance {name}` stops what runs there in order, then reboot it."
    serving = [one.name for one in status.deployments if one.serving and any(rank.node == name for rank in one.ranks)]
    if serving:
        yield f"What runs there dies at once: {', '.join(serving)}."
    if known.get("again_at"):
        yield f"It was done less than 6 h ago: without --force it is refused until {known['again_at']}."


def _dry_run(name: str, known: dict[str, Any], effect: list[str], asked: Asked, as_json: bool) -> int:
    first, *more = effect
    text = " ".join([f"would {first}.", *more])
    if as_json:
        answer = {"schema": 1, "dry_run": True, "verb": "power-cycle", "node": name, "text": text, "power": known}
        print(json.dumps(answer, indent=2))
    else:
        say(text)
        say("Nothing was changed.")
    return 0
