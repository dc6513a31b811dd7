"""The moon: a check that sparkd does not have, to see what one file alone brings about."""

from __future__ import annotations

from collections.abc import Iterator

from sparkd.checks.shared.scene import Check, Scene, Trouble
from sparkd.model.check import Level


def evaluate(scene: Scene) -> Iterator[Trouble]:
    yield Trouble(scene.deployment.nodes[0], "the moon is full", "wait a day")


CHECK = Check(
    code="full-moon",
    order=15,
    level=Level.WARN,
    description="The moon is not full.",
    evaluate=evaluate,
    reads=("boot",),
)
