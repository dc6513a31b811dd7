"""Paths and a look at each -> what it found; None where it does not come back, as below a mount whose server is dead.

No thread can be stopped from outside, so a look that hangs keeps its own, and nothing below that mount is looked at again
until it ends: one dead mount must not cost the answers about all other paths.
"""

from __future__ import annotations

import errno
import queue
import threading
from typing import Callable, Dict, Iterable, List, NamedTuple, Optional, Tuple, TypeVar

from sparkd.node import mounts

T = TypeVar("T")

PATIENCE_S = 2.0
MOST_DEAD = 3
"""Mounts that one round waits for; what is left then is not looked at."""
MOST_STUCK = 32
"""Threads left behind in all. Where they are taken nothing is looked at until one of them ends."""


class _Stuck(NamedTuple):
    thread: threading.Thread
    below: str


_STUCK: List[_Stuck] = []
_LOCK = threading.Lock()


def answered(path: str, look: Callable[[str], T], patience_s: Optional[float] = None) -> T:
    """What `look` says of this one path. An error of it is raised, and TimeoutError where it does not come back."""
    (found,) = looked([path], lambda one: (look(one),), patience_s).values()
    if found is None:
        raise TimeoutError(errno.ETIMEDOUT, "it does not answer", path)
    return found[0]


def looked(
    paths: Iterable[str], look: Callable[[str], T], patience_s: Optional[float] = None
) -> Dict[str, Optional[T]]:
    """Answers in the order of the paths. An error of `look` is raised. `patience_s`: for each of them."""
    found: Dict[str, Optional[T]] = dict.fromkeys(paths)
    todo = list(found)
    for _ in range(MOST_DEAD):
        todo = [path for path in todo if not _is_stuck(path)]
        here = _round(todo, look, PATIENCE_S if patience_s is None else patience_s)
        found.update(here)
        if len(here) == len(todo):
            break
        todo = todo[len(here) :]
    return found


def _round(paths: List[str], look: Callable[[str], T], patience_s: float) -> Dict[str, T]:
    """Up to the first path that does not answer, which is remembered."""
    answers: queue.SimpleQueue[Tuple[Optional[T], Optional[Exception]]] = queue.SimpleQueue()
    given_up = threading.Event()

    def work() -> None:
        for path in paths:
            if given_up.is_set():
                return
            try:
                answers.put((look(path), None))
            except Exception as error:  # raised again in the thread that asked
                answers.put((None, error))
                return

    thread = threading.Thread(target=work, name="look", daemon=True)
    thread.start()
    found: Dict[str, T] = {}
    for path in paths:
        try:
            answer, error = answers.get(timeout=patience_s)
        except queue.Empty:
            given_up.set()
            stuck = _Stuck(thread, _mount_of(path))
            with _LOCK:
                _STUCK.append(stuck)
            break
        if error is not None:
            raise error
        found[path] = answer  # type: ignore[assignment]
    return found


def _is_stuck(path: str) -> bool:
    with _LOCK:
        _STUCK[:] = [one for one in _STUCK if one.thread.is_alive()]
        return len(_STUCK) >= MOST_STUCK or any(_below(path, one.below) for one in _STUCK)


def _mount_of(path: str) -> str:
    """Where the path is mounted, by its words; the path itself on the root, from where a link leads elsewhere."""
    table, _ = mounts.table()
    points = [mount.point for mount in table if mount.point != "/" and _below(path, mount.point)]
    return max(points, key=len, default=path)


def _below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")
