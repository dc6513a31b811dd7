"""Checks and a scene -> findings: a row for every check and node, so that `ok` is a statement and not a silence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from sparkd.checks.shared.scene import Ask, Check, Scene, Trouble
from sparkd.model.check import Finding, Level, Status
from sparkd.model.config import Cluster, Deployment
from sparkd.model.hiding import Hiding
from sparkd.model.snapshot import DOCKER_STOPPED, Unknown


def levels(cluster: Cluster, deployment: Deployment) -> Mapping[str, str]:
    """What the configuration says of single checks; the deployment's file goes over sparkd.yaml."""
    return {**cluster.checks, **deployment.checks}


def chosen(checks: Iterable[Check], deployment: Deployment, said: Mapping[str, str]) -> list[Check]:
    """The checks that are worth their facts for this deployment."""
    return [one for one in checks if one.applies(deployment) and _level(one, said) is not Level.OFF]


def asks(checks: Iterable[Check], scene: Scene) -> set[Ask]:
    return {ask for check in checks for ask in check.asks(scene)}


def evaluate(checks: Iterable[Check], scene: Scene, said: Mapping[str, str]) -> tuple[Finding, ...]:
    """In the checks' order, worst first within one."""
    return tuple(finding for check in checks for finding in _of(check, scene, _level(check, said)))


def _level(check: Check, said: Mapping[str, str]) -> Level:
    return Level(said.get(check.code, check.level))


def _of(check: Check, scene: Scene, level: Level) -> list[Finding]:
    found = [_judged(check, level, trouble, scene.veil) for trouble in check.evaluate(scene)]
    unread = dict(_unread(check, scene))
    found += [_row(check, level, Status.UNKNOWN, node, f"cannot be checked: {why}") for node, why in unread.items()]
    said = {finding.node for finding in found}
    found += [_row(check, level, Status.OK, node) for node in scene.deployment.nodes if not {node, None} & said]
    return sorted(found, key=lambda finding: WORST[finding.status])


WORST = {Status.FAIL: 0, Status.UNKNOWN: 1, Status.WARN: 2, Status.OK: 3}


def _unread(check: Check, scene: Scene) -> Iterator[tuple[str, str]]:
    """Node -> why something that the check needs could not be read there."""
    for node in scene.deployment.nodes:
        view = scene.nodes.get(node)
        values = [getattr(view, field) for field in check.reads] if view is not None else []
        for value in (*values, *(scene.fact(node, fact) for fact in check.needs)):
            if isinstance(value, Unknown):
                yield node, _why(scene, node, value)
    for ask in check.asks(scene):
        answer = scene.answer(ask)
        if isinstance(answer, Unknown):
            yield ask.node, _why(scene, ask.node, answer, f"{ask.path}: ")


def _why(scene: Scene, node: str, unknown: Unknown, about: str = "") -> str:
    """Where the node could not be read at all, that is the reason, and not that its Docker was not seen running."""
    view = scene.nodes.get(node)
    if view is not None and isinstance(view.boot, Unknown) and unknown.code == DOCKER_STOPPED:
        return view.boot.why
    return f"{about}{unknown.why}"


def _judged(check: Check, level: Level, trouble: Trouble, veil: Hiding) -> Finding:
    """Secrets are hidden: a line that a node shows may have a password in it."""
    status = Status.WARN if trouble.mild or level is Level.WARN else Status.FAIL
    return Finding(
        code=check.code,
        severity=level,
        status=status,
        node=trouble.node,
        rank=trouble.rank,
        text=veil.text(trouble.text),
        evidence=tuple(map(veil.text, trouble.evidence)),
        fix=trouble.fix,
        cls=check.cls,
        not_yet=trouble.not_yet,
        passing=trouble.passing,
    )


def _row(check: Check, level: Level, status: Status, node: str, text: str = "") -> Finding:
    return Finding(code=check.code, severity=level, status=status, node=node, text=text, cls=check.cls)
