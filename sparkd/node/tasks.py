"""A piece of work and a deadline -> its result on time, or the word that it is late. Late work is never started twice.

A read of /proc can hang for as long as the kernel likes (a process whose memory map is locked, a dead NFS server), and
no thread can be stopped from outside. So each piece runs in a thread of its own, the caller stops waiting at the
deadline, and a piece that is overdue is not begun again until it really ends. The same piece is the same work about the same
thing: another question is no answer's, nor another hang's, of this one.
"""

from __future__ import annotations

import threading
import time
from typing import Any, Callable, NamedTuple, Optional

from sparkd.node import log
from sparkd.node.refusal import Refusal

MAX_TASKS = 128
"""Threads at most: 16 connections with all probes each, and room for stuck ones."""
MOST_OVERDUE = 4
"""Of one name, whatever they are about: questions about ever other dead mounts must not take all threads."""


class Outcome(NamedTuple):
    """Either a value, or the refusal that took its place."""

    value: Any
    refusal: Optional[Refusal]


class _Task(NamedTuple):
    name: str
    about: str
    started_at: float
    started: float
    due: float


class Tasks:
    """Work in flight. `start` hands the outcome to `deliver` from the worker's thread, however late it comes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: list[_Task] = []

    def start(
        self, name: str, about: str, deadline_s: float, work: Callable[[], Any], deliver: Callable[[Outcome], None]
    ) -> None:
        """`about` is all that the work is told: its arguments. Raises Refusal(timeout) while an earlier piece of this name about the
        same is overdue, or MOST_OVERDUE of this name are; Refusal(refused) at MAX_TASKS."""
        now = time.monotonic()
        task = _Task(name, about, time.time(), now, now + deadline_s)
        with self._lock:
            self._admit(task, now)
            self._running.append(task)
        thread = threading.Thread(target=self._run, args=(task, work, deliver), name=name, daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # no more threads: the unit's TasksMax, or the node is out of memory
            self._end(task)
            raise Refusal("failed", f"cannot start {name}: {error}") from None

    def _admit(self, task: _Task, now: float) -> None:
        overdue = [other for other in self._running if other.name == task.name and other.due <= now]
        same = next((other for other in overdue if other.about == task.about), None)
        if same is not None:
            since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(same.started_at))
            raise Refusal("timeout", f"still running since {since} ({now - same.started:.0f} s)")
        if len(overdue) >= MOST_OVERDUE:
            raise Refusal("timeout", f"{len(overdue)} other questions of this kind are still running")
        if len(self._running) >= MAX_TASKS:
            raise Refusal("refused", f"{MAX_TASKS} tasks are running")

    def _run(self, task: _Task, work: Callable[[], Any], deliver: Callable[[Outcome], None]) -> None:
        outcome = _outcome(task.name, work)
        self._end(task)
        deliver(outcome)

    def _end(self, task: _Task) -> None:
        with self._lock:
            self._running.remove(task)


def _outcome(name: str, work: Callable[[], Any]) -> Outcome:
    try:
        return Outcome(work(), None)
    except Refusal as refusal:
        return Outcome(None, refusal)
    except TimeoutError as error:  # of `patience`: what it looked at is left behind, and this piece ends
        return Outcome(
            None, Refusal("timeout", f"{error.filename}: {error.strerror}" if error.filename else str(error))
        )
    except OSError as error:
        return Outcome(None, Refusal("failed", str(error)))
    except Exception as error:  # the service's boundary: a bug in one probe is an answer to one client
        log.error(f"{name}: unexpected {type(error).__name__}: {error}")
        return Outcome(None, Refusal("failed", f"unexpected {type(error).__name__}: {error}"))
