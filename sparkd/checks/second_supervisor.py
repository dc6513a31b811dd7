"""Others that would start engines on these nodes as well: units, timers, restart policies; and upgrades that reboot."""

from __future__ import annotations

import re
from collections.abc import Iterator

from sparkd.checks.shared.scene import Ask, Check, Place, Scene, Text, Trouble
from sparkd.checks.shared.starters import Starter, about, containers, named, shown, starters
from sparkd.engines import recognised
from sparkd.facts.boots import BOOTS
from sparkd.facts.containers import CONTAINERS
from sparkd.facts.units import UNITS
from sparkd.model.check import Level

STARTS = re.compile(rf"{recognised.STARTS}|spark(?:run|ring)|launch-cluster")
CONTAINERS_OF_IT = re.compile(
    r"\b(?:docker|podman|nerdctl)(?: container)? (?:run|start|restart|exec)\b|\bcompose\b.*\b(?:up|start|run)\b"
)
SCRIPTS = re.compile(rf"/[^/ ]*(?:{recognised.NAMES})[^/ ]*\.sh|(?:start|serve|launch|run)[^/ ]*\.(?:sh|py)")


def asks(scene: Scene) -> Iterator[Ask]:
    """What the scripts inside containers say: units of the first report start nothing by their own words."""
    for node in scene.deployment.nodes:
        for starter in starters(scene, node):
            if starter.starts_itself:
                yield from _scripts(scene, starter)


def evaluate(scene: Scene) -> Iterator[Trouble]:
    for node in scene.deployment.nodes:
        for starter in starters(scene, node):
            if starter.starts_itself:
                yield from _second(scene, starter)
    for node, boots in scene.each(BOOTS):
        if boots.automatic is not None:
            text = f"upgrades reboot {node} by themselves ({boots.automatic}), and the group goes down with it"
            fix = f"on {node}: set Unattended-Upgrade::Automatic-Reboot to false, and reboot when it suits (sparkd ctl stop)"
            yield Trouble(node, text, fix, _required(boots.required), mild=True)
        elif boots.required is not None:
            text = f"{node} waits for a reboot after an upgrade"
            fix = f"on {node}: reboot when it suits; sparkd starts the group again by itself"
            yield Trouble(node, text, fix, _required(boots.required), mild=True)


def _required(packages: str | None) -> tuple[str, ...]:
    return (f"reboot-required: {packages}",) if packages else ()


def _second(scene: Scene, starter: Starter) -> Iterator[Trouble]:
    said = " ".join([starter.text, *_read(scene, starter)])
    images = _named(scene, starter)
    starts = starter.uses() or SCRIPTS.search(said) or CONTAINERS_OF_IT.search(said)
    if not (STARTS.search(said) or (about(f"{said} {images}") and starts)):
        return
    same = list(_same(scene, said))
    image = scene.deployment.image
    also = ["the same image"] if image and (image in said or image in images) else []
    what = f"would start these ranks as well ({', '.join(same + also)})" if same else "starts an engine here as well"
    who = f"{starter.name} on {starter.node}"
    if starter.container is not None:
        who = f"Docker starts {who} again by itself (restart: {starter.container.restart}): it"
    text = f"{who} {what}, and two supervisors fight over one node's memory"
    fix = f"{starter.end} (what sparkd runs, sparkd alone starts)"
    yield Trouble(starter.node, text, fix, (starter.seen, *_evidence(starter)), mild=not same)


def _evidence(starter: Starter) -> Iterator[str]:
    if starter.unit is not None:
        lines = (f"{one.key}={shown(one.words)}" for one in starter.unit.commands if one.key == "ExecStart")
        yield from lines
        yield from (f"{path} says: {said}"[:300] for path, said in starter.unit.says)
        timers = [name for name in starter.unit.triggered_by if name.endswith(".timer")]
        yield from (f"started by {name}" for name in timers)


def _same(scene: Scene, said: str) -> Iterator[str]:
    """What of this deployment is named: more than the image, which other engines may share with it."""
    deployment = scene.deployment
    for port in dict.fromkeys((deployment.port, deployment.master_port)):
        if re.search(rf"port[= ]['\"]?{port}\b", said):
            yield f"port {port}"
    if deployment.model and re.search(rf"(?<![\w./-]){re.escape(deployment.model)}(?![\w./-])", said):
        yield f"model {deployment.model}"


def _named(scene: Scene, starter: Starter) -> str:
    """Images and names of the containers that it works on."""
    there = containers(scene, starter.node)
    return " ".join(one.text for name in starter.uses() if (one := named(there, name)) is not None)


def _scripts(scene: Scene, starter: Starter) -> Iterator[Text]:
    there = containers(scene, starter.node)
    for need, _ in starter.needs:
        container = named(there, need.place.name) if need.place.kind == "container" else None
        if container is not None and need.role == "script" and need.path.startswith("/"):
            yield Text(starter.node, Place("container", container.id), need.path)


def _read(scene: Scene, starter: Starter) -> Iterator[str]:
    for ask in _scripts(scene, starter):
        text = scene.answer(ask)
        if isinstance(text, str):
            yield text.replace("\\\n", " ")


CHECK = Check(
    code="second-supervisor",
    order=110,
    level=Level.FAIL,
    description="Nothing but sparkd starts engines on these nodes: units, timers, restart policies, sparkrun and sparkring; "
    "and no upgrade reboots them.",
    evaluate=evaluate,
    needs=(UNITS, CONTAINERS, BOOTS),
    asks=asks,
)
