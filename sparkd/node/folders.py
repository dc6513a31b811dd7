"""A folder -> how much it holds, walked without following a link or leaving its file system."""

from __future__ import annotations

import errno
import os
import time
from typing import List, NamedTuple

from sparkd.node import emptying
from sparkd.node.regular import TooMuch

WEIGHTS = (".safetensors", ".gguf")
MOST_ENTRIES = 500_000
"""Of all folders together. The largest compile caches that were seen hold some ten thousand files."""


class Held(NamedTuple):
    bytes: int
    files: int
    weights: str
    """A file of model weights in it, or nothing: then it is no cache, whatever it is called."""


class _Count:
    """What was counted so far. Not finishing is an error: half a count would be taken for the whole."""

    def __init__(self, path: str, deadline_s: float) -> None:
        self.path, self.deadline_s = path, deadline_s
        self.until = time.monotonic() + deadline_s
        self.bytes, self.files, self.entries, self.weights = 0, 0, 0, ""

    def enter(self, here: int, path: str) -> List[str]:
        inside: List[str] = []
        device = os.fstat(here).st_dev
        with os.scandir(here) as entries:
            for entry in entries:
                self._one_more()
                try:
                    status = entry.stat(follow_symlinks=False)
                except FileNotFoundError:  # an engine that compiles makes and removes files all the time
                    continue
                if status.st_dev != device:
                    continue
                if entry.is_dir(follow_symlinks=False):
                    inside.append(entry.name)
                    continue
                self.bytes, self.files = self.bytes + status.st_blocks * 512, self.files + 1
                if entry.name.endswith(WEIGHTS):
                    self.weights = os.path.join(self.path, path, entry.name)
        return inside

    def _one_more(self) -> None:
        self.entries += 1
        if self.entries > MOST_ENTRIES:
            raise TooMuch(errno.EFBIG, f"it holds more than {MOST_ENTRIES} entries", self.path)
        if time.monotonic() > self.until:
            raise TimeoutError(f"{self.path} was not read in {self.deadline_s:g} s")


def held(path: str, deadline_s: float) -> Held:
    """Raises OSError when not all of it can be read, TooMuch for more than MOST_ENTRIES, TimeoutError when it takes longer."""
    count = _Count(path, deadline_s)
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        emptying.walked(folder, count.enter, lambda above, name: None, _raised)
    finally:
        os.close(folder)
    return Held(count.bytes, count.files, count.weights)


def _raised(error: OSError) -> None:
    raise error
