"""The longest step of an event loop: what one callback, or one task between two awaits, took."""

from __future__ import annotations

import asyncio
import time
from typing import Any


class Longest:
    """Measures every step of this process's loops between `begin` and `end`; costs nothing at other times."""

    def __init__(self) -> None:
        self.ms = self.cpu_ms = 0.0
        """Of the longest, by the clock and by CPU time: on a machine that others use the clock also counts them."""
        self.count = 0
        self._run: Any = None

    def begin(self) -> None:
        self.ms = self.cpu_ms = 0.0
        self.count = 0
        run = self._run = asyncio.Handle._run

        def timed(handle: asyncio.Handle) -> None:
            began, cpu = time.perf_counter(), time.thread_time()
            run(handle)
            self.count += 1
            self.ms = max(self.ms, 1000 * (time.perf_counter() - began))
            self.cpu_ms = max(self.cpu_ms, 1000 * (time.thread_time() - cpu))

        asyncio.Handle._run = timed  # type: ignore[method-assign, assignment]

    def end(self) -> dict[str, float]:
        """What was measured."""
        asyncio.Handle._run = self._run  # type: ignore[method-assign]
        self._run = None
        return {"ms": self.ms, "cpu_ms": self.cpu_ms, "count": self.count}

    @property
    def begun(self) -> bool:
        return self._run is not None
