"""Where a bug of ours ends: in the log, and not in the loop or the thread that the work runs in.

Odd text of another program is no bug: reading it ends in `unread`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import structlog

log = structlog.get_logger("sparkd")
T = TypeVar("T")

HINT = "this is a bug in sparkd; please report it with this trace"


async def guarded(work: Callable[[], Awaitable[T]], what: str, deployment: str = "") -> T | None:
    """What `work` returns, or None after a bug, which is logged with its trace as `what` failed.

    For work in the loop's own task group, which one exception would end, and with it the supervision of everything. Only
    cancellation gets out.
    """
    try:
        return await work()
    except Exception:
        _report(what, deployment)
        return None


def guarded_call(work: Callable[[], T], what: str) -> T | None:
    """The same for work that waits for nothing, in a thread of its own."""
    try:
        return work()
    except Exception:
        _report(what, "")
        return None


def _report(what: str, deployment: str) -> None:
    about = {"deployment": deployment} if deployment else {}
    log.exception(f"{what} failed", **about, hint=HINT)
