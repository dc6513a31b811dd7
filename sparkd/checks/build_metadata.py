"""The image's build metadata: the commits and patches that the deployment counts on, the same on all nodes."""

from __future__ import annotations

import re
from collections.abc import Iterator

from sparkd.checks.marker import same
from sparkd.checks.shared.odd import odd_ones
from sparkd.checks.shared.scene import Ask, Check, Scene, Text, Trouble
from sparkd.model.check import Level
from sparkd.model.config import Deployment
from sparkd.model.place import where

_LINE = re.compile(r"""^\s*["']?([\w.-]+)["']?\s*:\s*["']?([^"'#\n]*?)["']?\s*(?:#.*)?,?$""", re.MULTILINE)


def asks(scene: Scene) -> Iterator[Ask]:
    yield from (_ask(scene.deployment, node) for node in scene.deployment.nodes)


def evaluate(scene: Scene) -> Iterator[Trouble]:
    deployment = scene.deployment
    path, wanted = deployment.build_metadata["path"], dict(deployment.build_metadata.get("equals") or {})
    texts: dict[str, str] = {}
    for node in deployment.nodes:
        text = scene.answer(_ask(deployment, node))
        if text is None:
            yield Trouble(node, f"{path} is not in {deployment.image} on {node}", "is it the image that was meant?")
        elif isinstance(text, str):
            texts[node] = text
            found = values(text)
            for key, value in wanted.items():
                if not same(found.get(key), value):
                    said = f"{key} of {deployment.image} on {node} is {found.get(key, 'not there')}, {value} is wanted"
                    yield Trouble(node, said, f"on {node}: docker pull the build with {key} {value}")
    for node in odd_ones(texts)[1]:
        said = f"{path} says something else on {node} than on the other nodes"
        yield Trouble(node, said, f"copy the image to {node}: docker save | ssh {node} docker load")


def values(text: str) -> dict[str, str]:
    """The keys of such a file, at any depth."""
    return dict(_LINE.findall(text))


def _ask(deployment: Deployment, node: str) -> Text:
    return Text(node, *where(deployment, str(deployment.build_metadata["path"])))


def _has_metadata(deployment: Deployment) -> bool:
    return "path" in deployment.build_metadata


CHECK = Check(
    code="build-metadata",
    order=20,
    level=Level.FAIL,
    description="The image was built from the commits that the deployment names, on every node.",
    evaluate=evaluate,
    asks=asks,
    applies=_has_metadata,
)
