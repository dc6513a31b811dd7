"""Processes that carry a mark in their environment -> gone, wherever they went: what leaves its session takes its environment along."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress

from sparkd.node import procfs

MOST_BYTES = 256 << 10
ROUNDS, PAUSE_S = 20, 0.05
"""One that forks while it is looked for is found in the next round, and one that begins another program once it has."""
KERNEL_THREADS = 2
"""The process that all of them are children of; they have no environment at all."""


def end_marked(mark: bytes) -> int:
    """Kill every process whose first environment has this entry; returns how many were. Blocking.

    A mark is made for one program and known to nobody else, and is read of the very process that is held open: no other one
    that got its number meanwhile is met (rule 3).
    """
    ended = 0
    for _ in range(ROUNDS):
        now = [_end(int(name), mark) for name in os.listdir("/proc") if name.isdigit()]
        ended += now.count(True)
        if True not in now and None not in now:
            break
        time.sleep(PAUSE_S)
    return ended


def _end(pid: int, mark: bytes) -> bool | None:
    """Was it killed? None: ask again, for a process that just executes another program shows no environment."""
    try:
        held = os.pidfd_open(pid)
    except OSError:  # gone, or a thread's number
        return False
    try:
        environment = procfs.read(f"/proc/{pid}/environ", MOST_BYTES)
        if not environment:
            found = procfs.stat(pid)
            between = found.state not in ("Z", "X") and KERNEL_THREADS not in (pid, found.ppid)
            return None if between and os.stat(f"/proc/{pid}").st_uid == os.geteuid() else False
        if mark not in environment.split(b"\0"):
            return False
        signal.pidfd_send_signal(held, signal.SIGKILL)
    except (*procfs.GONE, PermissionError):  # a process of another user: not readable, and not started by us
        return False
    finally:
        with suppress(OSError):
            os.close(held)
    return True
