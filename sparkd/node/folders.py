"""A folder -> how much it holds, walked without following a link or leaving its file system."""

from __future__ import annotations

import os
import time
from typing import NamedTuple

WEIGHTS = (".safetensors", ".gguf")


class Held(NamedTuple):
    bytes: int
    files: int
    weights: str
    """A file of model weights in it, or nothing: then it is no cache, whatever it is called."""


def held(path: str, deadline_s: float) -> Held:
    """Raises OSError when it cannot be read, TimeoutError when it takes longer."""
    until = time.monotonic() + deadline_s
    size, files, weights = 0, 0, ""
    device = os.lstat(path).st_dev
    waiting = [path]
    while waiting:
        if time.monotonic() > until:
            raise TimeoutError(f"{path} was not read in {deadline_s:g} s")
        with os.scandir(waiting.pop()) as entries:
            for entry in entries:
                try:
                    status = entry.stat(follow_symlinks=False)
                except FileNotFoundError:  # an engine that compiles makes and removes files all the time
                    continue
                if status.st_dev != device:
                    continue
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                    continue
                size, files = size + status.st_blocks * 512, files + 1
                weights = entry.path if entry.name.endswith(WEIGHTS) else weights
    return Held(size, files, weights)
