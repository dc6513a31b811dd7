"""Turns a verb that changes something into a question, and its answer into an operation of the daemon."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import NamedTuple

import click

from sparkd.ctl.answers import Deployment, Status
from sparkd.ctl.cleaning import sentences, would_clean
from sparkd.ctl.client import Api, quote
from sparkd.ctl.errors import NotConfirmed, Refused, Usage
from sparkd.ctl.names import pick, suggestion
from sparkd.ctl.reading import read
from sparkd.ctl.text import ago, count, listing, say
from sparkd.ctl.wait import Operation, follow
from sparkd.ctl.words import since


class Verb(NamedTuple):
    """`asks`: it takes something away from somebody, so a person has to say yes. `effect` completes "would …"."""

    asks: bool
    effect: str


VERBS = {
    "start": Verb(False, "start {name} on {nodes} and keep it up"),
    "stop": Verb(True, "stop {name}: its ranks on {nodes} end, and it stays down until somebody starts it"),
    "restart": Verb(True, "restart {name}: its ranks on {nodes} end together and start again as generation {next}"),
    "pause": Verb(True, "pause {name}: sparkd looks, but starts and stops nothing of it until it is resumed"),
    "resume": Verb(False, "resume {name}: sparkd supervises it again"),
    "release": Verb(False, "release {name} from its hold and try again, with a fresh restart budget"),
}


class Asked(NamedTuple):
    """What was typed beside the verb and the name."""

    message: str = ""
    assume_lost: tuple[str, ...] = ()
    yes: bool = False
    dry_run: bool = False
    wait: bool = False
    timeout_s: float | None = None
    clean: bool = False
    force: bool = False


def change(api: Api, verb: str, name: str | None, asked: Asked, as_json: bool) -> int:
    """Asks, operates, waits where that is wanted; the exit code. Raises CtlError."""
    if asked.timeout_s is not None and not asked.wait:
        raise Usage("--timeout says how long to wait, and nothing waits here", "add --wait")
    status = read(Status, api.get("/api/v1/status"))
    deployment = pick(status, name)
    _check_nodes(status, asked.assume_lost)
    effect = _effect(verb, deployment, status, asked)
    if asked.dry_run:
        return _dry_run(api, verb, deployment, effect, asked.clean, as_json)
    if (VERBS[verb].asks or asked.assume_lost) and not asked.yes:
        _confirm(effect)
    body = {
        "message": asked.message,
        "assume_lost": list(asked.assume_lost),
        "clean": asked.clean,
        "to": None,
        **({"force": True} if asked.force else {}),  # a daemon that is older knows no such key
    }
    answer = api.post(f"/api/v1/deployments/{quote(deployment.name)}/{verb}", body)
    operation = Operation(str(answer.get("operation", "")), verb, deployment.name)
    if asked.wait:
        return follow(api, operation, asked.timeout_s, as_json)
    if as_json:
        print(json.dumps(answer, indent=2))
    else:
        say(f"The {verb} of {deployment.name} is under way. See it with: `sparkd ctl watch {deployment.name}`")
    return 0


def _effect(verb: str, deployment: Deployment, status: Status, asked: Asked) -> list[str]:
    """What will happen, and what speaks against it, as sentences without their capital."""
    nodes = listing(dict.fromkeys(rank.node for rank in deployment.ranks)) or "its nodes"
    known = {"name": deployment.name, "nodes": nodes, "next": (deployment.generation or 0) + 1}
    effect = [VERBS[verb].effect.format(**known)]
    if VERBS[verb].asks and deployment.serving:
        began = since(deployment)
        effect.append("It is serving" + (f" since {ago(began, status.at)}." if began is not None else "."))
    if asked.clean:
        effect.append("Its compile caches are emptied first, so this start takes as long as the very first one.")
    for node in asked.assume_lost:
        view = status.node(node)
        effect.append(
            f"{node} is declared lost: what runs there counts as dead, unseen. Only right if it is switched off."
        )
        if not (view and view.unread):
            effect.append(f"But {node} answers right now.")
    return effect


def _check_nodes(status: Status, nodes: Sequence[str]) -> None:
    names = [node.name for node in status.nodes]
    for node in nodes:
        if node not in names:
            raise Usage(f"there is no node {node!r} in {status.cluster}", suggestion(node, names))


def _refuse(verb: str, deployment: Deployment) -> None:
    """Raises what the daemon would answer, by the daemon's own rule."""
    if deployment.hold and deployment.hold.fact == "config":
        refused = f"{deployment.name} is held: {deployment.file} cannot be used", "sparkd config check"
    else:
        from sparkd.fleet.intents import conflict
        from sparkd.model.decision import Intent, Phase, State  # not on the way of `ctl status`

        found = conflict(Intent(paused=deployment.paused), State(phase=Phase(deployment.phase)), verb)
        if found is None:
            return
        refused = f"{deployment.name}: {found[0]}", found[1].format(name=deployment.name)
    raise Refused(*refused, "conflict", 409)


def _come_true(verb: str, deployment: Deployment) -> str:
    """What it is already, where this verb asks for just that."""
    true = {
        "start": deployment.serving and deployment.wanted == "up" and "serving",
        "stop": deployment.phase == "stopped" and deployment.wanted == "stopped" and "stopped",
        "pause": deployment.paused and "paused",
    }
    return true.get(verb) or ""


def _dry_run(api: Api, verb: str, deployment: Deployment, effect: list[str], clean: bool, as_json: bool) -> int:
    """Raises Refused where the daemon would refuse."""
    _refuse(verb, deployment)
    already = _come_true(verb, deployment)
    would = f"do nothing: {deployment.name} is already {already}" if already else effect[0]
    starts = verb in ("start", "restart") and not already
    failing = starts and deployment.checks is not None and deployment.checks.fail
    held = [f"It would be held by what fails now: `sparkd ctl check {deployment.name}`."] if failing else []
    text = " ".join([f"would {would}.", *([] if already else effect[1:]), *held])
    cleaned = would_clean(api, deployment.name, clean) if starts else {}
    if as_json:
        answer = {
            "schema": 1,
            "dry_run": True,
            "verb": verb,
            "deployment": deployment.name,
            "text": text,
            "cleanup": cleaned,
        }
        print(json.dumps(answer, indent=2))
    else:
        up = count(sum(rank.state == "up" for rank in deployment.ranks), "rank")
        say(text)
        if cleaned:
            say("It would first take away, as of now:")
            for sentence in sentences(cleaned):
                say(sentence, indent="  ")
        say(f"Now: phase {deployment.phase}, wanted {deployment.wanted}, {up} up. Nothing was changed.")
    return 0


def _confirm(effect: list[str]) -> None:
    first, *more = effect
    question = f"{first[0].upper()}{first[1:]}."
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise NotConfirmed(f"not confirmed, nothing was changed: {first}", "there is no terminal to ask on; add --yes")
    for sentence in (question, *more):
        say(sentence, sys.stderr)
    try:
        agreed = click.confirm("Go on?", default=False, err=True)
    except click.Abort:
        agreed = False
        click.echo(err=True)
    if not agreed:
        raise NotConfirmed("not confirmed, nothing was changed")
