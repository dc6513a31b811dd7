"""The words of a command, as a unit or a container has them -> every path it needs, and where that path is meant.

`docker exec`, `docker run`, `bash -c`, `sh FILE`, `env`, `sudo`, `su`, `nice`, `timeout`, `python FILE` are gone through, with
the readers that `sparkd compare` follows launch scripts with. What only a running shell could tell is left out, never
guessed; so is what is in the containers of a program other than Docker.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from posixpath import isabs, join, normpath

from sparkd.checks.shared import shell_text
from sparkd.commandline import docker_run, programs
from sparkd.model.place import HOST, Place

_UNKNOWN = re.compile(r"[$`*?{}\[\]\0\n\ufffd]|%[a-zA-Z]")
_PYTHON = re.compile(r"python[0-9.]*")
_PYTHON_VALUES = ("-W", "-X", "--check-hash-based-pycs")
_AS_USER = ("su", "runuser")
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
    """(source on the node, target) that a `docker run` makes there; without a source it is a volume of Docker's."""


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
    if programs.program(rest) == "docker":
        verb, after = _verb(rest[1:])
        if verb in ("run", "create"):
            yield from filter(None, [docker_run.run(after).name])
    elif programs.program(rest) in programs.SHELLS:
        text, _ = shell_text.shell(rest[1:])
        for command in shell_text.plain_commands(text or ""):
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
        yield from _of_shell(*shell_text.shell(rest[1:]), where)
    elif name in _AS_USER:
        yield from _as_user(rest[1:], where)
    elif _PYTHON.fullmatch(name):
        yield from _of_python(rest[1:], where)
    elif name == "docker" and where.place == HOST:
        yield from _of_docker(rest[1:], where)


def _of_shell(text: str | None, script: str | None, where: _Where) -> Iterator[Needed]:
    if script is not None:
        yield from where.needs(script, "script")
    elif text is not None and not shell_text.tolerant(text):
        here = replace(where, in_text=True, workdir=None if "(" in text else where.workdir, layers=where.layers + 1)
        earlier = shell_text.written(text)
        for command in shell_text.plain_commands(text):
            yield from (one for one in _in_shell(command, here) if not shell_text.foregone(one.path, earlier))
            earlier.update(shell_text.named(command, guards=True))
            here = replace(here, workdir=_moved(command, here.workdir))


def _in_shell(words: list[str], where: _Where) -> Iterator[Needed]:
    if words[0] in ("source", "."):
        # Without a slash the shell looks in PATH first.
        yield from (need for word in words[1:2] if "/" in word for need in where.needs(word, "script"))
    elif words[0] == "cd":
        yield from (need for word in words[1:2] for need in where.needs(word, "file"))
    elif words[0] == "exec":
        yield from _of(words[1:], where)
    elif words[:2] != ["command", "-v"]:
        yield from _of(words, where)


def _moved(words: list[str], workdir: str | None) -> str | None:
    """The folder after a command of a shell; None where it is not known."""
    if words[0] in ("pushd", "popd"):
        return None
    if words[0] != "cd":
        return workdir
    to = words[1] if len(words) == 2 and not _UNKNOWN.search(words[1]) and words[1][:1] not in ("-", "~") else ""
    return normpath(join(workdir or "/", to)) if isabs(to) or (to and workdir) else None


def _as_user(words: list[str], where: _Where) -> Iterator[Needed]:
    """`su - NAME -c TEXT`, `runuser -u NAME -- COMMAND`; a login goes to a home that is not known here."""
    if "-c" in words[:-1]:
        yield from _of_shell(words[words.index("-c") + 1], None, replace(where, workdir=None))
    elif "--" in words:
        yield from _of(words[words.index("--") + 1 :], where)


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
    pairs = tuple((source, target) for target, source in _mounts(found))
    for source, _ in pairs:
        yield from where.needs(source, "mount")
    if "volumes-from" in found:
        return
    if rest and not _UNKNOWN.search(container.image):
        workdir = found.get("workdir", [None])[-1]
        inside = _Where(Place("image", container.image), workdir, pairs, layers=where.layers + 1)
        yield from _of(container.command, inside)


def _mounts(found: dict[str, list[str]]) -> Iterator[tuple[str, str]]:
    """(target, source) of what lies over the image; no source where it is no folder or file of the node that is known."""
    for word in found.get("volume", ()):
        source, _, rest = word.partition(":")
        yield (rest.partition(":")[0], source if isabs(source) else "") if rest else (source, "")
    for word in found.get("mount", ()):
        fields = dict(one.partition("=")[::2] for one in word.split(","))
        source = fields.get("source") or fields.get("src") or ""
        target = fields.get("target") or fields.get("destination") or fields.get("dst") or ""
        bound = fields.get("type", "volume") == "bind" and isabs(source)
        if target:
            yield target, source if bound else ""
    yield from ((word.partition(":")[0], "") for word in found.get("tmpfs", ()))
