"""Waiting for a condition instead of for a time."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable

import anyio


async def until(what: str, condition: Callable[[], bool | Awaitable[bool]], deadline_s: float = 15.0) -> None:
    """Fails with `what` when `condition()` does not become true in time."""
    with anyio.move_on_after(deadline_s):
        while True:
            answer = condition()
            if await answer if inspect.isawaitable(answer) else answer:
                return
            await anyio.sleep(0.02)
    raise AssertionError(f"not within {deadline_s:g} s: {what}")
