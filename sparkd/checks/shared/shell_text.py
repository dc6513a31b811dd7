"""The words of a shell -> its script, or the commands of its text; and the paths that a command may have made.

What an earlier command names is there by the time that a later one needs it (`curl -o X … && bash X`), or was looked at
first (`mountpoint -q X && X/run`): that cannot be told from the text, so such a path is not called a ghost.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from sparkd.commandline import docker_run, programs
from sparkd.commandline.shell import commands
from sparkd.commandline.syntax import Unreadable, Word
from sparkd.model.place import below

_VALUES = ("-o", "+o", "-O", "--rcfile", "--init-file")
_TOLERANT = re.compile(r"\|\|(?!\s*exit\b)|(?:^|[\s;&|])(?:\[|\[\[|test|if|while|trap)\s")
"""A text that deals with what is missing itself."""
_PATH = re.compile(r"(?<![\w./-])/[^\s:=,;'\"]+")
_WRITTEN = re.compile(r">>?\s*(/[^\s;&|]+)")
_IDLE = frozenset(
    ("chmod", "chown", "chgrp", "rm", "rmdir", "cd", "source", ".", "echo", "printf", "sync", "sleep", "export", "kill")
)
"""They need what they name, or do not care for it."""
_LOOKS = frozenset(("test", "[", "ls", "stat", "mountpoint", "command", "type", "which", "hash", "cat", "grep", "head"))
"""Within a text they guard what comes after them. A unit whose own command is one fails with it."""


def shell(words: Sequence[str]) -> tuple[str | None, str | None]:
    """(text of `-c`, script) of a shell's words."""
    rest, takes = list(words), False
    while rest and rest[0][:1] in "-+" and rest[0] not in ("-", ""):
        option = rest.pop(0)
        if option == "--":
            break
        takes = takes or (not option.startswith("--") and "c" in option[1:])
        if option in _VALUES and rest:
            rest.pop(0)
    if takes:
        return (rest[0] if rest else None), None
    return None, (rest[0] if rest and rest[0] != "-" else None)


def tolerant(text: str) -> bool:
    return _TOLERANT.search(text) is not None


def plain_commands(text: str) -> Iterator[list[str]]:
    """Of a shell's text: none inside branches and loops, whose conditions are not known."""
    try:
        found = commands(text)
    except Unreadable:
        return
    for command in found:
        words = [_plain(word) for word in command.words]
        if words and not command.inside:
            yield words


def _plain(word: Word) -> str:
    """What a shell would have to fill in stays visible, so that no such word is taken for a path."""
    return "".join(piece.text if piece.kind == "text" else "$" for piece in word.pieces)


# ------------------------------------------------------------------------------------------------------- what came before


def written(text: str) -> set[str]:
    """Files that a text's own redirections make."""
    return set(_WRITTEN.findall(text))


def named(words: Sequence[str], guards: bool = False) -> Iterator[str]:
    """Paths that a command is given, but for what it starts; with `guards` also those that it only looks at."""
    # `command -v X` asks for X, and does not start it.
    rest = list(words) if words[:2] == ["command", "-v"] else programs.unwrapped(words)[0]
    name = programs.program(rest)
    if name in _IDLE or (name in _LOOKS and not guards):
        return
    if name in programs.SHELLS:
        text, script = shell(rest[1:])
        for command in plain_commands(text or ""):
            yield from named(command, guards)
        yield from written(text or "")
        rest = rest[rest.index(script) :] if script is not None else []
    elif name in programs.DOCKERS:
        rest = _given(rest)
        if rest[:1] == ["exec"]:
            yield from named(docker_run.options(rest[1:])[1][1:], guards)
        rest = rest if rest[:1] == ["cp"] else []
    for word in rest[1:]:
        yield from _PATH.findall(word)


def _given(words: Sequence[str]) -> list[str]:
    """Docker's verb and what follows it."""
    _, rest = docker_run.options(words[1:])
    return rest[1:] if rest[:1] == ["container"] else rest


def foregone(path: str, earlier: Iterable[str]) -> bool:
    """Has an earlier command named it, or a folder above it?"""
    return any(below(path, one) for one in earlier)
