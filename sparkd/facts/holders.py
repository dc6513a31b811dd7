"""`holders` probe -> who has the node's memory, in bytes."""

from __future__ import annotations

import re
from collections.abc import Mapping

from sparkd.facts import Fact, FactError, lines
from sparkd.facts.processes import HEAD, head
from sparkd.model.machine import Holders, Process, Tmpfs
from sparkd.model.printed import WHOLE

_FIGURE = re.compile(rf"(now|boot) ([A-Za-z0-9_()]+) ({WHOLE})")
_TMPFS = re.compile(rf"tmpfs ({WHOLE}) (/.*)")
_PROCESS = re.compile(rf"process {HEAD} (.+)")
_KNOWN = ("MemFree", "Buffers", "Cached", "AnonPages", "Slab")
"""Every kernel has these; each but MemTotal is a part of the memory in use or free."""
_MORE = (
    "SwapCached",
    "KernelStack",
    "PageTables",
    "SecPageTables",
    "VmallocUsed",
    "Percpu",
    "Hugetlb",
    "Zswap",
    "Zram",
)


def parse(text: str) -> Holders:
    figures: dict[str, dict[str, int]] = {"now": {}, "boot": {}}
    tmpfs: list[Tmpfs] = []
    processes: list[Process] = []
    for line in lines(text):
        if match := _FIGURE.fullmatch(line):
            figures[match[1]][match[2]] = int(match[3])
        elif match := _TMPFS.fullmatch(line):
            tmpfs.append(Tmpfs(match[2], int(match[1])))
        elif match := _PROCESS.fullmatch(line):
            processes.append(head(match, match[7]))
        else:
            raise FactError(f"unexpected line {line[:80]!r}")
    at_boot = unaccounted(figures["boot"]) if figures["boot"] else None
    return Holders(tuple(tmpfs), tuple(processes), unaccounted(figures["now"]), at_boot)


def unaccounted(figures: Mapping[str, int]) -> int:
    """MemTotal without all that the kernel says where it went. `Cached` counts tmpfs and shared memory too."""
    try:
        rest = figures["MemTotal"] - sum(figures[name] for name in _KNOWN)
    except KeyError as error:
        raise FactError(f"no {error.args[0]} in it") from None
    return max(0, rest - sum(figures.get(name, 0) for name in _MORE))


HOLDERS = Fact("holders", parse)
