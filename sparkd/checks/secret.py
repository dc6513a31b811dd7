"""The files that the deployment's secrets refer to: a start that finds none in one would only fail, and a wrong one is worse."""

from __future__ import annotations

from collections.abc import Iterator

from sparkd.checks.shared.scene import Check, Scene, Trouble
from sparkd.model.check import Level
from sparkd.model.config import Deployment

CODE = "secret"
"""This check asks the nodes for nothing: the files lie on the head, and the runner of the checks has read them."""


def evaluate(scene: Scene) -> Iterator[Trouble]:
    for name, (why, fix) in scene.secrets.items():
        file = scene.deployment.secrets[name]
        yield Trouble(None, f"secret {name} cannot be read from {file}: {why}", fix)


def _has_secrets(deployment: Deployment) -> bool:
    return bool(deployment.secrets)


CHECK = Check(
    code=CODE,
    order=80,
    level=Level.FAIL,
    description="Every secret's file can be read by sparkd and holds one value that a variable can have: UTF-8 text, not empty.",
    evaluate=evaluate,
    applies=_has_secrets,
)
