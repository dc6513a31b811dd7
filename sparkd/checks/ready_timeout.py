"""The engine's own limit of a start: it gives up one that sparkd, and the person who waits for it, would let go on.

vLLM waits 600 s for its engine core, while first boots of 40 minutes are ordinary on these machines (field reports, F15).
"""

from __future__ import annotations

from collections.abc import Iterator

from sparkd.checks.shared.scene import Check, Scene, Trouble
from sparkd.engines import ENGINES
from sparkd.engines.base import Patience
from sparkd.facts.image import IMAGE, Image
from sparkd.model.check import Level
from sparkd.model.config import Deployment
from sparkd.model.printed import real
from sparkd.model.snapshot import Unknown
from sparkd.model.words import duration


def evaluate(scene: Scene) -> Iterator[Trouble]:
    """The head alone waits for the others. Where a start is known, that is what it takes; else what the file allows."""
    patience = _patience(scene.deployment)
    found = _value(scene, patience.name) if patience is not None else None
    if patience is None or found is None:
        return
    said, source = found or (str(patience.default_s), "its default")
    limit_s, head = real(said), scene.deployment.nodes[0]
    needed_s, why = _needed(scene)
    value = round(max(needed_s, scene.deployment.start.timeout))
    fix = f'in {scene.deployment.file}: `env: {{{patience.name}: "{value}"}}`'
    if limit_s is None or limit_s != int(limit_s):
        yield Trouble(head, f"{patience.name} is {said!r} ({source}), which is no number of whole seconds", fix)
    elif limit_s < needed_s:
        text = f"the engine gives up a start after {duration(limit_s)} ({patience.name}, {source}), but {why}"
        yield Trouble(head, text, fix)


def _value(scene: Scene, name: str) -> tuple[str, str] | tuple[()] | None:
    """(value, where it is from), nothing where nobody sets it, None where the image may, and could not be read: the check
    `image` says so then. That one asks for it, and not this one: ranks without containers have no image to ask for."""
    deployment, head = scene.deployment, scene.deployment.nodes[0]
    for env, source in ((deployment.node_env.get(head, {}), f"node_env of {head}"), (deployment.env, "env")):
        if name in env:
            return str(env[name]), source
    if deployment.image is None:
        return ()
    image = scene.fact(head, IMAGE)
    if isinstance(image, Unknown):
        return None
    set_by_image = dict(one.partition("=")[::2] for one in image.env) if isinstance(image, Image) else {}
    return (set_by_image[name], "set by the image") if name in set_by_image else ()


def _needed(scene: Scene) -> tuple[float, str]:
    """How long a start takes, and how that is known, in a clause."""
    if scene.longest_start_s is not None:
        return scene.longest_start_s, f"one took {duration(scene.longest_start_s)}"
    timeout = scene.deployment.start.timeout
    return timeout, f"`start: {{timeout: {timeout:g}}}` lets one take {duration(timeout)}"


def _gives_up(deployment: Deployment) -> bool:
    return _patience(deployment) is not None


def _patience(deployment: Deployment) -> Patience | None:
    engine = ENGINES.get(deployment.engine)
    return engine.variables.patience if engine is not None else None


CHECK = Check(
    code="ready-timeout",
    order=65,
    level=Level.WARN,
    description="The engine's own limit of a start (vLLM: `VLLM_ENGINE_READY_TIMEOUT_S`, 600 s) is not below what one takes or may take.",
    evaluate=evaluate,
    applies=_gives_up,
)
