"""The last reboot: why it happened, and what came with it. A group that was down all day went down with its nodes at 06:58."""

from __future__ import annotations

from collections.abc import Iterator

from sparkd.checks.shared.scene import Check, Scene, Trouble
from sparkd.facts.boots import BOOTS, Boots
from sparkd.model.check import Level

RECENT_S = 86400.0
"""Older reboots are in `history`; what they changed has been lived with."""
LAST = 5


def evaluate(scene: Scene) -> Iterator[Trouble]:
    for node, boots in scene.each(BOOTS):
        if boots.up_s > RECENT_S:
            continue
        if boots.orderly is False or boots.unattended:
            fix = f"on {node}: journalctl --boot=-1 --lines=200 is what was before; last -x lists reboots"
            yield Trouble(node, f"{node} rebooted {_ago(boots)}: {boots.why}", fix, _seen(boots))
        if boots.changes:
            text = f"the reboot of {node} {_ago(boots)} brought another {' and '.join(boots.changes)}"
            fix = "if engines fail since then, boot the old one (grub menu), or give the other nodes the same"
            yield Trouble(node, text, fix, _seen(boots))


def _ago(boots: Boots) -> str:
    return f"{boots.up_s / 3600:.1f} h ago" if boots.up_s >= 3600 else f"{boots.up_s / 60:.0f} min ago"


def _seen(boots: Boots) -> tuple[str, ...]:
    return tuple(text for _, text in boots.end[-LAST:])


CHECK = Check(
    code="boot",
    order=250,
    level=Level.WARN,
    description="Why a node rebooted within the last day: a crash, upgrades by themselves, another kernel or driver.",
    evaluate=evaluate,
    needs=(BOOTS,),
)
