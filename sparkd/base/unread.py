"""Text of another program -> a value, or why there is none. Odd text of one never ends the work on the others.

Readers are pure and raise ValueError alone (a FactError is one). Any other error is a bug of ours: it is logged with its
trace, once a kind, and the value counts as one that could not be read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

import structlog

from sparkd.base.guarded import HINT
from sparkd.model.printed import Unread

log = structlog.get_logger("sparkd")
P = ParamSpec("P")
T = TypeVar("T")

_logged: set[tuple[str, type[Exception]]] = set()
MOST_LOGGED = 200


def bounded(what: str, read: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | Unread:
    """What `read` makes of its arguments. `what` names it for people: `meminfo`, `the log of rank 1`."""
    try:
        return read(*args, **kwargs)
    except Exception as error:
        return unread(what, error)


def unread(what: str, error: Exception) -> Unread:
    """The Unread for an error that was raised while `what` was read; a bug of ours is logged."""
    if isinstance(error, ValueError) and not isinstance(error, UnicodeError):
        return Unread(f"unreadable {what}: {error}")
    kind = (what, type(error))
    if kind not in _logged and len(_logged) < MOST_LOGGED:
        _logged.add(kind)
        log.error("could not be read", what=what, exc_info=error, hint=HINT)
    return Unread(f"unreadable {what}: {type(error).__name__}, a bug in sparkd, see its log")
