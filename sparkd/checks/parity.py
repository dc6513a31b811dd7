"""Kernel, driver, Docker, system and firmware are the same on all nodes: one box that was updated alone is the usual culprit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sparkd.checks.shared.odd import odd_ones
from sparkd.checks.shared.scene import Check, Scene, Trouble
from sparkd.facts.docker_info import DOCKER_INFO
from sparkd.facts.engine_python import ENGINE_PYTHON
from sparkd.facts.versions import VERSIONS
from sparkd.model.check import Level

WHAT = {
    "driver": "NVIDIA driver",
    "kernel": "kernel",
    "os": "system",
    "firmware": "firmware",
    "product": "machine",
    "architecture": "processor",
}
REBOOT = "bring {node} to the same version as the others, then reboot it"
INSTALL = "install the same on {node} as on the others"


def evaluate(scene: Scene) -> Iterator[Trouble]:
    for what, values, fix in _compared(scene):
        common, odd = odd_ones(values)
        for node, value in odd.items():
            text = f"{what} on {node} is {value}, elsewhere {common}"
            seen = tuple(f"{one}: {one_value}" for one, one_value in values.items())
            yield Trouble(node, text, fix.format(node=node), seen)


def _compared(scene: Scene) -> Iterator[tuple[str, Mapping[str, str], str]]:
    """(what, node -> version, what helps)."""
    versions = dict(scene.each(VERSIONS))
    for name, what in WHAT.items():
        yield what, {node: found.get(name, "none") for node, found in versions.items()}, REBOOT
    if scene.deployment.runtime == "docker":
        yield "Docker", {node: info.version for node, info in scene.each(DOCKER_INFO)}, INSTALL
    else:
        # The image check compares what runs in containers.
        found = {node: python.version for node, python in scene.each(ENGINE_PYTHON)}
        yield scene.deployment.engine, {node: version for node, version in found.items() if version}, INSTALL


CHECK = Check(
    code="parity",
    order=240,
    level=Level.WARN,
    description="Kernel, driver, Docker, system and firmware are the same on all nodes, and so is an engine without containers.",
    evaluate=evaluate,
    needs=(VERSIONS, DOCKER_INFO, ENGINE_PYTHON),
)
