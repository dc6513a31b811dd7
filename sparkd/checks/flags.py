"""The engine's own words: values it would refuse, names it does not know, and the start method that breaks it.

The engine's own parser judges, once it has been asked (in a short container or unit of its own, while nothing starts there):
what it refuses holds a start. Until then the table that ships with sparkd judges, and what that one refuses is a warning.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sparkd.base.did_you_mean import closest
from sparkd.checks.shared.scene import Check, Scene, Trouble
from sparkd.engines.args import canonical, text
from sparkd.engines.flags import FlagTable
from sparkd.engines.refused_values import EATEN, find, refusals
from sparkd.engines.tables import shipped
from sparkd.facts.environment import ENVIRONMENT
from sparkd.facts.environment import METHOD as FORK
from sparkd.facts.image import IMAGE, Image
from sparkd.model.check import Level
from sparkd.model.config import Deployment
from sparkd.model.snapshot import Unknown

VALIDATES = "fail-on-environ-validation"
"""With it an unknown variable ends the engine."""
MAY_KNOW = "the version that runs may know it: it is asked while nothing starts"
MOST_SHOWN = 80
MAY_DIFFER = frozenset({"VLLM_HOST_IP"})
"""Of vLLM's own variables: what is right on one node only."""


def evaluate(scene: Scene) -> Iterator[Trouble]:
    deployment, file = scene.deployment, scene.deployment.file or "the deployment file"
    yield from _fork(scene, file)
    yield from _uneven(deployment, file)
    table = scene.parser or shipped(deployment.engine)
    yield from _flags(scene, table, file)
    yield from _variables(scene, table, file)
    for written, value in deployment.args.items():
        name = canonical(written)
        if name == "gpu-memory-utilization" and not _is_share(value):
            text = f"gpu-memory-utilization is {value}: it is a share of the memory, more than 0 and at most 1"
            yield Trouble(None, text, f"in {file}: args: {{gpu-memory-utilization: 0.85}}")


def _fork(scene: Scene, file: str) -> Iterator[Trouble]:
    """First field report: two sessions were spent on a crash that this one variable had made."""
    why = "forked workers lose the shared ring buffer and crash (vllm#24580)"
    for node in scene.deployment.nodes:
        rank = scene.deployment.nodes.index(node)
        env = {**scene.deployment.env, **scene.deployment.node_env.get(node, {})}
        image = scene.fact(node, IMAGE)
        if env.get(FORK) == "fork":
            yield Trouble(node, f"{FORK}=fork in {file}: {why}", f"remove {FORK} from {file}", rank=rank)
        elif FORK not in env and isinstance(image, Image) and f"{FORK}=fork" in image.env:
            text = f"image {scene.deployment.image} on {node} sets {FORK}=fork: {why}"
            yield Trouble(node, text, f"in {file}: env: {{{FORK}: spawn}}", rank=rank)
        elif FORK not in env:
            yield from _around(scene, node, why, f"in {file}: env: {{{FORK}: spawn}}", rank)


def _around(scene: Scene, node: str, why: str, fix: str, rank: int) -> Iterator[Trouble]:
    """Containers get nothing of this, units all that systemd has; an engine that a person starts has what logins have."""
    found = scene.fact(node, ENVIRONMENT)
    for one in () if isinstance(found, Unknown) else found:
        if (one.name, one.value) == (FORK, "fork"):
            hits = one.source == "systemd" and scene.deployment.runtime == "process"
            whom = "every unit" if hits else "whatever a person starts there"
            text = f"{one.source} on {node} gives {whom} {FORK}=fork: {why}"
            undo = f"systemctl unset-environment {FORK}" if one.source == "systemd" else f"remove it from {one.source}"
            yield Trouble(node, text, f"on {node}: {undo}" + (f", or {fix}" if hits else ""), rank=rank, mild=not hits)


def _uneven(deployment: Deployment, file: str) -> Iterator[Trouble]:
    """All ranks are one engine: what only some of them are told fails late and silently (evidence 12)."""
    names = {name for env in deployment.node_env.values() for name in env if name.startswith("VLLM_")} - MAY_DIFFER
    for name in sorted(names):
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
    """A name that the engine does not read does nothing, and nobody says so but one line among hundreds."""
    deployment, prefix = scene.deployment, f"{table.engine.upper()}_"
    names = {*deployment.env, *deployment.secrets, *(name for env in deployment.node_env.values() for name in env)}
    unknown = [name for name in sorted(names) if name.startswith(prefix) and name not in table.variables]
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
