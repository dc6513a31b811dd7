"""The image: on every node, the same one, and made for these machines."""

from __future__ import annotations

from collections.abc import Iterator

from sparkd.checks.shared.odd import odd_ones
from sparkd.checks.shared.scene import Check, Scene, Trouble
from sparkd.decide.needs import no_image
from sparkd.facts.image import IMAGE, Image
from sparkd.facts.versions import VERSIONS
from sparkd.model.check import Level
from sparkd.model.config import Deployment
from sparkd.model.snapshot import Unknown

MACHINES = {"aarch64": "arm64", "x86_64": "amd64"}
"""The kernel's word -> Docker's."""


def evaluate(scene: Scene) -> Iterator[Trouble]:
    ref = scene.deployment.image
    found: dict[str, Image] = {}
    for node, image in scene.each(IMAGE):
        if isinstance(image, Image):
            found[node] = image
        else:
            missing = no_image(node, str(ref))
            yield Trouble(node, missing.text, missing.fix, not_yet=True)
    yield from _foreign(scene, found)
    _, odd = odd_ones({node: image.id for node, image in found.items()})
    for node in odd:
        text = f"{ref} is another image on {node} than on the other nodes: ranks of different builds fail in odd ways"
        seen = tuple(f"{one}: {image.id[:19]}, made {image.created[:19]}" for one, image in found.items())
        fix = f"copy it: docker save {ref} | ssh {node} docker load"
        yield Trouble(node, text, fix, seen)


def _foreign(scene: Scene, found: dict[str, Image]) -> Iterator[Trouble]:
    for node, image in found.items():
        versions = scene.fact(node, VERSIONS)
        machine = "" if isinstance(versions, Unknown) else MACHINES.get(versions["architecture"], "")
        if machine and image.architecture != machine:
            text = f"{scene.deployment.image} on {node} is made for {image.architecture}, the node is {machine}"
            fix = f"on {node}: docker pull --platform linux/{machine} {scene.deployment.image}"
            yield Trouble(node, text, fix)


def _has_image(deployment: Deployment) -> bool:
    return deployment.image is not None


CHECK = Check(
    code="image",
    order=10,
    level=Level.FAIL,
    description="The image is on every node, the same one everywhere, and made for the nodes' processors.",
    evaluate=evaluate,
    needs=(IMAGE, VERSIONS),
    applies=_has_image,
)
