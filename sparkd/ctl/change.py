"""Turns a verb that changes something into a question, and its answer into an operation of the daemon."""

from __future__ import annotations

import json
import sys
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
from sparkd.model.decision import Intent, Phase, State
from sparkd.verbs import Option, Options, Verb


class Asked(NamedTuple):
    """What was typed beside the verb and the name; `options` are those that this verb takes."""

    options: Options
    message: str
    yes: bool
    dry_run: bool
    wait: bool
    timeout_s: float | None


def change(api: Api, verb: Verb, name: str | None, asked: Asked, as_json: bool) -> int:
    """Asks, operates, waits where that is wanted; the exit code. Raises CtlError."""
    if asked.timeout_s is not None and not asked.wait:
        raise Usage("--timeout says how long to wait, and nothing waits here", "add --wait")
    status = read(Status, api.get("/api/v1/status"))
    deployment = pick(status, name)
    _check_nodes(status, verb, asked.options)
    effect = _effect(verb, deployment, status, asked.options)
    if asked.dry_run:
        return _dry_run(api, verb, deployment, effect, asked.options, as_json)
    if verb.asks and not asked.yes:
        confirm(effect)
    body = {"message": asked.message, **asked.options}  # nothing that was not given: an older daemon may not know it
    answer = api.post(f"/api/v1/deployments/{quote(deployment.name)}/{verb.name}", body)
    operation = Operation(str(answer.get("operation", "")), verb, deployment.name)
    if asked.wait:
        return follow(api, operation, asked.timeout_s, as_json)
    if as_json:
        print(json.dumps(answer, indent=2))
    else:
        say(f"The {verb.name} of {deployment.name} is under way. See it with: `sparkd ctl watch {deployment.name}`")
    return 0


def _effect(verb: Verb, deployment: Deployment, status: Status, given: Options) -> list[str]:
    """What will happen, and what speaks against it, as sentences without their capital."""
    nodes = listing(dict.fromkeys(rank.node for rank in deployment.ranks)) or "its nodes"
    known = {"name": deployment.name, "nodes": nodes, "next": (deployment.generation or 0) + 1}
    effect = [verb.effect.format(**known)]
    if verb.asks and deployment.serving:
        began = since(deployment)
        effect.append("It is serving" + (f" since {ago(began, status.at)}." if began is not None else "."))
    for option in verb.takes:
        if option.key in given and not option.nodes:
            effect.append(option.effect)
    for option, node in _named(verb, given):
        effect.append(option.effect.format(node=node))
        view = status.node(node)
        if not (view and view.unread):
            effect.append(option.answering.format(node=node))
    return [sentence for sentence in effect if sentence]


def _named(verb: Verb, given: Options) -> list[tuple[Option, str]]:
    """The nodes that were given, each with the option it was given with."""
    return [(one, node) for one in verb.takes if one.nodes for node in given.get(one.key, ())]


def _check_nodes(status: Status, verb: Verb, given: Options) -> None:
    names = [node.name for node in status.nodes]
    for _, node in _named(verb, given):
        if node not in names:
            raise Usage(f"there is no node {node!r} in {status.cluster}", suggestion(node, names))


def _refuse(verb: Verb, deployment: Deployment) -> None:
    """Raises what the daemon would answer, by the daemon's own rule."""
    if deployment.hold and deployment.hold.fact == "config":
        refused = f"{deployment.name} is held: {deployment.file} cannot be used", "sparkd config check"
    else:
        found = verb.conflict(Intent(paused=deployment.paused), State(phase=Phase(deployment.phase)))
        if found is None:
            return
        refused = f"{deployment.name}: {found[0]}", found[1].format(name=deployment.name)
    raise Refused(*refused, "conflict", 409)


def _dry_run(api: Api, verb: Verb, deployment: Deployment, effect: list[str], given: Options, as_json: bool) -> int:
    """Raises Refused where the daemon would refuse."""
    _refuse(verb, deployment)
    already = verb.already if verb.goal(deployment) else ""
    would = f"do nothing: {deployment.name} is already {already}" if already else effect[0]
    starts = verb.starts and not already
    failing = starts and deployment.checks is not None and deployment.checks.fail
    held = [f"It would be held by what fails now: `sparkd ctl check {deployment.name}`."] if failing else []
    text = " ".join([f"would {would}.", *([] if already else effect[1:]), *held])
    cleaned = would_clean(api, deployment.name, bool(given.get("clean"))) if starts else {}
    if as_json:
        answer = {
            "schema": 1,
            "dry_run": True,
            "verb": verb.name,
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


def confirm(effect: list[str]) -> None:
    """Asks on a terminal; the first sentence has no capital. Raises NotConfirmed."""
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
