"""/proc/meminfo, word for word, and what the files in /dev/shm take of it."""

from __future__ import annotations

import os
from typing import Any, Mapping

from sparkd.node import procfs, shm


def probe(args: Mapping[str, Any], deadline_s: float) -> str:
    """`Shmem` counts every tmpfs and anonymous shared page, so /dev/shm alone gets a line of its own, in bytes."""
    usage = os.statvfs(shm.FOLDER)
    used = (usage.f_blocks - usage.f_bfree) * usage.f_frsize
    return procfs.read("/proc/meminfo").decode("ascii") + f"ShmFiles: {used}\n"
