"""One process seen from outside: memory, CPU time and wake-ups, from /proc."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path

TICK_S = 1 / os.sysconf("SC_CLK_TCK")
SAMPLE_S = 1.0


def rss_bytes(pid: int) -> int:
    return _kilobytes(Path(f"/proc/{pid}/status"), "VmRSS") or 0


def pss_bytes(pid: int) -> int | None:
    """Shared pages counted by share; None where this user may not read it."""
    try:
        return _kilobytes(Path(f"/proc/{pid}/smaps_rollup"), "Pss")
    except OSError:
        return None


def _kilobytes(path: Path, key: str) -> int | None:
    for line in path.read_text("utf-8").splitlines():
        name, _, rest = line.partition(":")
        if name == key:
            return int(rest.split()[0]) * 1024
    return None


def cpu_s(pid: int) -> float:
    """User and system time of all threads, also of those that have ended."""
    words = Path(f"/proc/{pid}/stat").read_text("utf-8").rsplit(") ", 1)[1].split()
    return (int(words[11]) + int(words[12])) * TICK_S


def waits(pid: int) -> dict[int, int]:
    """Thread -> how often it has given up the processor to wait for something: each wait ends with a wake-up."""
    found = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            text = (task / "status").read_text("utf-8")
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended since the folder was listed
        line = next(line for line in text.splitlines() if line.startswith("voluntary_ctxt_switches"))
        found[int(task.name)] = int(line.split()[1])
    return found


class Watch:
    """Counts CPU time and wake-ups of a process over a time; looks every second, for a thread's count ends with it."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._first, self._last = waits(pid), waits(pid)
        self._began, self._cpu_s = time.monotonic(), cpu_s(pid)

    def look(self) -> None:
        self._last |= waits(self._pid)

    def run(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            threading.Event().wait(min(SAMPLE_S, left))
            self.look()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began

    @property
    def cpu_share(self) -> float:
        """Of one core."""
        return (cpu_s(self._pid) - self._cpu_s) / self.seconds

    def wakeups_by_thread(self) -> dict[int, float]:
        """Per second."""
        return {tid: (count - self._first.get(tid, 0)) / self.seconds for tid, count in self._last.items()}


def quantile(values: Sequence[float], part: float) -> float:
    """The value below which `part` of them lie: a measured one, so the worst of few for a high part."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))]
