"""Files -> sha256, remembered by inode, size and time. Many and large ones in the background, slowly, while a client asks.

Weights have a hundred gigabytes: no question may wait for them, and on unified memory their pages must not stay in the
page cache, where the engine would have to ask for its memory back.
"""

from __future__ import annotations

import hashlib
import os
import threading
import time
from typing import Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

from sparkd.node import regular

CHUNK_BYTES = 4 << 20
RATE_BYTES_S = 500e6
"""A tenth of what an NVMe gives, and half a core: a group that serves does not notice."""
UNASKED_S = 20.0
"""Without a question for this long the client has gone, and the hashing ends."""
HUNG_S = 60.0
"""Without a chunk of CHUNK_BYTES: no disk that works is so slow."""
MOST_LEFT = 3
MOST = 8192

Key = Tuple[int, int, int, int]

_known: Dict[Key, str] = {}
_lock = threading.Lock()


class Progress(NamedTuple):
    """In bytes. `unread`: files that could not be read to their end."""

    done: int
    total: int
    unread: Tuple[str, ...]


def known(path: str) -> Optional[str]:
    """The hash of a file that was hashed before and has not changed since. Raises OSError."""
    return _known.get(_key(path))


def sha256(path: str, go_on: Callable[[], bool], rate_bytes_s: float = 0.0, keep_pages: bool = True) -> Optional[str]:
    """Of the whole file; None when `go_on` said no first. Raises OSError, also for one that is written meanwhile."""
    key = _key(path)
    if key not in _known:
        digest = _read(path, key, go_on, rate_bytes_s, keep_pages)
        if digest is None:
            return None
        while len(_known) >= MOST:
            _known.pop(next(iter(_known)), None)
        _known[key] = digest
    return _known[key]


def _key(path: str) -> Key:
    return _key_of(os.stat(path))


def _key_of(found: os.stat_result) -> Key:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _read(path: str, key: Key, go_on: Callable[[], bool], rate_bytes_s: float, keep_pages: bool) -> Optional[str]:
    """No more of it than `key` says: another file may have taken its place, and one that grows may have no end."""
    digest, began, done, size = hashlib.sha256(), time.monotonic(), 0, key[2]
    with open(regular.opened(path), "rb") as source:
        while True:
            chunk = source.read(min(CHUNK_BYTES, size - done))
            if not chunk:
                if _key_of(os.fstat(source.fileno())) != key:
                    raise OSError(f"{path} was written while it was read")
                return digest.hexdigest()
            digest.update(chunk)
            if not keep_pages:
                os.posix_fadvise(source.fileno(), done, len(chunk), os.POSIX_FADV_DONTNEED)
            done += len(chunk)
            if not go_on():
                return None
            if rate_bytes_s:
                time.sleep(max(0.0, began + done / rate_bytes_s - time.monotonic()))


# ------------------------------------------------------------------------------------------------------ in the background


class Job:
    """One folder at a time; `ask` begins it, and it ends by itself when no client has asked for a while.

    No file is looked at under the lock: one on a dead mount would keep it.
    """

    def __init__(self, rate_bytes_s: float = RATE_BYTES_S) -> None:
        self._rate_bytes_s = rate_bytes_s
        self._asked = 0.0
        self._wanted: List[str] = []
        self._failed: Dict[str, Optional[Key]] = {}
        self._thread: Optional[threading.Thread] = None
        self._beat = 0.0
        """When the thread was last seen at work: one that hangs on a dead mount is left behind."""
        self._left: List[threading.Thread] = []

    def ask(self, paths: Sequence[str]) -> Progress:
        """How far the hashing is; returns at once. A new folder replaces the one before."""
        sizes = {path: _size(path) for path in paths}
        still_open = [path for path in sizes if self._is_open(path)]
        with _lock:
            self._asked, self._wanted = time.monotonic(), list(paths)
            if still_open and (not self.works() or self._left_behind()):
                self._begin()
            unread = tuple(path for path in paths if path in self._failed)
        return Progress(sum(sizes.values()) - sum(map(sizes.__getitem__, still_open)), sum(sizes.values()), unread)

    def works(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def _left_behind(self) -> bool:
        """Whether the thread hangs, and another may take its place."""
        self._left = [one for one in self._left if one.is_alive()]
        if time.monotonic() - self._beat <= HUNG_S or len(self._left) >= MOST_LEFT or self._thread is None:
            return False
        self._left.append(self._thread)
        return True

    def _begin(self) -> None:
        self._beat = time.monotonic()
        self._thread = threading.Thread(target=self._run, name="hashing", daemon=True)
        self._thread.start()

    def _is_open(self, path: str) -> bool:
        """Still to be done: one that could not be read is tried again when it is another file."""
        try:
            key = _key(path)
        except OSError:
            return False
        return key not in _known and self._failed.get(path) != key

    def _run(self) -> None:
        while True:
            with _lock:
                wanted = list(self._wanted)
            path = next((one for one in wanted if self._is_open(one)), None)
            with _lock:
                if wanted != self._wanted:
                    continue
                if path is None or not self._is_asked():
                    if self._thread is threading.current_thread():
                        self._thread = None
                    return
            self._one(path)

    def _one(self, path: str) -> None:
        key: Optional[Key] = None
        try:
            key = _key(path)
            sha256(path, self._goes_on, self._rate_bytes_s, keep_pages=False)
        except OSError:  # gone, or a disk that cannot read it
            self._failed[path] = key

    def _goes_on(self) -> bool:
        """Asked after each chunk."""
        if self._thread is not threading.current_thread():
            return False  # it had been left behind
        self._beat = time.monotonic()
        return self._is_asked()

    def _is_asked(self) -> bool:
        return time.monotonic() - self._asked <= UNASKED_S


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0
