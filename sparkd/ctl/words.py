"""Turns one deployment's status into the words a person reads first: the verdict, why, and what happens next."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from sparkd.ctl.answers import Deployment, Node, Status
from sparkd.ctl.text import ago, clock, duration, listing

STARTING = {
    "precheck": "checking the nodes",
    "cleanup": "cleaning up behind the last start",
    "start_workers": "starting the workers",
    "start_head": "starting the head",
    "warmup": "waiting for its first answer",
}
"""Phases on the way up, in their order."""


UNREAD = "intent-unread"
"""Reason code: neither the journal nor its spare tells what people wanted."""
NONSENSE = "nonsense"
"""Reason code: it answers, and what it answers makes no sense."""
PROBLEMS_SHOWN = 4
"""Problems of a deployment file that are shown; `sparkd config check` shows all of them."""


class Verdict(NamedTuple):
    text: str
    colour: str
    worry: int
    """How far up it goes on the screen, and in the list of those that need a look: 0 is fine."""


def verdict(deployment: Deployment, status: Status) -> Verdict:
    """The first line. Says NOT in capitals only where something that is wanted up does not answer."""
    name = deployment.name
    unread = listing(node.name for node in status.unread_nodes(deployment))
    if node := planned_on(deployment):
        return Verdict(f"{name} is stopped for the maintenance of {node}.", "yellow", 4)
    if deployment.phase == "held":
        how = "held until its cause is gone" if heals(deployment) else "held, it needs a person"
        if deployment.wanted != "up":
            return Verdict(f"{name} could not start: {how}.", "yellow", 4)
        return Verdict(f"{name} is NOT serving: {how}.", "red", 9)
    if deployment.phase == "paused":
        return _paused(deployment)
    if deployment.wanted != "up":
        return _unwanted(deployment, unread)
    if deployment.serving:
        short = listing(node.name for node in short_nodes(deployment, status))
        troubles = [f"{unread} cannot be asked"] * bool(unread) + [f"memory runs short on {short}"] * bool(short)
        but = f", but {listing(troubles)}" if troubles else ""
        return Verdict(f"{name} is serving{but}.", "yellow" if troubles else "green", 3 if troubles else 0)
    return _underway(deployment, status, unread)


def short_nodes(deployment: Deployment, status: Status) -> tuple[Node, ...]:
    """Nodes of it whose memory runs out or drains."""
    names = {rank.node for rank in deployment.ranks}
    return tuple(node for node in status.nodes if node.memory_alerts and node.name in names)


def planned_on(deployment: Deployment) -> str:
    """The node for whose maintenance it is stopped, or nothing."""
    kind, _, node = deployment.hold.fact.partition(":") if deployment.hold else ("", "", "")
    return node if kind == "maintenance" else ""


def _paused(deployment: Deployment) -> Verdict:
    if deployment.reason == UNREAD:
        serves = "is serving" if deployment.serving else "is NOT serving"
        return Verdict(f"{deployment.name} {serves}, and what was wanted of it is lost: it needs a person.", "red", 8)
    if deployment.wanted != "up":
        return Verdict(f"{deployment.name} is paused, and not wanted up.", "bold", 2)
    if deployment.serving:
        return Verdict(f"{deployment.name} is serving, but paused: sparkd looks and does nothing.", "yellow", 4)
    return Verdict(f"{deployment.name} is paused and NOT serving: sparkd looks and does nothing.", "red", 7)


def _unwanted(deployment: Deployment, unread: str) -> Verdict:
    if deployment.phase == "stopped":
        return Verdict(f"{deployment.name} is stopped, as wanted.", "bold", 1)
    waits = f", but {unread} cannot be asked" if unread else ""
    return Verdict(f"{deployment.name} is being stopped{waits}.", "yellow", 2)


def _underway(deployment: Deployment, status: Status, unread: str) -> Verdict:
    name, phase = deployment.name, deployment.phase
    if phase == "adopting":
        waits = f"{unread} cannot be asked" if unread else "sparkd is looking at what runs"
        return Verdict(f"{name} is not judged yet: {waits}.", "yellow", 8 if unread else 5)
    if deployment.reason == NONSENSE:
        return Verdict(f"{name} is NOT serving: its answers make no sense.", "red", 8)
    if phase == "serve":
        tied = f", and {unread} cannot be asked, so sparkd restarts nothing" if unread else ""
        return Verdict(f"{name} is NOT answering{tied}.", "red", 8)
    if unread:
        return Verdict(f"{name} is NOT serving: {unread} cannot be asked, so sparkd starts nothing.", "red", 8)
    if phase == "backoff":
        when = f"in {duration(deployment.next.at - status.at)}" if deployment.next else "by itself"
        return Verdict(f"{name} is NOT serving: it failed, and starts again {when}.", "red", 6)
    if phase == "stopped":
        return Verdict(f"{name} is NOT serving: sparkd is about to start it.", "yellow", 5)
    if phase in STARTING:
        eta = deployment.start.eta_s if deployment.start else None
        if deployment.start and (late := deployment.start.suspect):
            from sparkd.model.words import suspect_words  # only here: it costs `ctl status` its start

            slow = f"stage {late.stage} takes too long, {suspect_words(late.seconds, late.longest_s)}"
            return Verdict(f"{name} is starting: {slow}.", "yellow", 6)
        ready = f", ready in about {duration(eta)}" if eta is not None else ""
        return Verdict(f"{name} is starting: {STARTING[phase]}{ready}.", "yellow", 5)
    return Verdict(f"{name} is NOT serving: phase {phase}.", "red", 8)


def headline(status: Status, deployments: tuple[Deployment, ...]) -> Verdict:
    """One sentence over several deployments; the verdict itself where there is one."""
    if not deployments:
        return Verdict("No deployment is configured.", "bold", 0)
    if len(deployments) == 1:
        return verdict(deployments[0], status)
    wanted = [deployment for deployment in deployments if deployment.wanted == "up"]
    down = [deployment.name for deployment in wanted if deployment.missed]
    if not wanted:
        return Verdict("Nothing is wanted up.", "bold", 0)
    if down:
        up = len(wanted) - len(down)
        serve = "serves" if up == 1 else "serve"
        text = f"{up} of {len(wanted)} wanted deployments {serve}; NOT serving: {listing(down)}."
        return Verdict(text, "red", 9)
    worry = max(verdict(deployment, status).worry for deployment in wanted)
    return Verdict("Everything that is wanted up is serving.", "yellow" if worry else "green", worry)


def heals(deployment: Deployment) -> bool:
    return deployment.hold is not None and deployment.hold.heals_itself


def since(deployment: Deployment) -> float | None:
    """Since when it serves, as its users see it: over restarts of sparkd. Otherwise since when it is in its phase."""
    serving = deployment.serving_since if deployment.serving else None
    return serving if serving is not None else deployment.since


def down_for(deployment: Deployment, status: Status) -> str:
    """How long it has not answered, and how much of that nobody could tell; empty where it is not missed."""
    down = deployment.down_since
    if not deployment.missed or down is None or deployment.phase == "adopting":
        return ""
    unread = deployment.outage.unread_s if deployment.outage else 0.0
    nobody = f"; for {duration(unread)} of it nobody could tell" if unread else ""
    return f"{duration(status.at - down)}, since {clock(down, status.at)}{nobody}"


def why(deployment: Deployment) -> str:
    """The daemon's sentence, and the hold's own text where the sentence does not say it; one problem a line."""
    hold = deployment.hold.text if deployment.hold else ""
    said = deployment.sentence
    first, *more = hold.splitlines() or [""]
    if more:
        count = f"\nand {len(more) + 1 - PROBLEMS_SHOWN} more" if len(more) + 1 > PROBLEMS_SHOWN else ""
        return "\n".join([first, *more][:PROBLEMS_SHOWN]) + count
    if hold and hold not in said:
        return f"{said.rstrip('.')}; {hold}" if said else hold
    return said


def what_next(deployment: Deployment, status: Status) -> str:
    """What sparkd does next by itself and when, or who has to do what instead."""
    if deployment.reason == UNREAD:
        return f"nothing, until `sparkd ctl start {deployment.name}` or `sparkd ctl stop {deployment.name}` says what is wanted"
    if deployment.phase == "paused":
        return f"nothing, until `sparkd ctl resume {deployment.name}`"
    if deployment.phase == "held":
        return _after_hold(deployment)
    if deployment.next:
        return f"{deployment.next.what}, {ago(deployment.next.at, status.at)}"
    unread = listing(node.name for node in status.unread_nodes(deployment))
    if unread:
        return f"sparkd keeps asking {unread}; until it knows what runs there, it starts and kills nothing"
    if deployment.reason == NONSENSE:
        name = deployment.name
        return f"sparkd asks again, and restarts nothing; `sparkd ctl drift {name}`, then `sparkd ctl restart {name}`"
    special = _NEXT.get(deployment.phase)
    if special:
        return special(deployment, status)
    if deployment.phase in STARTING:
        return _ready(deployment, status)
    return "nothing is planned"


def _after_hold(deployment: Deployment) -> str:
    if deployment.hold and deployment.hold.heals_itself:
        return f"goes on by itself when {deployment.hold.awaits or 'that is right'}"
    if deployment.hold and deployment.hold.fact == "config":
        return "nothing by itself: its file has to be corrected first"
    return f"nothing by itself: fix the cause, then `sparkd ctl release {deployment.name}`"


def _ready(deployment: Deployment, status: Status) -> str:
    eta = deployment.start.eta_s if deployment.start else None
    if deployment.start and deployment.start.suspect:
        return "serving, once it answers a real request; sparkd looks into the stage that takes too long"
    if eta is None:
        return "serving, once it answers a real request; there is no earlier start to tell how long that takes"
    return f"serving, at about {ago(status.at + eta, status.at)}, judged by earlier starts"


_NEXT: dict[str, Callable[[Deployment, Status], str]] = {
    "stopped": lambda deployment, _status: (
        f"nothing, until `sparkd ctl start {deployment.name}`" if deployment.wanted != "up" else "sparkd starts it"
    ),
    "adopting": lambda _deployment, _status: "sparkd takes over what runs, or starts what is missing",
}
