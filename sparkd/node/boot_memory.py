"""/proc/meminfo in bytes, and as it was when this service first ran after a boot.

Memory that no process has and that does not come back once the engines are gone is a leak of the driver's; that it is
one can only be told by comparing with the time before the first engine.
"""

from __future__ import annotations

import glob
import json
import os
from typing import Mapping

from sparkd.node import log, procfs, regular

KEYS = (
    *("MemTotal", "MemFree", "MemAvailable", "Buffers", "Cached", "SwapCached", "AnonPages", "Shmem", "Slab"),
    *("KernelStack", "PageTables", "SecPageTables", "VmallocUsed", "Percpu", "Hugetlb", "Zswap"),
)
ZRAM = "/sys/block/zram*/mm_stat"
YOUNG_S = 600.0
"""Later than this after a boot an engine may have come and gone already."""
FILE = "boot-memory.json"

_RECORDED: dict[str, int] = {}


def figures() -> dict[str, int]:
    """Those of KEYS that this kernel has, and Zram."""
    lines = procfs.read("/proc/meminfo").decode("ascii").splitlines()
    pairs = (line.partition(":") for line in lines)
    found = {name: int(rest.split()[0]) * 1024 for name, _, rest in pairs if name in KEYS}
    return {**found, "Zram": zram()}


def zram() -> int:
    """Bytes of memory that compressed swap devices take, which /proc/meminfo does not tell (zram: mm_stat, third field)."""
    total = 0
    for path in glob.glob(ZRAM):
        try:
            total += int(procfs.read(path).split()[2])
        except (OSError, IndexError):  # a device that is being set up or removed
            continue
    return total


def recorded() -> Mapping[str, int]:
    """The figures right after this boot, empty where nobody looked in time."""
    return _RECORDED


def record(state_dir: str, boot: procfs.BootIdentity) -> None:
    """At the start of the service: note the figures of this boot, or read those noted by an earlier run in it."""
    path, identity = os.path.join(state_dir, FILE), f"{boot.boot_id}:{boot.pid1_ticks}"
    known = _noted(path, identity)
    if not known and procfs.boot_age_s(boot) < YOUNG_S:
        known = figures()
        try:
            _write(path, {"boot": identity, "figures": known})
        except OSError as error:  # a full disk: known as long as this service runs
            log.error(f"{path}: {error}")
    _RECORDED.clear()
    _RECORDED.update(known)


def _noted(path: str, identity: str) -> Mapping[str, int]:
    try:
        content = json.loads(regular.read(path, 1 << 16))
        return (
            {str(key): int(count) for key, count in content["figures"].items()} if content["boot"] == identity else {}
        )
    except (OSError, ValueError, LookupError, TypeError, AttributeError):  # none yet, or cut off by a power cut
        return {}


def _write(path: str, content: Mapping[str, object]) -> None:
    with open(f"{path}.new", "w", encoding="ascii") as file:
        json.dump(content, file)
    os.replace(f"{path}.new", path)
