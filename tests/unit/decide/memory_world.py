"""Looks at one node's memory, in GiB and seconds before NOW."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sparkd.model.config import Deployment
from sparkd.model.machine import Holders, Memory, Process, Tmpfs
from sparkd.model.memory_trail import MemoryLook, MemoryTrail
from sparkd.model.snapshot import Snapshot

from .world import DEPLOYMENT, NOW, both

GIB, MIB = 1 << 30, 1 << 20
STOP = replace(DEPLOYMENT, memory={"guard": {"act": "stop"}})
WARN = replace(DEPLOYMENT, memory={"guard": {"act": "warn"}})


def pool(available: float, cache: float = 0, free: float | None = None, shm: float = 0) -> Memory:
    free = available - cache if free is None else free
    return Memory(120 * GIB, int(free * GIB), int(available * GIB), int(cache * GIB), int(shm * GIB), 0)


def look(ago: float, memory: Memory | float | None, holders: Holders | None = None) -> MemoryLook:
    return MemoryLook(NOW - ago, pool(memory) if isinstance(memory, int | float) else memory, holders, 0.0)


def trail(*available: Memory | float | None, every_s: float = 1.0, **more: Any) -> MemoryTrail:
    """Looks a second apart, the last one now."""
    last = len(available) - 1
    return MemoryTrail(tuple(look((last - at) * every_s, one) for at, one in enumerate(available)), **more)


def slowly(*available: float | None, tokens: float | None = 0.0) -> MemoryTrail:
    """Looks ten minutes apart, in which `tokens` more are counted each time."""
    looks = trail(*available, every_s=600.0).looks
    counted = (
        replace(one, tokens=None if tokens is None else at * tokens) for at, one in enumerate(looks) if one.memory
    )
    return MemoryTrail(looks[-1:], tuple(counted))


def with_trail(found: MemoryTrail, snapshot: Snapshot | None = None, node: str = "spark2") -> Snapshot:
    """Both ranks run and answer, and this is known of the memory of one node."""
    return replace(snapshot or both(), memory={node: found})


def holders(
    *processes: Process, tmpfs: float = 0, unaccounted: float = 20, path: str = "/dev/shm", **more: Any
) -> Holders:
    files = (Tmpfs(path, int(tmpfs * GIB)),) if tmpfs else ()
    return Holders(files, processes, int(unaccounted * GIB), **more)


def program(pid: int, gib: float, title: str = "/usr/lib/polkit-1/polkitd --no-debug", owner: str = "-") -> Process:
    return Process(pid, 1, pid * 10, "S", int(gib * GIB), owner, title)


def named(name: str, act: str = "stop") -> Deployment:
    return replace(DEPLOYMENT, name=name, memory={"guard": {"act": act}})
