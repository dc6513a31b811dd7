"""The words of a command, as a unit or a container has them -> every path it needs, and where that path is meant.

`docker exec`, `docker run`, `bash -c`, `sh FILE`, `env`, `sudo`, `nice`, `timeout`, `python FILE` are gone through, with the
readers that `sparkd compare` follows launch scripts with. What only a running shell could tell is left out, never guessed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from posixpath import isabs, join, normpath

from sparkd.importers import docker_run, programs
from sparkd.importers.shell import commands
from sparkd.importers.syntax import Unreadable, Word
from sparkd.model.place import HOST, Place

_UNKNOWN = re.compile(r"[$`*?{}\[\]\0]|%[a-zA-Z]")
_TOLERANT = re.compile(r"\|\||(?:^|[\s;&|])(?:\[|\[\[|test|if|while|trap)\s")
"""A text that deals with what is missing itself."""
_PYTHON = re.compile(r"python[0-9.]*")
_PYTHON_VALUES = ("-W", "-X", "--check-hash-based-pycs")
_SHELL_VALUES = ("-o", "+o", "-O", "--rcfile", "--init-file")
_DOCKER_ELSEWHERE = ("-H", "--host", "-c", "--context")
_DOCKER_VALUES = ("--config", "-l", "--log-level", "--tlscacert", "--tlscert", "--tlskey")
MOST_LAYERS = 8


@dataclass(frozen=True, slots=True)
class Needed:
    """One thing that a command needs. `container` places carry the name as written.

    `path` is absolute on the node and in an image; in a container it may also start at its working folder, or be a bare
    name, to be looked for in its PATH. Without a path the container itself is needed.
    """

    place: Place
    path: str
    role: str
    """program | script | file | mount | container"""
    mounts: tuple[tuple[str, str], ...] = ()
    """(source on the node, target) that a `docker run` makes there."""


@dataclass(frozen=True, slots=True)
class _Where:
    """Where a layer's words are run."""

    place: Place = HOST
    workdir: str | None = None
    mounts: tuple[tuple[str, str], ...] = ()
    in_text: bool = False
    """In a shell's text, where a bare name may be a builtin or a function."""
    layers: int = 0

    def needs(self, path: str, role: str) -> Iterator[Needed]:
        if not path or _UNKNOWN.search(path) or path.startswith(("~", "-")):
            return
        bare = role == "program" and "/" not in path
        if isabs(path):
            yield Needed(self.place, normpath(path), role, self.mounts)
        elif self.workdir is not None and not bare:
            yield Needed(self.place, normpath(join(self.workdir, path)), role, self.mounts)
        elif self.place.kind == "container" and not self.in_text:
            yield Needed(self.place, path, role)


def needed(words: Sequence[str], workdir: str | None = None) -> Iterator[Needed]:
    """Of a command on the node itself; a program without a path there is for systemd to find."""
    yield from _of(list(words), _Where(workdir=workdir))


def needed_inside(words: Sequence[str], container: str, workdir: str | None) -> Iterator[Needed]:
    """Of the command that a container was created with."""
    yield from _of(list(words), _Where(Place("container", container), workdir))


def made(words: Sequence[str]) -> Iterator[str]:
    """Names of the containers that a command creates."""
    rest, _, _ = programs.unwrapped(words)
    if programs.program(rest) in programs.DOCKERS:
        verb, after = _verb(rest[1:])
        if verb in ("run", "create"):
            yield from filter(None, [docker_run.run(after).name])
    elif programs.program(rest) in programs.SHELLS:
        text, _ = _shell(rest[1:])
        for command in _commands(text or ""):
            yield from made(command)


# ------------------------------------------------------------------------------------------------------------- layers


def _of(words: list[str], where: _Where) -> Iterator[Needed]:
    if not words or where.layers > MOST_LAYERS:
        return
    rest, _, _ = programs.unwrapped(words)
    yield from where.needs(words[0], "program")
    if not rest:
        return
    if len(rest) < len(words):
        yield from where.needs(rest[0], "program")
    name = programs.program(rest)
    if name in programs.SHELLS:
        yield from _of_shell(rest[1:], where)
    elif _PYTHON.fullmatch(name):
        yield from _of_python(rest[1:], where)
    elif name in programs.DOCKERS and where.place == HOST:
        yield from _of_docker(rest[1:], where)


def _of_shell(words: list[str], where: _Where) -> Iterator[Needed]:
    text, script = _shell(words)
    if script is not None:
        yield from where.needs(script, "script")
    elif text is not None and not _TOLERANT.search(text):
        for command in _commands(text):
            yield from _in_shell(command, replace(where, in_text=True, workdir=None, layers=where.layers + 1))


