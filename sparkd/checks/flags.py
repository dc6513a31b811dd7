"""The engine's own words: values it would refuse, names it does not know, and the start method that breaks it.

The engine's own parser judges, once it has been asked (in a short container or unit of its own, while nothing starts there):
what it refuses holds a start. Until then the table that ships with sparkd judges, and what that one refuses is a warning.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sparkd.base.did_you_mean import closest
from sparkd.checks.shared.scene import Check, Scene, Trouble
from sparkd.engines import ENGINES, like
from sparkd.engines.args import canonical, text
from sparkd.engines.base import Broken, Variables
from sparkd.engines.flags import FlagTable
from sparkd.engines.refused_values import EATEN, find, refusals
from sparkd.engines.tables import shipped
from sparkd.facts.environment import ENVIRONMENT
from sparkd.facts.image import IMAGE, Image
from sparkd.model.check import Level
from sparkd.model.config import Deployment
from sparkd.model.snapshot import Unknown

VALIDATES = "fail-on-environ-validation"
"""With it an unknown variable ends the engine."""
MAY_KNOW = "the version that runs may know it: sparkd asks it while nothing starts"
MOST_SHOWN = 80


def evaluate(scene: Scene) -> Iterator[Trouble]:
    deployment, file = scene.deployment, scene.deployment.file or "the deployment file"
    yield from _broken(scene, file)
    yield from _uneven(deployment, file)
    table = scene.parser or shipped(deployment.engine)
    yield from _flags(scene, table, file)
    yield from _variables(scene, table, file)
    for written, value in deployment.args.items():
        name = canonical(written)
        if name == like(deployment.engine).share_flag and not _is_share(value):
            text = f"{name} is {value}: it is a share of the memory, more than 0 and at most 1"
            yield Trouble(None, text, f"in {file}: args: {{{name}: 0.85}}")


def _broken(scene: Scene, file: str) -> Iterator[Trouble]:
    """First field report: two sessions were spent on a crash that one variable had made."""
    for one in _engine_variables(scene.deployment).broken:
        for rank, node in enumerate(scene.deployment.nodes):
            yield from _broken_on(scene, one, node, rank, file)


def _broken_on(scene: Scene, one: Broken, node: str, rank: int, file: str) -> Iterator[Trouble]:
    env = {**scene.deployment.env, **scene.deployment.node_env.get(node, {})}
    image, said, fix = (
        scene.fact(node, IMAGE),
        f"{one.name}={one.value}",
        f"in {file}: env: {{{one.name}: {one.instead}}}",
    )
    if env.get(one.name) == one.value:
        yield Trouble(node, f"{said} in {file}: {one.why}", f"remove {one.name} from {file}", rank=rank)
    elif one.name not in env and isinstance(image, Image) and said in image.env:
        yield Trouble(node, f"image {scene.deployment.image} on {node} sets {said}: {one.why}", fix, rank=rank)
    elif one.name not in env:
        yield from _around(scene, one, node, fix, rank)


def _around(scene: Scene, broken: Broken, node: str, fix: str, rank: int) -> Iterator[Trouble]:
    """Containers get nothing of this, units all that systemd has; an engine that a person starts has what logins have."""
    found, name = scene.fact(node, ENVIRONMENT), broken.name
    for one in () if isinstance(found, Unknown) else found:
        if (one.name, one.value) == (name, broken.value):
            hits = one.source == "systemd" and scene.deployment.runtime == "process"
            whom = "every unit" if hits else "whatever a person starts there"
            text = f"{one.source} on {node} gives {whom} {name}={broken.value}: {broken.why}"
            undo = f"systemctl unset-environment {name}" if one.source == "systemd" else f"remove it from {one.source}"
            yield Trouble(node, text, f"on {node}: {undo}" + (f", or {fix}" if hits else ""), rank=rank, mild=not hits)


def _engine_variables(deployment: Deployment) -> Variables:
    """Those of its engine; of one that this version has not, none is known."""
    engine = ENGINES.get(deployment.engine)
    return Variables() if engine is None else engine.variables


def _uneven(deployment: Deployment, file: str) -> Iterator[Trouble]:
    """All ranks are one engine: what only some of them are told fails late and silently (evidence 12)."""
    own = _engine_variables(deployment)
    names = {name for env in deployment.node_env.values() for name in env if own.own and name.startswith(own.own)}
    for name in sorted(names - {own.address}):
        values = {
            node: deployment.node_env.get(node, {}).get(name, deployment.env.get(name)) for node in deployment.nodes
        }
        if len(set(values.values())) > 1:
            seen = tuple(f"{node}: {'not set' if value is None else value}" for node, value in values.items())
            text = f"{name} differs between the ranks, which are one engine"
            yield Trouble(None, text, f"in {file}: move it from node_env to env", seen, mild=True)


def _flags(scene: Scene, table: FlagTable, file: str) -> Iterator[Trouble]:
    args = {canonical(written): value for written, value in scene.deployment.args.items()}
    for name, value in args.items() if table.flags else ():
        flag = find(table, name)
        if flag is None:
            near = closest(name, table.flags)
            hint = f"did you mean `{near}`?" if near else "leave it out" if table.own else MAY_KNOW
            yield _refused(scene, table, f"has no flag --{name}", f"in {file}: {hint}", mild=not table.own)
        else:
            for why in refusals(flag, name, value, args):
                said = f"refuses --{name} {shown(value)}: {why}"
                fix = f"in {file}: change `{name}`, or leave it out"
                if why == EATEN:
                    fix = f"in {file}: write it as a mapping: {name}: {{key: value}}"
                yield _refused(scene, table, said, fix, mild=not (table.own or why == EATEN))


def _variables(scene: Scene, table: FlagTable, file: str) -> Iterator[Trouble]:
    """A variable that the engine does not read does nothing, and only one log line among hundreds says so."""
    deployment, prefix = scene.deployment, _engine_variables(scene.deployment).own
    names = {*deployment.env, *deployment.secrets, *(name for env in deployment.node_env.values() for name in env)}
    unknown = [name for name in sorted(names) if prefix and name.startswith(prefix) and name not in table.variables]
    ends = table.own and any(canonical(name) == VALIDATES and value is True for name, value in deployment.args.items())
    for name in unknown if table.variables else ():
        near = closest(name, table.variables)
        hint = (
            f"did you mean {near}?"
            if near
            else f"remove {name}, unless a mod reads it by itself"
            if table.own
            else MAY_KNOW
        )
        yield _refused(scene, table, f"does not know the variable {name}", f"in {file}: {hint}", mild=not ends)


def _refused(scene: Scene, table: FlagTable, said: str, fix: str, mild: bool) -> Trouble:
    """What ships is another version than the image's, as likely as not: its word is a warning."""
    evidence = () if table.own else (f"judged by sparkd's table of {table.engine} {table.version}", scene.unasked)
    return Trouble(
        None, f"{table.label(scene.deployment.runtime)} {said}", fix, tuple(filter(None, evidence)), mild=mild
    )


def shown(value: Any) -> str:
    whole = " ".join(map(text, value)) if isinstance(value, list | tuple) else text(value)
    return whole if len(whole) <= MOST_SHOWN else f"{whole[:MOST_SHOWN]}…"


def _is_share(value: Any) -> bool:
    try:
        return 0 < float(value) <= 1
    except (TypeError, ValueError):
        return False


CHECK = Check(
    code="flags",
    order=60,
    level=Level.FAIL,
    description="No forked workers, no flags, values or variables that the image's own engine refuses, the same for all ranks.",
    evaluate=evaluate,
    needs=(ENVIRONMENT,),
)
