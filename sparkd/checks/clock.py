"""Clocks of the nodes: logs of two nodes cannot be read side by side when they disagree, and certificates fail."""

from __future__ import annotations

from collections.abc import Iterator

from sparkd.checks.shared.scene import Check, Scene, Trouble
from sparkd.model.check import Level
from sparkd.model.machine import Boot

SKEW_S = 10.0
"""One look may take 4 s (`policy.node_deadline`), and the nodes' clocks are read anywhere within it."""


def evaluate(scene: Scene) -> Iterator[Trouble]:
    boots = {node: scene.nodes[node].boot for node in scene.deployment.nodes}
    clocks = {node: boot.now for node, boot in boots.items() if isinstance(boot, Boot) and boot.now}
    if not clocks:
        return
    head, right = next(iter(clocks.items()))
    for node, now in clocks.items():
        if abs(now - right) > SKEW_S:
            way = "ahead of" if now > right else "behind"
            text = f"the clock of {node} is {abs(now - right):.0f} s {way} that of {head}"
            yield Trouble(node, text, f"on {node}: timedatectl set-ntp true", not_yet=True)


CHECK = Check(
    code="clock",
    order=230,
    level=Level.WARN,
    description="The nodes' clocks agree, so that their logs can be read side by side.",
    evaluate=evaluate,
    reads=("boot",),
)
