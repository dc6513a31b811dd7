"""After a teardown: whether the memory of what ended is still coming back, in figures; no start is begun meanwhile.

An engine that measures its node while another's memory is being given back fails (vLLM: "Error in memory profiling"), or
sizes its KV cache by a moving figure.
"""

from __future__ import annotations

from sparkd.decide.case import Case, duration
from sparkd.decide.memory_need import needed
from sparkd.model.machine import Memory
from sparkd.model.memory_trail import MemoryLook, MemoryTrail
from sparkd.model.size import spoken

BACK_BYTES = 1 << 30
"""As good as back: a node that runs other programs never has to the byte what it had."""
RISING_BYTES = 256 << 20
"""More than the kernel's own use moves; less, from one look to the next, is not worth waiting for."""
APART_S = 0.5, 15.0
"""Two looks that are compared: not one and the same, and none from before a gap."""


def coming_back(case: Case) -> str:
    """Which nodes get memory back just now, in words; empty where none does. Unknown memory is waited for elsewhere."""
    found = (_returning(case, rank, node) for rank, node in enumerate(case.deployment.nodes))
    return "; ".join(words for words in found if words)


def _returning(case: Case, rank: int, node: str) -> str:
    before, pair = dict(case.state.memory_before).get(node), _pair(case.snapshot.memory.get(node, MemoryTrail()))
    memory = case.group.views[node].memory
    if before is None or pair is None or not isinstance(memory, Memory) or not needed(case.deployment, rank, memory)[0]:
        return ""
    (earlier, had), (newest, has) = pair
    if has + BACK_BYTES >= before or has - had < RISING_BYTES:
        return ""
    gained = f"up by {spoken(has - had)} in {duration(newest.at - earlier.at)}"
    return (
        f"{node} has {spoken(has)} available, {gained}, of {spoken(before)} before generation {case.state.generation}"
    )


def _pair(trail: MemoryTrail) -> tuple[tuple[MemoryLook, int], tuple[MemoryLook, int]] | None:
    """The newest look and the one before it, each with what was available."""
    known = [(one, one.memory.available) for one in trail.looks if one.memory is not None]
    if not known or trail.looks[-1].memory is None:
        return None
    newest, (least_s, most_s) = known[-1], APART_S
    earlier = [one for one in known[:-1] if least_s <= newest[0].at - one[0].at <= most_s]
    return (earlier[-1], newest) if earlier else None


def not_back(case: Case, node: str) -> str:
    """How much of what the node had before the last start is still missing, as a clause; empty where that is back."""
    before, memory = dict(case.state.memory_before).get(node), case.group.views[node].memory
    if before is None or not isinstance(memory, Memory) or memory.available + BACK_BYTES >= before:
        return ""
    missing = spoken(before - memory.available)
    return (
        f"; {missing} of the {spoken(before)} that it had before generation {case.state.generation} did not come back"
    )
