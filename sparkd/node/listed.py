"""The folder of a package -> the names of its modules: a new one is one file, and no list names it a second time."""

from __future__ import annotations

import os
from typing import Iterable, List

SUFFIXES = (".py", ".pyc")
"""Also of a package that was installed without its sources."""


def names(folders: Iterable[str]) -> List[str]:
    """Of a package's `__path__`. By hand: pkgutil would take a megabyte of a service that has twenty. What an editor, a copy or a
    Mac leaves there (`._ping.py`) is no module.

    Raises ImportError for a folder with none: a service that knows no probe would look like one that sees nothing.
    """
    files = [entry for folder in folders for entry in os.scandir(folder) if entry.is_file()]
    stems = {os.path.splitext(entry.name)[0] for entry in files if entry.name.endswith(SUFFIXES)}
    found = sorted(stem for stem in stems if stem.isidentifier() and not stem.startswith("_"))
    if not found:
        raise ImportError("no module in " + ", ".join(folders))
    return found
