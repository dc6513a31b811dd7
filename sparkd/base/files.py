"""Files that people name to the daemon (secrets, tokens, keys, records) -> their content, soon, or an error that says why not.

Read as the node service reads files of other users (`sparkd.node.regular`): regular files only, within a bound.
And in threads that may be left behind (`sparkd.node.patience`): on a dead mount even opening a file hangs, and the daemon
has to go on with everything else.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

import anyio
from anyio.lowlevel import RunVar

from sparkd.node import patience, regular

T = TypeVar("T")

MOST_BYTES = 1 << 20
"""A key has some kilobytes, a known_hosts of a thousand nodes 100 KiB."""
PATIENCE_S = 5.0
AT_ONCE = 8
"""Threads that wait for files: those that hang must not take the ones that everything else of the daemon runs in."""

_limiter: RunVar[anyio.CapacityLimiter] = RunVar("files")


def read(path: str | Path, most_bytes: int = MOST_BYTES, patience_s: float = PATIENCE_S) -> bytes:
    """Blocks for `patience_s` at most. Raises OSError: NotRegular, TooMuch and TimeoutError among them."""
    return patience.answered(str(path), partial(regular.read, most_bytes=most_bytes), patience_s)


def text(path: str | Path) -> str:
    """Its UTF-8 text, every line ended by a newline alone. Raises OSError and UnicodeDecodeError."""
    return read(path).decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")


async def aside(work: Callable[[], T]) -> T:
    """What reads files and ends by itself, in a thread of these."""
    try:
        limiter = _limiter.get()
    except LookupError:
        _limiter.set(limiter := anyio.CapacityLimiter(AT_ONCE))
    return await anyio.to_thread.run_sync(work, limiter=limiter)
