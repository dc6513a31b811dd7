"""A launch script followed by reading: through `bash -c`, `docker run` and `exec`, `ssh`, here-documents -> ranks.

Each layer does to the words what it does in truth, so JSON that loses its quotes on the way is seen as the engine sees it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Any

from sparkd.commandline import programs
from sparkd.commandline.builtins import BUILTINS
from sparkd.commandline.docker_commands import docker
from sparkd.commandline.docker_run import Container
from sparkd.commandline.following import World
from sparkd.commandline.scope import Scope
from sparkd.commandline.shell import commands
from sparkd.commandline.syntax import Command, Unreadable
from sparkd.drift.argv import read_argv
from sparkd.drift.form import Gap, RankForm
from sparkd.engines import like, recognised
from sparkd.engines.tables import shipped

DEPTH = 12
"""Shells within shells; more is a script that calls itself."""

MOST_COMMANDS = 5000
"""Of all files of a side; loops and functions that call each other would go on for ever."""

MOST_TURNS = 64
"""Of one loop: as many nodes as sparkd is measured with."""

_SSH_VALUES = "BbcDEeFIiJLlmOopQRSWw"


@dataclass(slots=True)
class Shell:
    """One shell, at work on one file. `container`: where it runs; None is the node itself."""

    world: World
    file: str
    scope: Scope = field(default_factory=Scope)
    container: Container | None = None
    depth: int = 0
    line: int = 0
    functions: dict[str, tuple[str, list[Command]]] = field(default_factory=dict)
    """By name: the mark that Command.inside has, and the commands."""
    entered: tuple[str, ...] = ()
    """The functions whose commands are run now, as Command.inside has them."""

    @property
    def where(self) -> str:
        return f"{self.file}:{self.line}"

    def unknown(self, text: str, why: str) -> None:
        self.world.gap(self.where, text, why)

    # ------------------------------------------------------------------------------------------------ commands

    def run(self, text: str, line: int = 1) -> None:
        if self.depth > DEPTH:
            self.world.gap(self.where, "", f"more than {DEPTH} shells within each other")
            return
        try:
            self.all(commands(text, line))
        except Unreadable as error:
            self.world.gap(f"{self.file}:{error.line}", "", f"not followed any further: {error}")
        except RecursionError:  # expansions within expansions, made by a program or in bad faith
            where = f"{self.file}:{self.line or line}"
            self.world.gap(where, "", "not followed any further: it is nested too deep")

    def all(self, found: Sequence[Command]) -> None:
        todo = list(found)
        while todo and self.world.commands <= MOST_COMMANDS:
            command = todo.pop(0)
            self.line = command.line
            if mark := next((one for one in command.inside if _is_function(one) and one not in self.entered), None):
                at = command.inside.index(mark) + 1
                body = [command, *_body(command.inside[:at], todo)]
                todo = todo[len(body) - 1 :]
                self.functions[mark.partition("@")[0].removeprefix("function ")] = mark, body
                continue
            words = [word.plain for word in command.words[:3]]
            if words[:1] == ["for"] and words[2:] == ["in"] and words[1]:
                body = _body(command.inside, todo)
                todo = todo[len(body) :]
                self.loop(words[1], command, body)
            else:
                self.command(command)

    def loop(self, name: str, head: Command, body: Sequence[Command]) -> None:
        """`for NAME in …`: the body once for every word."""
        values = [text for word in head.words[3:] for text in self.scope.fields(word, self.unknown)]
        for value in values[:MOST_TURNS]:
            self.world.commands += 1  # loops within loops that hold nothing have turns without end, too
            self.scope.vars[name] = value
            self.all(body)

    def command(self, command: Command) -> None:
        self.world.commands += 1
        if self.world.commands > MOST_COMMANDS:
            return
        here = self.scope
        if command.words and command.assignments:
            here = self.scope.copy()
        for one in command.assignments:
            before = here.vars.get(one.name)
            here.assign(one, self.unknown)
            if command.words:
                here.exported.add(one.name)
            elif command.inside and before is not None and before != here.vars[one.name]:
                branch = command.inside[-1].partition("@")[0]
                self.world.gap(self.where, "", f"{one.name} is set again inside `{branch}`, which is read as if it ran")
        words = [text for word in command.words for text in here.fields(word, self.unknown)]
        if words:
            stdin = here.text(command.heredoc, self.unknown) if command.heredoc else None
            replace(self, scope=here).words(words, stdin)

    def words(self, words: Sequence[str], stdin: str | None = None) -> None:
        """One command, all expansions made."""
        rest, env, kept = programs.unwrapped(words)
        name = programs.program(rest)
        if env or not kept:
            inner = self.scope.copy() if kept else Scope(node=self.scope.node)
            inner.vars.update(env)
            inner.exported.update(env)
            replace(self, scope=inner).words(rest, stdin)
        elif found := recognised.started(rest):
            self.rank(*found)
        elif rest and rest[0] in self.functions:
            self.call(*self.functions[rest[0]], rest[1:])
        elif name in BUILTINS:
            BUILTINS[name](self, rest)
        elif name in programs.SHELLS:
            self.shell(rest, stdin)
        elif name in programs.DOCKERS:
            docker(self, rest[1:], stdin)
        elif name == "ssh":
            self.ssh(rest[1:], stdin)
        elif name[:1] == "$":
            self.world.gap(self.where, "", f"{rest[0]} is not known, and neither is what it runs")
        elif rest and "/" in rest[0] and (found_file := self.world.find(rest[0])):
            self.script(found_file, rest[1:])
        elif any(map(recognised.named_in, rest)) or any(map(recognised.started, _tails(rest))):
            self.world.missed.append(Gap(where=self.where, text="", why=f"what `{name}` runs is not followed"))

    def call(self, mark: str, body: Sequence[Command], positional: list[str]) -> None:
        """Follows a function of the script, with the variables of the script. One that calls itself is followed once."""
        if mark in self.entered or self.depth > DEPTH:
            return
        before, self.scope.positional = self.scope.positional, positional
        replace(self, depth=self.depth + 1, entered=(*self.entered, mark)).all(body)
        self.scope.positional = before

    # -------------------------------------------------------------------------------------------------- layers

    def shell(self, words: Sequence[str], stdin: str | None) -> None:
        """`bash -c TEXT`, `bash FILE`, and what comes through stdin."""
        rest, text, takes = list(words[1:]), None, False
        while rest and rest[0][:1] in "-+" and rest[0] != "-":
            option = rest.pop(0)
            if option == "--":
                break
            takes = takes or (not option.startswith("--") and "c" in option)
            if option in ("-o", "+o", "-O", "--rcfile", "--init-file") and rest:
                rest.pop(0)
        if takes and rest:
            text = rest.pop(0)
            if rest and text.isidentifier():
                why = f"`bash -c` runs `{text}` alone: the words after it are only its `$0`, `$1`, …"
                self.world.gap(self.where, "", why)
            self.inner(self.scope.child(rest[1:])).run(text, self.line)
        elif rest and rest[0] != "-":
            found = self.world.find(self.container.copies.get(rest[0], rest[0]) if self.container else rest[0])
            if found:
                self.script(found, rest[1:])
            else:
                self.world.gap(self.where, "", f"{rest[0]} is not at hand; put it beside this file to have it read")
        elif stdin is not None:
            self.inner(self.scope.child()).run(stdin, self.line + 1)

    def inner(self, scope: Scope) -> Shell:
        return replace(self, scope=scope, depth=self.depth + 1)

    def source(self, found: tuple[str, str]) -> None:
        """`. FILE`: its commands are this shell's own."""
        text, name = found
        replace(self, file=name, line=0, depth=self.depth + 1).run(text)

    def script(self, found: tuple[str, str], positional: list[str]) -> None:
        text, name = found
        replace(self.inner(self.scope.child(positional)), file=name, line=0).run(text)

    def ssh(self, words: list[str], stdin: str | None) -> None:
        """ssh joins the words with blanks, and a shell on the other side reads them: one layer of quotes goes."""
        words = list(words)
        while words and words[0].startswith("-"):
            option = words.pop(0)
            if option[-1] in _SSH_VALUES and len(option) == 2 and words:
                words.pop(0)
        if not words:
            return
        there = replace(self.inner(Scope(node=words[0].rpartition("@")[2])), container=None)
        if words[1:]:
            there.joined(words[1:], stdin)
        elif stdin is not None:
            there.run(stdin, self.line + 1)

    def joined(self, words: Sequence[str], stdin: str | None) -> None:
        text = " ".join(words)
        try:
            found = commands(text, self.line)
        except Unreadable as error:
            self.world.gap(self.where, "", f"not followed any further: {error}")
            return
        for command in found:
            last = [piece for word in command.words for piece in word.pieces]
            if stdin is not None and command.heredoc is None and last:
                expanded = [one for word in command.words for one in self.scope.fields(word, self.unknown)]
                self.words(expanded, stdin)
            else:
                self.command(command)

    def within(self, container: Container, extra: dict[str, str]) -> Shell:
        """A shell in a container, with the container's own variables."""
        env = {**{name: value or "" for name, value in container.env.items()}, **extra}
        scope = Scope(vars=dict(env), exported=set(env), node=self.scope.node)
        return replace(self.inner(scope), container=container)

    def around(self, name: str) -> str:
        value = self.scope.vars.get(name)
        if isinstance(value, str):
            return value
        self.unknown(f"${name}", f"${name} is not set in this file")
        return f"${name}"

    # --------------------------------------------------------------------------------------------------- ranks

    def rank(self, engine: str, program: tuple[str, ...], words: list[str]) -> None:
        arguments = read_argv(words, shipped(engine))
        for word in arguments.extra:
            why = f"`{word}` belongs to no flag: the engine refuses it with exit 2"
            self.world.gap(self.where, "", f"{word} is not known, and may hold flags" if word[:1] == "$" else why)
        if "config" in arguments.flags:
            self.world.gap(self.where, "", f"flags come from {arguments.flags['config']}, which is not read")
        c = self.container
        said = c is not None and bool(c.image)
        form = RankForm(
            rank=_number(engine, arguments.flags),
            node=self.scope.node,
            engine=engine,
            program=program,
            model=arguments.model,
            flags=arguments.flags,
            env={name: value for name, value in sorted(self.scope.env.items()) if name not in programs.AMBIENT},
            image=c.image if c is not None and said else None,
            container=c.spec if c is not None and said else None,
            mounts=c.mounts if c is not None and said else None,
        )
        if form not in self.world.ranks:
            self.world.ranks.append(form)


def _tails(words: Sequence[str]) -> Iterator[Sequence[str]]:
    return (words[at:] for at in range(1, min(len(words), MOST_TURNS)))


def _is_function(mark: str) -> bool:
    return mark.startswith("function ")


def _body(inside: tuple[str, ...], after: Sequence[Command]) -> list[Command]:
    """The commands of a loop or a function, of all those after its head."""
    return list(takewhile(lambda one: one.inside[: len(inside)] == inside, after))


def _number(engine: str, flags: Mapping[str, Any]) -> int:
    own = like(engine).rank_flags
    found = flags.get(own.number or "")
    if isinstance(found, int):
        return found
    return 1 if flags.get(own.worker or "") is True else 0
