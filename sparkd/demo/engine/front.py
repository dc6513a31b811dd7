"""What both parents share, API server and headless: signals and control file turned into exceptions and exits."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from typing import Any

from . import process, stages
from .faults import Faults
from .log import Log, bare, emit
from .options import Options, Sim

# How often a control file is looked at while nothing else happens.
FAULT_INTERVAL_S = 0.5
DEATHS = {"exit0": 0, "exit1": 1, "exit127": 127, "oom": 137}


class Ordered(Exception):
    """SIGTERM or SIGINT arrived."""


class Front:
    """The parent process of a rank: its children, and the one place where it waits."""

    def __init__(self, options: Options, sim: Sim, role: str) -> None:
        self.options = options
        self.sim = sim
        self.log = Log(role)
        self.faults = Faults(sim.faults, options.rank)
        self.signals = process.Signals()
        self.children: list[int] = []
        self._ordered = False

    def stage(self, name: str) -> None:
        """Spends a stage's time; raises Ordered, or StageFailed where the control file says so."""
        end = time.monotonic() + stages.duration_s(name, self.sim, self.faults)
        while time.monotonic() < end:
            self.wait([], end - time.monotonic())

    def say_what_is_told(self) -> None:
        """Lines that the control file puts into the start-up log: whatever anybody might print."""
        for line in self.faults.now().get("prints", ()):
            emit(1, line)

    def wait(self, sources: Sequence[Any], timeout_s: float | None = None) -> list[Any]:
        """The readable sources; none on a child's end, a wake-up or after `timeout_s`. Raises Ordered once."""
        end = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            self._die_if_told()
            left = None if end is None else end - time.monotonic()
            if self.faults.watched:
                left = FAULT_INTERVAL_S if left is None else min(left, FAULT_INTERVAL_S)
            ready = stages.readable([self.signals, *sources], left)
            if self.signals in ready:
                self._take_signals()
            if ready or (end is not None and time.monotonic() >= end):
                return [source for source in ready if source is not self.signals]

    def reap(self) -> set[int]:
        """The children that ended since the last call; as PID 1 this also clears away orphans."""
        ended = set(process.reap())
        self.children = [pid for pid in self.children if pid not in ended]
        return ended

    def kill_children(self) -> None:
        for pid in self.children:
            process.kill(pid)

    def _take_signals(self) -> None:
        stop = self.signals.taken() & {signal.SIGTERM, signal.SIGINT}
        if stop and not self._ordered:
            self._ordered = True
            raise Ordered

    def _die_if_told(self) -> None:
        how = self.faults.now().get("die")
        if how not in DEATHS:
            return
        self.kill_children()
        if how == "exit127":
            bare("bash: line 1: /opt/run-cluster.sh: No such file or directory")
        if how == "exit1":
            bare("Traceback (most recent call last):\nRuntimeError: simulated failure")
        if how == "oom":
            process.kill(os.getpid())  # as PID 1 this does nothing: the exit below gives the same status
        os._exit(DEATHS[how])
