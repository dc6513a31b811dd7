"""Two looks at one node's memory -> what grew most between them, be it an engine or not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

from sparkd.model.machine import Holders, Memory, Process, is_container
from sparkd.model.memory_trail import MemoryLook
from sparkd.model.size import spoken
from sparkd.model.snapshot import NodeView


class Kind(StrEnum):
    """What can have memory."""

    RANK = "rank"
    CONTAINER = "container"
    PROCESS = "process"
    TMPFS = "tmpfs"
    KERNEL = "kernel"
    """On GB10 the GPU memory of ranks is there, and of no process."""
    CACHE = "cache"


SHARE = 4
"""What grew by less than this part of what was lost is not told: the rest of it went somewhere else."""
LISTED = 12
"""Processes that a node tells at the most (`node/probes/holders.py`)."""
SEEN_IN_PART = (Kind.RANK, Kind.CONTAINER, Kind.PROCESS)
"""Of these a look tells the biggest only."""


@dataclass(frozen=True, slots=True)
class Growth:
    """Who grew, by how much and to how much (bytes)."""

    kind: Kind
    who: str
    grew: int
    has: int
    deployment: str = ""
    """Whose rank it is, where it is one."""

    @property
    def words(self) -> str:
        return f"{self.who}, which grew by {spoken(self.grew)} to {spoken(self.has)}"


@dataclass(frozen=True, slots=True)
class _Holder:
    kind: Kind
    who: str
    has: int
    deployment: str = ""


def grower(looks: Iterable[MemoryLook], view: NodeView) -> Growth | None:
    """What grew most while available memory fell, between the look before that fall and the last one.

    None where nobody looked who had it, or where nobody grew by a good part of the fall.
    """
    known = [one for one in looks if one.memory is not None]
    told = [one for one in known if one.holders is not None]
    pair = _apart(told if len(told) > 1 else [replace(one, holders=None) for one in known])
    if pair is None:
        return None
    before, after = pair
    assert before.memory is not None
    assert after.memory is not None
    fell = before.memory.available - after.memory.available
    grown = max(_grown(before, after, view), key=lambda one: one.grew, default=None)
    return grown if grown is not None and fell > 0 and grown.grew * SHARE >= fell else None


def _apart(looks: list[MemoryLook]) -> tuple[MemoryLook, MemoryLook] | None:
    if len(looks) < 2:
        return None
    return max(looks[:-1], key=lambda one: one.memory.available if one.memory is not None else 0), looks[-1]


def _grown(before: MemoryLook, after: MemoryLook, view: NodeView) -> Iterator[Growth]:
    had, has = _held(before, view), _held(after, view)
    listed = [one.rss_bytes for one in before.holders.processes] if before.holders is not None else []
    # What was not among the biggest then had less than the smallest of those.
    unseen = min(listed) if len(listed) >= LISTED else 0
    for key, one in has.items():
        earlier = had[key].has if key in had else min(one.has, unseen if one.kind in SEEN_IN_PART else 0)
        yield Growth(one.kind, one.who, one.has - earlier, one.has, one.deployment)


def _held(look: MemoryLook, view: NodeView) -> dict[str, _Holder]:
    """By identity, for two looks: a path, a container's id, a process by pid and start ticks."""
    found: dict[str, _Holder] = {}
    if look.memory is not None:
        found["cache"] = _Holder(Kind.CACHE, "page cache that does not return", kept_cache(look.memory))
    if look.holders is None:
        shm = look.memory.shm if look.memory is not None else 0
        return found | {"tmpfs:/dev/shm": _Holder(Kind.TMPFS, "files in /dev/shm", shm)}
    for one in look.holders.tmpfs:
        found[f"tmpfs:{one.path}"] = _Holder(Kind.TMPFS, f"files in {one.path}", one.used_bytes)
    found["kernel"] = _Holder(Kind.KERNEL, "the kernel and the GPU's driver", look.holders.unaccounted)
    return found | _processes(look.holders, view)


def kept_cache(memory: Memory) -> int:
    """Bytes of page cache that the kernel does not count as available: locked, pinned or still to be written."""
    return max(0, memory.page_cache - max(0, memory.available - memory.free))


def _processes(holders: Holders, view: NodeView) -> dict[str, _Holder]:
    """A rank's processes count together, whatever runs it, and so do those of any container."""
    ranks = {owner: one for one in view.ranks for owner in one.owners}
    found: dict[str, _Holder] = {}
    for process in holders.processes:
        rank, inside = ranks.get(process.owner), is_container(process.owner)
        if rank is None and not inside:
            key = f"process:{process.pid}:{process.start_ticks}"
            found[key] = _Holder(Kind.PROCESS, program(process), process.rss_bytes)
            continue
        name = rank.name if rank is not None else process.owner[:12]
        has = process.rss_bytes + (found[process.owner].has if process.owner in found else 0)
        who = f"{'container' if inside else 'unit'} {name}"
        kind = Kind.RANK if rank is not None else Kind.CONTAINER
        found[process.owner] = _Holder(kind, who, has, rank.deployment if rank is not None else "")
    return found


def program(process: Process) -> str:
    """`python3 (pid 812)`: what it is called, without its arguments."""
    return f"{process.title.split(' ')[0].rpartition('/')[2] or 'a process'} (pid {process.pid})"
