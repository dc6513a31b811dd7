"""What each node has of memory against what its rank will ask for, and who has the rest.

On GB10 everything is one pool: the page cache, shared memory, processes, and what the GPU's driver handed out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sparkd.decide.case import Case
from sparkd.engines import ENGINES
from sparkd.model.config import Deployment
from sparkd.model.machine import Holders, Memory, is_container
from sparkd.model.size import parse_size, spoken
from sparkd.model.snapshot import NodeView, Unknown

NAMED_BYTES = 256 << 20
"""Who has less is not worth a name."""
NAMED = 4
LEAK_BYTES = 4 << 30
"""More than right after boot: the kernel's own use differs by some hundred MiB from day to day."""


@dataclass(frozen=True, slots=True)
class Short:
    """A node with less memory than its rank will ask for."""

    node: str
    needed: int
    has: int
    reads: str
    why: str
    biggest: tuple[str, ...]
    share_flag: str | None
    """The engine's argument that asks for so much."""
    leaked: int
    """Bytes that no process has, that were free right after boot and are not although no engine runs; else 0."""

    @property
    def missing(self) -> int:
        return self.needed - self.has

    @property
    def fact(self) -> str:
        return f"memory:{self.node}:{self.needed}"

    @property
    def text(self) -> str:
        has = f"{self.node} has {spoken(self.has)} of memory {self.reads} and the rank needs {spoken(self.needed)}"
        held = f"; most of it is held by {', '.join(self.biggest)}" if self.biggest else ""
        leak = f"; {spoken(self.leaked)} did not come back since the engines ended" if self.leaked else ""
        return f"{has} ({self.why}): {spoken(self.missing)} are missing{held}{leak}"

    @property
    def fix(self) -> str:
        if self.leaked:
            return f"on {self.node}: nvidia-smi shows whether a process still has it; if none does, only a reboot brings it back"
        lower = "" if self.share_flag is None else f", or lower {self.share_flag}"
        return f"on {self.node}: free {spoken(self.missing)}{lower}; sparkd goes on by itself"


def needed(deployment: Deployment, rank: int, memory: Memory) -> tuple[int, str, str]:
    """(bytes, the figure it is compared with, why) for a rank on a node with this memory; 0 where the gate is off."""
    if deployment.memory.get("gate") == "off":
        return 0, "available", ""
    need = ENGINES[deployment.engine].memory(deployment, memory.total)
    reserve = _reserve(deployment, rank)
    why = f"{need.why} and {spoken(reserve)} in reserve" if reserve else need.why
    return need.bytes + reserve, need.reads, why


def _reserve(deployment: Deployment, rank: int) -> int:
    sizes: Mapping[str, object] = deployment.memory.get("reserve") or {}
    return parse_size(str(sizes.get("worker" if rank else "head", "0")))


def shorts(deployment: Deployment, views: Mapping[str, NodeView], *, dropped: bool = False) -> list[Short]:
    """Every node of the deployment that is known to have too little. `dropped`: as if its caches had been dropped."""
    found = []
    for rank, node in enumerate(deployment.nodes):
        memory = views[node].memory
        if isinstance(memory, Unknown):
            continue
        wanted, reads, why = needed(deployment, rank, memory)
        has = memory.available if reads == "available" or dropped else memory.free
        if has < wanted:
            said = "available" if reads == "available" or dropped else "free"
            biggest, flag = _biggest(views[node], memory, said), ENGINES[deployment.engine].share_flag
            found.append(Short(node, wanted, has, said, why, biggest, flag, _leaked(views[node])))
    return found


def available(views: Mapping[str, NodeView]) -> tuple[tuple[str, int], ...]:
    """Node -> bytes, where that could be read."""
    return tuple((node, view.memory.available) for node, view in views.items() if isinstance(view.memory, Memory))


def unread(deployment: Deployment, views: Mapping[str, NodeView]) -> list[str]:
    """Nodes, each with why, whose memory could not be read although the gate wants it."""
    if deployment.memory.get("gate") == "off":
        return []
    known = ((node, views[node].memory) for node in deployment.nodes)
    return [f"{node} ({memory.why})" for node, memory in known if isinstance(memory, Unknown)]


def enough(case: Case) -> bool:
    """Would every node have enough by now, once its caches were dropped where that is allowed?"""
    views, dropped = case.group.views, case.snapshot.cleanup.drop_caches
    return not unread(case.deployment, views) and not shorts(case.deployment, views, dropped=dropped)


# -------------------------------------------------------------------------------------------------------- who has it


def _biggest(view: NodeView, memory: Memory, reads: str) -> tuple[str, ...]:
    found = list(_held(view, memory, reads))
    found.sort(key=lambda one: -one[1])
    return tuple(f"{who} ({spoken(count)})" for who, count in found[:NAMED] if count >= NAMED_BYTES)


def _held(view: NodeView, memory: Memory, reads: str) -> Iterator[tuple[str, int]]:
    """(who, bytes). What is available counts page cache as free already."""
    if reads == "free":
        yield "the page cache", memory.page_cache
    if view.holders is None or isinstance(view.holders, Unknown):
        yield "files in /dev/shm", memory.shm
        return
    yield from (("files in " + one.path, one.used_bytes) for one in view.holders.tmpfs)
    yield from containers(view.holders, _names(view)).items()
    for process in view.holders.processes:
        if not is_container(process.owner):
            program = process.title.split(" ")[0].rpartition("/")[2]
            yield f"{program} (pid {process.pid})", process.rss_bytes
    yield "the kernel and the GPU's driver", view.holders.unaccounted


def containers(holders: Holders, names: Mapping[str, str]) -> dict[str, int]:
    """Container, by name where sparkd knows it -> bytes of its biggest processes together."""
    found: dict[str, int] = {}
    for process in holders.processes:
        if is_container(process.owner):
            name = f"container {names.get(process.owner, process.owner[:12])}"
            found[name] = found.get(name, 0) + process.rss_bytes
    return found


def _names(view: NodeView) -> dict[str, str]:
    return {} if isinstance(view.containers, Unknown) else {one.id: one.name for one in view.containers}


def _leaked(view: NodeView) -> int:
    """What the driver of the GPU has not given back. While anything looks like an engine nothing is said."""
    holders, engines = view.holders, view.engines
    if not isinstance(holders, Holders) or holders.unaccounted_at_boot is None:
        return 0
    if isinstance(engines, Unknown) or engines:
        return 0
    more = holders.unaccounted - holders.unaccounted_at_boot
    return more if more >= LEAK_BYTES else 0
