"""The next start against what worked last: what differs is said first, and what is known to break it stops it."""

from __future__ import annotations

from collections.abc import Iterator

from sparkd.checks.shared.scene import Check, Scene, Trouble
from sparkd.drift.difference import Difference, Severity
from sparkd.drift.report import named
from sparkd.model.check import Level
from sparkd.model.config import Deployment
from sparkd.model.snapshot import Unknown
from sparkd.model.words import OF_A_FILE, short

CODE = "drift"
"""It asks for no facts of its own: what the other checks have not read is not compared."""
REFUSE = "refuse"


def evaluate(scene: Scene) -> Iterator[Trouble]:
    """One trouble for all that breaks, one for the rest: a start may differ in many things, and is one start."""
    if scene.drift is None:
        return
    if isinstance(scene.drift, Unknown):
        text = f"what worked is not known now: {scene.drift.why}"
        yield Trouble(None, text, f"sparkd ctl known-good list {scene.deployment.name}", mild=True)
        return
    name, refuses = scene.deployment.name, scene.deployment.policy.drift == REFUSE
    breaking = tuple(one for one in scene.drift.serious if one.severity is Severity.BREAKS)
    rest = tuple(one for one in scene.drift.serious if one.severity is not Severity.BREAKS)
    for found, breaks in ((breaking, True), (rest, False)):
        if found:
            text = f"differs from the last good ({scene.drift.against}) in: {named(found)}"
            why = f"; {found[0].why}" if found[0].why else ""
            older = any(one.kind in OF_A_FILE for one in found)
            undo = f"; put it back: sparkd ctl known-good rollback {name}" if older else ""
            forced = f", or start it all the same: sparkd ctl start {name} --force" if breaks and refuses else ""
            nodes = {one.node for one in found}
            yield Trouble(
                nodes.pop() if len(nodes) == 1 else None,
                text + (why if breaks else ""),
                f"sparkd ctl drift {name}{undo}{forced}",
                tuple(map(_line, found)),
                mild=not (breaks and refuses),
                not_yet=all(one.kind == "host" for one in found),
            )


def _line(one: Difference) -> str:
    place = "" if one.rank is None else f" (rank {one.rank})"
    return f"{one.severity}: {one.name}{place}: {short(one.known)} -> {short(one.live)}"


def _is_on(deployment: Deployment) -> bool:
    return deployment.policy.drift != "off"


CHECK = Check(
    code=CODE,
    order=260,
    level=Level.FAIL,
    description="What the next start differs in from the last one that worked; with `policy: {drift: refuse}`, what breaks stops it.",
    evaluate=evaluate,
    applies=_is_on,
)
