"""Makes the shared memory files of a rank: names, sizes and mappings are vLLM's, the pages are never touched."""

from __future__ import annotations

import mmap
import os

# Sizes seen under every real rank (evidence, "usual leftovers").
REQUEST_QUEUE_BYTES = 167772180
REPLY_QUEUE_BYTES = 25165836
SEMAPHORE_BYTES = 32
LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789_"


class SharedFiles:
    """The files one process made. They outlive it unless `remove` is called, as after a failed start only."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._made: list[tuple[str, mmap.mmap]] = []

    def segment(self, size_bytes: int) -> None:
        self._make("psm_" + os.urandom(4).hex(), size_bytes)

    def semaphore(self) -> None:
        self._make("sem.mp-" + "".join(LETTERS[byte % len(LETTERS)] for byte in os.urandom(8)), SEMAPHORE_BYTES)

    def remove(self) -> None:
        for path, _ in self._made:
            os.unlink(path)
        self._made.clear()

    def _make(self, name: str, size_bytes: int) -> None:
        path = os.path.join(self._folder, name)
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            os.ftruncate(fd, size_bytes)
            self._made.append((path, mmap.mmap(fd, size_bytes)))
        finally:
            os.close(fd)
