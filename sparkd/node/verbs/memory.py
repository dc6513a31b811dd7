"""Give memory back before an engine starts: the page cache, and shared memory that nobody holds any more."""

from __future__ import annotations

import os
import time
from typing import Any, Mapping

from sparkd.node import arguments, procfs, shm
from sparkd.node.node import Node
from sparkd.node.refusal import Refusal

DROP_CACHES = "/proc/sys/vm/drop_caches"
MIN_AGE_S = 60.0
"""A segment younger than this may belong to an engine that has made it and not yet mapped it."""


def drop_caches(node: Node, owner: str, args: Mapping[str, Any], deadline_s: float) -> Mapping[str, Any]:
    """Mode 1 drops the page cache, 3 also dentries and inodes. On GB10 the cache is the GPU's memory (vllm#48140)."""
    mode = arguments.integer(args, "mode", 1, 3)
    if mode == 2:
        raise Refusal("usage", "mode must be 1 or 3")
    before = _memory()
    os.sync()  # dirty pages cannot be dropped
    descriptor = os.open(DROP_CACHES, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, b"%d\n" % mode)
    finally:
        os.close(descriptor)
    return {"before": before, "after": _memory()}


def unlink_shm(node: Node, owner: str, args: Mapping[str, Any], deadline_s: float) -> Mapping[str, Any]:
    """name -> unlinked | mapped | young | absent. A clock that was set back makes a segment young, never old."""
    names = arguments.items(args, "names", shm.NAME)
    min_age_s = arguments.number(args, "min_age_s", 0.0, 86400.0, default=MIN_AGE_S)
    present = [found for found in map(shm.segment, names) if found is not None]
    old = [found for found in present if time.time() - found.changed_at >= min_age_s]
    result = dict.fromkeys(names, "absent")
    result.update((found.name, "young") for found in present)
    held = shm.holders(old)
    for found in old:
        result[found.name] = "mapped" if held[found.dev, found.inode] else _unlink(found)
    return result


def _unlink(seen: shm.Segment) -> str:
    """The name may stand for another segment by now: then that one has just been made."""
    found = shm.segment(seen.name)
    if found is None:
        return "absent"
    if (found.dev, found.inode) != (seen.dev, seen.inode):
        return "young"
    os.unlink(f"{shm.FOLDER}/{seen.name}")
    return "unlinked"


def _memory() -> Mapping[str, int]:
    lines = procfs.read("/proc/meminfo").decode("ascii").splitlines()
    values = {name: int(rest.split()[0]) * 1024 for name, _, rest in (line.partition(":") for line in lines)}
    return {"free_bytes": values["MemFree"], "cached_bytes": values["Cached"]}
