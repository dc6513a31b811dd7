"""The words of a command, a unit or a script -> the engine in them, also where it is one that sparkd does not run.

The signs themselves are data of the node service (`sparkd/node/signs`): a node has no more of sparkd than that.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from posixpath import basename

from sparkd.node.recognised import KNOWN, STARTS, any_of, fits, is_engine

ABOUT = any_of(one.about for one in KNOWN)
"""A pattern of what has to do with engines at all."""
NAMES = any_of(one.name for one in KNOWN)
"""A pattern of what people call them in the names of scripts."""
_PYTHON = re.compile(r"(?:.*/)?python[0-9.]*")

Started = tuple[str, tuple[str, ...], list[str]]
"""The engine by its name in deployment files, its program, its arguments."""


def started(words: Sequence[str]) -> Started | None:
    """What a command starts; None where that is no engine."""
    found = None if words and words[0] == "-m" else _started(words)
    if found is None and words and _PYTHON.fullmatch(words[0]):
        if "-m" in words:
            found = _started(words[list(words).index("-m") :])
            found = (found[0], ("python", *found[1][:2]), found[2]) if found is not None else None
        if found is None:
            # A venv's script run by its own Python, with or without options.
            script = next((at for at, word in enumerate(words) if at and word[:1] != "-"), len(words))
            found = _started(words[script:])
    return found


def _started(words: Sequence[str]) -> Started | None:
    for one in KNOWN:
        for command in one.commands:
            if one.engine is not None and fits(command, words):
                return one.engine, command, list(words[len(command) :])
    return None


def program_file(words: Sequence[str]) -> str | None:
    """The path of the program that is the engine, where the words of its process name one."""
    programs = {command[0] for one in KNOWN for command in one.commands}
    return next((word for word in words if word.startswith("/") and basename(word) in programs), None)


def of_image(image: str) -> str | None:
    """The engine that is the entry point of an image of this name."""
    return next((one.engine for one in KNOWN if any(part in image for part in one.images)), None)


def named_in(word: str) -> bool:
    """Does a word hold a whole command that starts an engine, as the text of a shell does?"""
    return any(
        " ".join(command) in word for one in KNOWN for command in one.commands if command[1:] and command[0] != "-m"
    )


__all__ = ["ABOUT", "NAMES", "STARTS", "is_engine", "named_in", "of_image", "program_file", "started"]
