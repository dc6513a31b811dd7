"""The model's files: every shard its index names, none cut off, the same on all nodes."""

from __future__ import annotations

from collections.abc import Iterator

from sparkd.checks.shared.odd import odd_ones
from sparkd.checks.shared.scene import Check, Scene, Trouble
from sparkd.facts.model import MODEL, Model, folder
from sparkd.model.check import Level
from sparkd.model.config import Deployment
from sparkd.model.size import spoken

SHOWN = 5


def evaluate(scene: Scene) -> Iterator[Trouble]:
    deployment, whole = scene.deployment, dict[str, Model]()
    for node, model in scene.each(MODEL):
        at = folder(deployment, node)
        if at is None:
            continue
        found = list(_of(node, at[0], model, at[1]))
        yield from found
        if not found:
            whole[node] = model
    common, odd = odd_ones({node: model.total for node, model in whole.items()})
    for node, total in odd.items():
        text = (
            f"the model's files have {spoken(total)} on {node} and {spoken(common or 0)} elsewhere: not the same model"
        )
        seen = tuple(f"{one}: {len(model.shards)} files, {model.total} bytes" for one, model in whole.items())
        yield Trouble(node, text, f"copy it again to {node}: rsync -a --checksum", seen)


def _of(node: str, path: str, model: Model, hub: bool) -> Iterator[Trouble]:
    again = f"on {node}: hf download the model again, or rsync it from a node where it is whole"
    if hub and model.revision is None:
        # Nothing in the cache is not wrong by itself: the engine may fetch it; offline it fails at once.
        text = f"{path} on {node} has no refs/main: the model is not in the cache, the engine would download it"
        yield Trouble(node, text, again, mild=True)
        return
    if model.folder == "missing":
        yield Trouble(node, f"the model's folder {path} does not exist on {node}", again, not_yet=True)
        return
    missing = [shard.name for shard in model.shards if shard.size is None]
    if missing:
        text = f"{len(missing)} of {len(model.shards)} weight files that the index names are missing on {node}"
        yield Trouble(node, text, again, tuple(missing[:SHOWN]))
    short = [
        one for one in model.shards if one.size is not None and one.expected is not None and one.size < one.expected
    ]
    if short:
        text = f"{len(short)} weight files on {node} are cut off"
        seen = tuple(f"{one.name}: {one.size} bytes of {one.expected}" for one in short[:SHOWN])
        yield Trouble(node, text, again, seen)
    if model.folder == "dir" and not model.shards:
        yield Trouble(node, f"{path} on {node} holds no weight files", again)
    elif model.folder == "dir" and not model.config:
        yield Trouble(node, f"{path} on {node} has no config.json", again)


def _has_model(deployment: Deployment) -> bool:
    return bool(deployment.model)


CHECK = Check(
    code="model",
    order=50,
    level=Level.FAIL,
    description="Every weight file that the model's index names is there, none is cut off, and all nodes have the same.",
    evaluate=evaluate,
    needs=(MODEL,),
    applies=_has_model,
)
