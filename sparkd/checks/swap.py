"""Swap in use: on unified memory an engine that swaps is neither dead nor serving."""

from __future__ import annotations

from collections.abc import Iterator

from sparkd.checks.shared.scene import Check, Scene, Trouble
from sparkd.facts.pressure import PRESSURE, Swap
from sparkd.model.check import Level
from sparkd.model.size import spoken

USED_BYTES = 1 << 30
"""Idle pages of a desktop session swap out and never matter; a gibibyte is more than those."""


def evaluate(scene: Scene) -> Iterator[Trouble]:
    for node, pressure in scene.each(PRESSURE):
        used = sum(one.used_bytes for one in pressure.swaps)
        if used >= USED_BYTES:
            text = f"{spoken(used)} of swap are in use on {node}"
            fix = f"on {node}: swapoff -a (sparkd does it with `cleanup: {{swapoff: true}}`)"
            yield Trouble(node, text, fix, tuple(map(_device, pressure.swaps)))


def _device(one: Swap) -> str:
    where = ", which is memory itself" if one.in_memory else ""
    return f"{one.name} ({one.kind}{where}): {spoken(one.used_bytes)} of {spoken(one.size_bytes)}"


CHECK = Check(
    code="swap",
    order=170,
    level=Level.WARN,
    description="Swap in use: an engine whose pages are swapped out answers minutes late and looks wedged.",
    evaluate=evaluate,
    needs=(PRESSURE,),
)
