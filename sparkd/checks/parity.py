"""Kernel, driver, system and firmware are the same on all nodes: one box that was updated alone is the usual culprit."""

from __future__ import annotations

from collections.abc import Iterator

from sparkd.checks.odd import odd_ones
from sparkd.checks.scene import Check, Scene, Trouble
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


def evaluate(scene: Scene) -> Iterator[Trouble]:
    versions = dict(scene.each(VERSIONS))
    for name, what in WHAT.items():
        values = {node: found.get(name, "none") for node, found in versions.items()}
        common, odd = odd_ones(values)
        for node, value in odd.items():
            text = f"{what} on {node} is {value}, elsewhere {common}"
            seen = tuple(f"{one}: {one_value}" for one, one_value in values.items())
            yield Trouble(node, text, f"bring {node} to the same version as the others, then reboot it", seen)


CHECK = Check(
    code="parity",
    level=Level.WARN,
    description="Kernel, driver, system and firmware are the same on all nodes.",
    evaluate=evaluate,
    needs=(VERSIONS,),
)
