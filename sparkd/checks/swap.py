"""Swap in use: on unified memory an engine that swaps is neither dead nor serving."""

from __future__ import annotations

from collections.abc import Iterator

from sparkd.checks.scene import Check, Scene, Trouble
from sparkd.model.check import Level
from sparkd.model.size import spoken
from sparkd.model.snapshot import Unknown

USED_BYTES = 1 << 30
"""Idle pages of a desktop session swap out and never matter; a gibibyte is more than those."""


def evaluate(scene: Scene) -> Iterator[Trouble]:
    for name in scene.deployment.nodes:
        memory = scene.nodes[name].memory
        if isinstance(memory, Unknown) or memory.swap_used < USED_BYTES:
            continue
        text = f"{spoken(memory.swap_used)} of swap are in use on {name}"
        yield Trouble(name, text, f"on {name}: swapoff -a (sparkd does it with `cleanup: {{swapoff: true}}`)")


CHECK = Check(
    code="swap",
    level=Level.WARN,
    description="Swap in use: an engine whose pages are swapped out answers minutes late and looks wedged.",
    evaluate=evaluate,
    reads=("memory",),
)
