"""The engine's own words: values it would refuse, names it does not know, and the start method that breaks it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from sparkd.checks.scene import Check, Scene, Trouble
from sparkd.closest import closest
from sparkd.engines.args import canonical
from sparkd.engines.flags import Flag, FlagTable, shipped
from sparkd.facts.image import IMAGE, Image
from sparkd.model.check import Level
from sparkd.model.config import Deployment

FORK = "VLLM_WORKER_MULTIPROC_METHOD"
MAY_DIFFER = frozenset({"VLLM_HOST_IP"})
"""Of vLLM's own variables: what is right on one node only."""


def evaluate(scene: Scene) -> Iterator[Trouble]:
    deployment, file = scene.deployment, scene.deployment.file or "the deployment file"
    yield from _fork(scene, file)
    yield from _uneven(deployment, file)
    table = shipped(deployment.engine)
    for written, value in deployment.args.items():
        name = canonical(written)
        if table.flags:
            yield from _flag(table, name, value, file)
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


def _flag(table: FlagTable, name: str, value: Any, file: str) -> Iterator[Trouble]:
    """By the parser of the version that ships with sparkd; another version may know more, so most is a warning."""
    flag = table.find(f"--{name.partition('.')[0]}")
    if flag is None:
        near = closest(name, table.flags)
        hint = f"did you mean `{near}`?" if near else "the image's own version may know it: vllm serve --help=all"
        yield Trouble(None, f"vLLM {table.version} has no flag --{name}", f"in {file}: {hint}", mild=True)
    elif _refused(flag, value):
        allowed = ", ".join(map(str, flag.choices))
        text = f"vLLM {table.version} refuses --{name} {value}: it is one of {allowed}"
        yield Trouble(None, text, f"in {file}: write one of them, or leave it out", mild=True)
    elif flag.kind == "json" and "." not in name and isinstance(value, str) and not _is_json(value):
        text = f"--{name} wants JSON, and {value!r} is none: were its quotes eaten by a shell?"
        yield Trouble(None, text, f"in {file}: write it as a mapping: {name}: {{key: value}}")


def _refused(flag: Flag, value: Any) -> bool:
    if not flag.choices or isinstance(value, list | tuple | Mapping | bool) or value is None:
        return False
    return str(value) not in set(map(str, flag.choices))


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _is_share(value: Any) -> bool:
    try:
        return 0 < float(value) <= 1
    except (TypeError, ValueError):
        return False


CHECK = Check(
    code="flags",
    level=Level.FAIL,
    description="No forked workers, no values that the engine's own parser refuses, the same for all ranks.",
    evaluate=evaluate,
)
