"""The daemon's two clocks: one for logic that no step of the wall clock disturbs, one for people."""

from __future__ import annotations

import time


def now() -> float:
    """Seconds of CLOCK_BOOTTIME: monotonic, counts suspend, and the same for every process since the node's boot.

    Not the wall clock: a wall clock that moves back has stopped whole supervisors (Supervisor/supervisor#281).
    """
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def wall() -> float:
    """Unix time, for display and for the journal only."""
    return time.time()
