"""Loops: units and containers that end and are started again and again, which a single look can take for running.

A unit whose command ends with 127 reads `active (running)` for half a second of every five (evidence 14b), so what counts
is how often systemd has restarted it, and how lately.
"""

from __future__ import annotations

from collections.abc import Iterator
from shlex import quote

from sparkd.checks.shared.scene import Check, Scene, Trouble
from sparkd.checks.shared.starters import Starter, about, containers, shown, starters
from sparkd.facts.containers import CONTAINERS, Contained
from sparkd.facts.units import UNITS, Unit
from sparkd.model.check import Level
from sparkd.model.machine import Boot

MOST_RESTARTS = 3
"""From here on it is no accident (issue 4)."""
RECENT_S = 120.0
RECENT_PAUSES = 4
"""A restart is recent within so many of the unit's own pauses, or `RECENT_S`: the first report's unit paused 30 s."""
NOT_STARTED = {126: "cannot be executed", 127: "is not there", 203: "cannot be executed, or is not there"}
"""Exit codes of a command that never ran. `docker exec` turns 127 into 1 once its container is gone (evidence 14b2)."""


def evaluate(scene: Scene) -> Iterator[Trouble]:
    for node in scene.deployment.nodes:
        for starter in starters(scene, node):
            if starter.unit is not None:
                yield from _of_unit(starter, starter.unit)
        for container in containers(scene, node).values():
            if container.owner != scene.owner:
                yield from _of_container(scene, node, container)


# --------------------------------------------------------------------------------------------------------------- units


def _of_unit(starter: Starter, unit: Unit) -> Iterator[Trouble]:
    if _loops(unit):
        text = f"{starter.name} on {starter.node} ends and is started again and again: {_told(unit)}"
        over = unit.active == "failed" and not unit.starts_itself
        mild = over or not about(starter.text)
        yield Trouble(starter.node, text, f"{starter.end}; then {_log(unit)}", _seen(starter, unit), mild=mild)
    elif unit.loops and starter.serious and unit.limit_unreachable:
        text = (
            f"{starter.name} on {starter.node} would be started again for ever if it failed: its limit of "
            f"{unit.limit_starts} starts in {unit.limit_s:g} s cannot be reached with RestartSec={unit.restart_s:g}"
        )
        fix = f"{starter.end} (sparkd starts the engine), or set StartLimitIntervalSec= to more than the starts take"
        yield Trouble(starter.node, text, fix, _seen(starter, unit), mild=True)


def _loops(unit: Unit) -> bool:
    waiting = unit.sub.startswith("auto-restart")
    if waiting and unit.exit_code in NOT_STARTED:
        return True
    recent_s = max(RECENT_S, RECENT_PAUSES * unit.restart_s)
    recent = unit.started_ago_s is not None and unit.started_ago_s <= recent_s
    ended = unit.active == "failed" and unit.loops
    if unit.rose and unit.restarts > 1:
        return True
    return unit.restarts >= MOST_RESTARTS and (waiting or recent or ended)


def _told(unit: Unit) -> str:
    told = [f"{unit.restarts} restarts"]
    if unit.started_ago_s is not None:
        told.append(f"the last {unit.started_ago_s:.0f} s ago")
    if unit.exit_code:
        never = NOT_STARTED.get(unit.exit_code)
        told.append(f"exit {unit.exit_code}" + (f" (what it starts {never})" if never else ""))
    if unit.active == "failed":
        told.append("systemd has given it up")
    elif unit.limit_unreachable:
        told.append(f"and the limit of {unit.limit_starts} in {unit.limit_s:g} s cannot be reached, so it never ends")
    return ", ".join(told)


def _log(unit: Unit) -> str:
    whose = "" if unit.user is None else "--user "
    return f"journalctl {whose}-u {quote(unit.name)} -n 20 says why"


def _seen(starter: Starter, unit: Unit) -> tuple[str, ...]:
    last = f"NRestarts={unit.restarts} SubState={unit.sub} ExecMainStatus={unit.exit_code} Result={unit.result}"
    limit = f"Restart={unit.restart} RestartSec={unit.restart_s:g} limit {unit.limit_starts} in {unit.limit_s:g} s"
    return starter.seen, last, limit


# ---------------------------------------------------------------------------------------------------------- containers


def _of_container(scene: Scene, node: str, container: Contained) -> Iterator[Trouble]:
    # One that a person has stopped keeps its count.
    again = container.state == "running" and container.restarts >= MOST_RESTARTS and _recent(scene, node, container)
    never = container.state == "created" and container.exit_code in NOT_STARTED
    if not (container.state == "restarting" or again or never):
        return
    if never:
        text = f"container {container.name} on {node} could not be started: exit {container.exit_code}"
        fix = f"on {node}: docker inspect -f '{{{{.State.Error}}}}' {container.name}; docker rm {container.name}"
    else:
        text = (
            f"container {container.name} on {node} ends and is started again and again: {container.restarts} restarts, "
            f"exit {container.exit_code}"
        )
        end = f"docker update --restart=no {container.name} && docker stop {container.name}"
        fix = f"on {node}: docker logs --tail 20 {container.name}; {end}"
    seen = f"{container.state}, RestartCount {container.restarts}, restart policy {container.restart}"
    evidence = (seen, shown(container.argv), *filter(None, [container.error[:300]]))
    yield Trouble(node, text, fix, evidence, mild=never or not about(container.text))


def _recent(scene: Scene, node: str, container: Contained) -> bool:
    boot = scene.nodes[node].boot
    if container.started_at is None or not isinstance(boot, Boot):
        return False
    return boot.now - container.started_at <= RECENT_S


CHECK = Check(
    code="exit-loop",
    order=100,
    level=Level.FAIL,
    description="No unit or container ends and is started again for ever: it takes memory, drops caches and hides the cause.",
    evaluate=evaluate,
    needs=(UNITS, CONTAINERS),
)
