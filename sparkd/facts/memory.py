"""`meminfo` probe -> Memory: GB10's one pool, in bytes."""

from __future__ import annotations

import re

from sparkd.facts import Fact, FactError, records
from sparkd.model.machine import Memory
from sparkd.model.printed import WHOLE

_LINE = re.compile(rf"([A-Za-z0-9_()]+): +({WHOLE})( kB)?")


def parse(text: str) -> Memory:
    """`page_cache` is what dropping caches can give back: Cached + Buffers + SReclaimable - Shmem.

    Cached holds the pages of files, but counts tmpfs and shared memory too, which only their owners can free (Shmem).
    Buffers are the cached pages of block devices; SReclaimable are dentries and inodes, which mode 3 drops as well.
    `shm` is what the files in /dev/shm take, read from its file system: Shmem also counts every other tmpfs.
    """
    found = {match[1]: int(match[2]) * (1024 if match[3] else 1) for match in records(text, _LINE)}
    try:
        cache = found["Cached"] + found["Buffers"] + found["SReclaimable"] - found["Shmem"]
        return Memory(
            total=found["MemTotal"],
            free=found["MemFree"],
            available=found["MemAvailable"],
            page_cache=max(0, cache),  # the kernel sums per-CPU counters without a lock
            shm=found["ShmFiles"],
            swap_used=found["SwapTotal"] - found["SwapFree"],
        )
    except KeyError as error:
        raise FactError(f"no {error.args[0]} in it") from None


MEMINFO = Fact("meminfo", parse)
