"""Deadlines that count only time in which sparkd itself ran."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import anyio

TICK_S, TICKS = 1.0, 10
"""No standstill, however long, costs more of a deadline than this, or than this part of it."""


@contextmanager
def fail_after(limit_s: float) -> Iterator[None]:
    """Raises TimeoutError when what is inside is not done after `limit_s` seconds of our own time.

    While sparkd is stopped (SIGSTOP), suspended or starved, an answer may lie in its socket unread: the ordinary deadline
    has passed when it goes on, and a healthy engine had failed to answer.
    """
    loop, left, step_s = asyncio.get_running_loop(), limit_s, min(TICK_S, limit_s / TICKS)
    timer: asyncio.TimerHandle | None = None
    with anyio.CancelScope() as scope:

        def tick(passed_s: float) -> None:
            nonlocal left, timer
            left -= passed_s
            if left > 0:
                timer = loop.call_later(step_s, tick, step_s)
            else:
                scope.cancel()

        timer = loop.call_later(step_s, tick, step_s)
        try:
            yield
        finally:
            if timer is not None:
                timer.cancel()
    if scope.cancelled_caught:
        raise TimeoutError
