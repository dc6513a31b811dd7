"""One thread for all that may hang: the loop hands it work through a bounded queue and waits until a deadline."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import anyio

from sparkd.base.guarded import guarded_call

T = TypeVar("T")

QUEUE = 256
"""Waiting work at the most; more means that the disk hangs, and then nothing more is worth queueing."""


class NotAnswered(Exception):
    """The work was not done within its deadline, or could not even be queued."""


class Poke:
    """In place of work: look whether there is anything to do."""


@dataclass(eq=False, slots=True)
class Job(Generic[T]):
    """One piece of work. It is finished or abandoned, never both, and the waiting caller learns which."""

    work: Callable[[Job[T]], T]
    undo: Callable[[], None] | None
    loop: asyncio.AbstractEventLoop
    done: anyio.Event = field(default_factory=anyio.Event)
    result: T | None = None
    error: Exception | None = None
    _finished: bool = False
    _abandoned: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def wanted(self) -> bool:
        """Does the caller still wait? Asked in the thread, right before the work becomes final."""
        return not self._abandoned

    def abandon(self) -> bool:
        """The caller waits no longer. False when the work had been finished already."""
        with self._lock:
            self._abandoned = not self._finished
            return self._abandoned

    def run(self) -> None:
        """In the thread."""
        if self._abandoned:
            return
        try:
            self.result = self.work(self)
        except Exception as error:
            self.error = error  # raised where it is waited for
        with self._lock:
            self._finished = not self._abandoned
        if self._finished:
            self._tell()
        elif self.undo is not None and self.error is None:
            guarded_call(self.undo, "journal work")

    def _tell(self) -> None:
        try:
            self.loop.call_soon_threadsafe(self.done.set)
        except RuntimeError:
            return  # the loop was closed while the disk hung: no caller is left to be told


class Worker:
    """The thread. `idle_s` says how long it may wait for work before it calls `on_idle` (None: for ever)."""

    def __init__(self, idle_s: Callable[[], float | None], on_idle: Callable[[], None]) -> None:
        self._jobs: queue.Queue[Job[Any] | type[Poke] | None] = queue.Queue(QUEUE)
        self._idle_s, self._on_idle = idle_s, on_idle
        self._thread: threading.Thread | None = None

    async def call(self, work: Callable[[Job[T]], T], deadline_s: float, undo: Callable[[], None] | None = None) -> T:
        """What `work` returns or raises. Raises NotAnswered after `deadline_s`.

        Work that ends after that counts as never done: `undo` then takes it back, in the thread.
        """
        if self._thread is None:
            # A daemon thread: one that hangs in the kernel must not keep the process from ending.
            self._thread = threading.Thread(target=self._run, name="sparkd-journal", daemon=True)
            self._thread.start()
        job = Job(work, undo, asyncio.get_running_loop())
        try:
            self._jobs.put_nowait(job)
        except queue.Full:
            raise NotAnswered("the disk hangs: too much is waiting for it") from None
        try:
            with anyio.move_on_after(deadline_s):
                await job.done.wait()
        finally:
            late = job.abandon()
        if late:
            raise NotAnswered(f"the disk did not answer within {deadline_s:g} s")
        if job.error is not None:
            raise job.error
        return job.result  # type: ignore[return-value]  # set by run, which set no error

    def poke(self) -> None:
        """Call `on_idle` after the work that is queued."""
        try:
            self._jobs.put_nowait(Poke)
        except queue.Full:
            return  # a thread with that much to do looks again by itself

    def stop(self, wait_s: float) -> None:
        """End the thread after the work that is queued; a thread that hangs is left behind."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        try:
            self._jobs.put_nowait(None)
        except queue.Full:
            return
        thread.join(wait_s)

    def _run(self) -> None:
        while True:
            try:
                job = self._jobs.get(timeout=self._idle_s())
            except queue.Empty:
                guarded_call(self._on_idle, "journal work")
                continue
            if job is None:
                return
            if isinstance(job, Job):
                job.run()
            else:
                guarded_call(self._on_idle, "journal work")
