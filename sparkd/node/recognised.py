"""The signs of all engines together, and whether the words of a process are those of an engine."""

from __future__ import annotations

import os
import re
from importlib import import_module
from typing import Iterable, Sequence

from sparkd.node import listed, signs
from sparkd.node.signs import Signs

KNOWN: tuple[Signs, ...] = tuple(
    import_module(f"{signs.__name__}.{name}").SIGNS for name in listed.names(signs.__path__)
)


def any_of(patterns: Iterable[str]) -> str:
    """One pattern of several; what is empty is left out, for it would fit everything."""
    return "|".join(filter(None, patterns))


TITLE = re.compile(f"(?:{any_of(title for one in KNOWN for title in one.titles)})::")
STARTS = any_of(one.starts for one in KNOWN)
LOOSELY = any_of(one.loosely or one.about for one in KNOWN)
_COMMANDS = tuple(command for one in KNOWN for command in one.commands)


def is_engine(words: Sequence[str]) -> bool:
    """By the title that it gave itself, or the program it was started as; a shell or client that names one is none."""
    if TITLE.match(words[0]):
        return True
    rest = words
    if os.path.basename(words[0]).startswith("python"):
        # `python -u /opt/vllm/bin/vllm serve`: options of the interpreter come first.
        at = next((at for at, word in enumerate(words) if at and (word[:1] != "-" or word == "-m")), len(words))
        rest = words[at:]
    return any(fits(command, rest) for command in _COMMANDS)


def fits(command: Sequence[str], words: Sequence[str]) -> bool:
    """Do the words begin with this command, its program by whatever path?"""
    first = os.path.basename(words[0]) if words else ""
    return first == command[0] and list(words[1 : len(command)]) == list(command[1:])
