"""This process -> the name that it writes on each container it makes; and such a name -> whether its process is alive.

Beside the daemon, another user may run `sparkd check` with the same owner id. Neither may sweep away a container that
the other is just looking into.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from sparkd.node import procfs

BOOT_ID = "/proc/sys/kernel/random/boot_id"
NAME = re.compile(r"([0-9a-f-]{36}):(\d{1,9}):(\d{1,18})")
"""Boot, pid, start in clock ticks after boot."""
LABEL = "io.sparkd.looker"
"""On a container that is there for a moment: the process that made it. While it lives, no other one removes it."""


def me() -> str:
    pid = os.getpid()
    return f"{_boot()}:{pid}:{procfs.stat(pid).start_ticks}"


def alive(name: str) -> bool:
    """Does the process of this name live on this machine? False for other names."""
    match = NAME.fullmatch(name)
    if match is None or match[1] != _boot():
        return False
    try:
        os.kill(int(match[2]), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # another user's: it is there
    try:
        return procfs.stat(match[2]).start_ticks == int(match[3])
    except procfs.GONE:  # there, and hidden from the daemon (ProtectProc=): a wrong yes only leaves a created container
        return True


def forsaken(labels: Mapping[str, str] | None) -> bool:
    """May this process remove what has these labels: is its maker gone, or is it this very process?"""
    by = str((labels or {}).get(LABEL, ""))
    return by == me() or not alive(by)


def _boot() -> str:
    return procfs.read(BOOT_ID).decode("ascii").strip()
