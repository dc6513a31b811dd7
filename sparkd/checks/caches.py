"""Compile caches that are there for some ranks and not for others: those without one make all others wait."""

from __future__ import annotations

from collections.abc import Iterator

from sparkd.checks.shared.scene import Check, Scene, Trouble
from sparkd.engines.caches import folders
from sparkd.facts.caches import CACHES, Cache
from sparkd.model.check import Level
from sparkd.model.config import Deployment
from sparkd.model.size import spoken


def evaluate(scene: Scene) -> Iterator[Trouble]:
    if scene.running:  # a first start fills them one after the other
        return
    found = {node: {one.path: one for one in caches} for node, caches in scene.each(CACHES)}
    for path in folders(scene.deployment):
        here = {node: caches[path] for node, caches in found.items() if path in caches}
        filled = {node: one for node, one in here.items() if one.files}
        for node, one in here.items():
            if filled and one.files == 0:
                yield _trouble(scene.deployment.name, node, path, filled)


def _trouble(deployment: str, node: str, path: str, filled: dict[str, Cache]) -> Trouble:
    elsewhere = ", ".join(f"{other} ({spoken(one.bytes)})" for other, one in filled.items())
    text = f"{path} is empty on {node} and filled on {elsewhere}: its rank compiles while the others wait"
    return Trouble(node, text, f"copy it over, or empty all with: sparkd ctl restart {deployment} --clean")


def _has_caches(deployment: Deployment) -> bool:
    return len(deployment.nodes) > 1 and bool(folders(deployment))


CHECK = Check(
    code="caches",
    order=200,
    level=Level.WARN,
    description="The compile caches in the mounts are there on all ranks or on none.",
    evaluate=evaluate,
    needs=(CACHES,),
    applies=_has_caches,
)
