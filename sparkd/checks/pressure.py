"""What makes memory scarce or kills for it: stalls (PSI), userspace OOM killers, other tenants of the node."""

from __future__ import annotations

import re
from collections.abc import Iterator

from sparkd.checks.shared.scene import Check, Scene, Trouble
from sparkd.decide.memory_need import needed
from sparkd.facts.holders import HOLDERS
from sparkd.facts.pressure import PRESSURE, Killer, Pressure
from sparkd.model.check import Level
from sparkd.model.decision import FailureClass
from sparkd.model.machine import Holders, is_container
from sparkd.model.printed import REAL, real
from sparkd.model.size import spoken
from sparkd.model.snapshot import NodeView, Unknown

SOME_60, FULL_60 = 20.0, 5.0
"""Percent of the last minute. Loading weights from a disk makes a few percent of `some`; `full` means that all stood."""
TENANT_BYTES = 4 << 30
EARLYOOM_PERCENT = 10.0
_FLOOR = re.compile(rf"(soft|hard)_threshold_min_mem\s*=\s*({REAL})\s*(%|M)")


def evaluate(scene: Scene) -> Iterator[Trouble]:
    for node, pressure in scene.each(PRESSURE):
        yield from _stalls(node, pressure)
        for killer in pressure.killers:
            yield _killer(scene, node, killer)
    for node, holders in scene.each(HOLDERS):
        yield from _tenants(scene.nodes[node], holders)


def _stalls(node: str, pressure: Pressure) -> Iterator[Trouble]:
    some, full = pressure.some_60 or 0.0, pressure.full_60 or 0.0
    if some >= SOME_60 or full >= FULL_60:
        text = f"processes on {node} stood waiting for memory {some:.0f} % of the last minute, all at once {full:.0f} %"
        yield Trouble(node, text, f"on {node}: ps -eo pid,rss,args --sort=-rss | head; cat /proc/pressure/memory")


def _killer(scene: Scene, node: str, killer: Killer) -> Trouble:
    """One whose threshold lies above what the engine leaves ends it just when it is loaded (model-serving-minefield#134)."""
    memory, seen = scene.nodes[node].memory, (" ".join(killer.argv), *killer.settings)
    total = 0 if isinstance(memory, Unknown) else memory.total
    floor = _floor(killer, total)
    fix = f"on {node}: systemctl disable --now {killer.name}, or lower its threshold"
    if floor is None or isinstance(memory, Unknown):
        text = f"{killer.name} runs on {node} and ends processes by rules of its own when memory gets scarce"
        return Trouble(node, text, fix, seen, mild=True)
    left = total - needed(scene.deployment, scene.deployment.nodes.index(node), memory)[0]
    text = f"{killer.name} on {node} ends processes below {spoken(floor)} of available memory; the rank leaves {spoken(left)}"
    return Trouble(node, text, fix, seen, mild=floor < left)


def _floor(killer: Killer, total: int) -> int | None:
    """Bytes below which it begins to kill, None where its rules are not known."""
    if killer.name == "earlyoom":
        return _earlyoom(killer.argv, total)
    found = [match for match in map(_FLOOR.match, killer.settings) if match]
    if not found:
        return None
    return max(int(float(one[2]) * (total / 100 if one[3] == "%" else 1 << 20)) for one in found)


def _earlyoom(argv: tuple[str, ...], total: int) -> int | None:
    """`-m PERCENT[,KILL]` or `-M KIB[,KILL]`, of both the lower one; 10 % without (earlyoom(1))."""
    given: dict[str, float] = {}
    for word, value in zip(argv, (*argv[1:], ""), strict=True):
        name, attached = word[:2], word[2:] or value
        if name in ("-m", "-M"):
            amount = real(attached.partition(",")[0])
            if amount is None:  # a title may say anything: `earlyoom -m inf`
                return None
            given[name] = amount
    floors = [given["-m"] * total / 100] if "-m" in given else []
    floors += [given["-M"] * 1024] if "-M" in given else []
    return int(min(floors, default=EARLYOOM_PERCENT * total / 100))


def _tenants(view: NodeView, holders: Holders) -> Iterator[Trouble]:
    ours = view.rank_owners
    found: dict[str, int] = {}
    for process in holders.processes:
        if process.owner not in ours:
            who = process.owner if process.owner != "-" else f"{process.title.split(' ')[0]} (pid {process.pid})"
            found[who] = found.get(who, 0) + process.rss_bytes
    for who, count in found.items():
        if count >= TENANT_BYTES:
            name = f"container {who[:12]}" if is_container(who) else who
            text = f"{name} has {spoken(count)} of {view.name}'s memory"
            yield Trouble(view.name, text, "move it elsewhere, or leave it room with `memory: {reserve: …}`", mild=True)


CHECK = Check(
    code="pressure",
    order=180,
    level=Level.WARN,
    description="Stalls for memory, userspace OOM killers whose threshold lies above what a loaded engine leaves, big tenants.",
    evaluate=evaluate,
    needs=(PRESSURE, HOLDERS),
    cls=FailureClass.RESOURCE,
)
