"""Turns this process into one of vLLM's: titles, children that end with a status, signals as something to wait for."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable
from typing import Any

SPAWN_ARGV = (
    "{}\0-c\0from multiprocessing.spawn import spawn_main; spawn_main(tracker_fd=5, pipe_handle=7)\0"
    "--multiprocessing-fork"
)


def set_title(title: str) -> None:
    """Overwrites argv in place, and the environment behind it unless SPT_NOENV is set, exactly as setproctitle does."""
    _overwrite(title, title, keep_environment="SPT_NOENV" in os.environ)


def spawn_title() -> None:
    """The argv a child of vLLM has until its imports are done: multiprocessing's spawn runs Python with a -c script."""
    _overwrite(SPAWN_ARGV.format(sys.executable), os.path.basename(sys.executable), keep_environment=True)


def _overwrite(argv: str, comm: str, keep_environment: bool) -> None:
    with open("/proc/self/stat", "rb") as file:
        # Fields 48 to 51 of proc(5): where argv and the environment start and end; field 3 is the first after the name.
        bounds = [int(field) for field in file.read().rsplit(b")", 1)[1].split()[45:49]]
    start, end = bounds[0], bounds[1] if keep_environment else bounds[3]
    room = end - start
    with open("/proc/self/mem", "r+b", buffering=0) as memory:
        memory.seek(start)
        memory.write(argv.encode()[: room - 1].ljust(room, b"\0"))
    with open("/proc/self/comm", "w", encoding="utf-8") as name:
        name.write(comm[:15])


def fork(run: Callable[..., int], *arguments: Any) -> int:
    """Starts `run(*arguments)` in a child whose exit status is its result; returns the child's pid."""
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        status = run(*arguments)
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 1
    except BaseException:  # the child's top: whatever it is must be seen and must not unwind into the parent's stack
        traceback.print_exc()
    finally:
        os._exit(status)


def kill(pid: int) -> None:
    """SIGKILL; a process that is gone already is fine."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def reap() -> dict[int, int]:
    """Collects every ended child (also orphans, as PID 1 must): pid to wait status."""
    ended: dict[int, int] = {}
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended
        if pid == 0:
            return ended
        ended[pid] = status


class Signals:
    """SIGTERM, SIGINT and SIGCHLD as bytes to read from a pipe. `wake` makes it readable from another thread."""

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._reader, False)
        os.set_blocking(self._writer, False)
        signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):
            signal.signal(number, lambda _number, _frame: None)

    def fileno(self) -> int:
        return self._reader

    def wake(self) -> None:
        os.write(self._writer, b"\0")

    def taken(self) -> set[int]:
        """The signals since the last call."""
        try:
            return set(os.read(self._reader, 4096)) - {0}
        except BlockingIOError:
            return set()

    def close(self) -> None:
        """In a child: the parent's pipe is none of its business."""
        os.close(self._reader)
        os.close(self._writer)