def _in_shell(words: list[str], where: _Where) -> Iterator[Needed]:
    if words[0] in ("source", ".", "exec", "cd"):
        role = {"exec": "program", "cd": "file"}.get(words[0], "script")
        if role == "program":
            yield from _of(words[1:], where)
        elif len(words) > 1 and isabs(words[1]):
            yield from where.needs(words[1], role)
    else:
        yield from _of(words, where)


def _shell(words: Sequence[str]) -> tuple[str | None, str | None]:
    """(text of `-c`, script) of a shell's words."""
    rest, takes = list(words), False
    while rest and rest[0][:1] in "-+" and rest[0] not in ("-", ""):
        option = rest.pop(0)
        if option == "--":
            break
        takes = takes or (not option.startswith("--") and "c" in option[1:])
        if option in _SHELL_VALUES and rest:
            rest.pop(0)
    if takes:
        return (rest[0] if rest else None), None
    return None, (rest[0] if rest and rest[0] != "-" else None)


def _commands(text: str) -> Iterator[list[str]]:
    """The plain commands of a shell's text: none inside branches and loops, whose conditions nobody knows."""
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


def _of_python(words: list[str], where: _Where) -> Iterator[Needed]:
    rest = list(words)
    while rest and rest[0].startswith("-"):
        option = rest.pop(0)
        if option in ("-m", "-c", "-"):
            return
        if option in _PYTHON_VALUES and rest:
            rest.pop(0)
    if rest:
        yield from where.needs(rest[0], "script")


# ------------------------------------------------------------------------------------------------------------- docker


def _verb(words: Sequence[str]) -> tuple[str, list[str]]:
    """Docker's verb and the words after it; no verb where another machine's Docker is meant."""
    rest = list(words)
    while rest and rest[0].startswith("-"):
        option = rest.pop(0)
        if option.partition("=")[0] in _DOCKER_ELSEWHERE:
            return "", []
        if option in _DOCKER_VALUES and rest:
            rest.pop(0)
    if rest[:1] == ["container"]:
        rest.pop(0)
    return (rest[0], rest[1:]) if rest else ("", [])


def _of_docker(words: list[str], where: _Where) -> Iterator[Needed]:
    verb, after = _verb(words)
    if verb == "exec":
        yield from _of_exec(after, where)
    elif verb in ("start", "restart"):
        yield from (_container(name) for name in after if not name.startswith("-") and not _UNKNOWN.search(name))
    elif verb in ("run", "create"):
        yield from _of_run(after, where)
    elif verb == "compose":
        found, _ = docker_run.options(_spelled(after))
        for file in found.get("file", ()):
            yield from where.needs(file, "file")


def _spelled(words: list[str]) -> list[str]:
    return ["--file" if word == "-f" else word for word in words]


def _container(name: str) -> Needed:
    return Needed(Place("container", name), "", "container")


def _of_exec(words: list[str], where: _Where) -> Iterator[Needed]:
    found, rest = docker_run.options(words)
    if rest and not _UNKNOWN.search(rest[0]):
        yield _container(rest[0])
        workdir = found.get("workdir", [None])[-1]
        yield from _of(rest[1:], _Where(Place("container", rest[0]), workdir, layers=where.layers + 1))


def _of_run(words: list[str], where: _Where) -> Iterator[Needed]:
    found, rest = docker_run.options(words)
    container = docker_run.run(words)
    pairs = tuple((str(source), target) for target, source in _binds(found))
    for source, _ in pairs:
        yield from where.needs(source, "mount")
    if rest and not _UNKNOWN.search(container.image):
        workdir = found.get("workdir", [None])[-1]
        inside = _Where(Place("image", container.image), workdir, pairs, layers=where.layers + 1)
        yield from _of(container.command, inside)


def _binds(found: dict[str, list[str]]) -> Iterator[tuple[str, str]]:
    """(target, source) of the folders and files of the node that go into the container."""
    for word in found.get("volume", ()):
        source, _, rest = word.partition(":")
        if isabs(source) and rest:
            yield rest.partition(":")[0], source
    for word in found.get("mount", ()):
        fields = dict(one.partition("=")[::2] for one in word.split(","))
        source = fields.get("source") or fields.get("src") or ""
        target = fields.get("target") or fields.get("destination") or fields.get("dst") or ""
        if fields.get("type", "volume") == "bind" and isabs(source) and target:
            yield target, source
