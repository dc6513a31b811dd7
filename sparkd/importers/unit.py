"""A systemd unit with its drop-ins -> the rank it starts, and what systemd does with it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from sparkd.commandline.following import World
from sparkd.commandline.scope import Scope
from sparkd.commandline.script import Shell

_STARTS = ("ExecStartPre", "ExecStart")
_LISTS = (*_STARTS, "ExecStartPost", "ExecStop", "ExecStopPost", "Environment", "EnvironmentFile")
_QUIET = (
    *_STARTS,
    "Environment",
    "EnvironmentFile",
    "PassEnvironment",
    "Description",
    "Documentation",
    "SyslogIdentifier",
)
"""Keys that are followed, or that are for people only; all others are compared as they are."""

_SPECIFIER = re.compile(r"%(%|[a-zA-Z])")
_VARIABLE = re.compile(r"\$\{(\w+)\}|\$(\w+)")


@dataclass(slots=True)
class Unit:
    """Keys as `Section.Key`; those that add up hold all their values. Each value knows its file and line."""

    keys: dict[str, list[tuple[str, str]]] = field(default_factory=dict)

    def read(self, text: str, file: str) -> None:
        """A unit file, or a drop-in over what was read before."""
        for section, key, value, line in _entries(text):
            values = self.keys.setdefault(f"{section}.{key}", [])
            if not value or key not in _LISTS:
                values.clear()  # an empty value takes back what was said before
            if value:
                values.append((value, f"{file}:{line}"))

    def all(self, key: str) -> list[tuple[str, str]]:
        return self.keys.get(f"Service.{key}", [])


def looks_like_unit(text: str) -> bool:
    return re.search(r"^\s*\[(Unit|Service|Install)\]\s*$", text, re.MULTILINE) is not None


def follow(files: Mapping[str, str], world: World) -> None:
    """`files`: name -> text, the unit first, then its drop-ins in the order of their names."""
    unit = Unit()
    for name, text in files.items():
        unit.read(text, name)
    env = dict(_environment(unit, world))
    before = len(world.ranks)
    for key in _STARTS:
        for command, where in unit.all(key):
            _start(command, where, env, world)
    said = {
        key: values[0][0] if len(values) == 1 else [value for value, _ in values]
        for key, values in sorted(unit.keys.items())
        if values and key.partition(".")[2] not in _QUIET
    }
    named = {key.removeprefix("Service."): value for key, value in said.items()}
    world.ranks[before:] = [replace(form, unit=named) for form in world.ranks[before:]]


def _entries(text: str) -> Iterator[tuple[str, str, str, int]]:
    section, joined, began = "", "", 0
    for number, line in enumerate(text.splitlines(), 1):
        bare = line.strip()
        if joined and bare[:1] in "#;" and bare:
            continue  # a comment between continued lines
        began = began if joined else number
        joined = f"{joined} {bare}".strip() if joined else bare
        if joined.endswith("\\"):
            joined = joined[:-1].rstrip() or " "
            continue
        if joined.startswith("[") and joined.endswith("]"):
            section = joined[1:-1]
        elif joined and joined[0] not in "#;" and "=" in joined:
            key, _, value = joined.partition("=")
            yield section, key.strip(), value.strip(), began
        joined = ""


def _environment(unit: Unit, world: World) -> Iterator[tuple[str, str]]:
    for value, where in unit.all("Environment"):
        for pair in _split(value):
            name, equals, text = pair.partition("=")
            if equals:
                yield name, _specified(text, where, world)
    for value, where in unit.all("EnvironmentFile"):
        world.gap(where, "", f"the variables in {value.lstrip('-')} are not read")


def _start(command: str, where: str, env: dict[str, str], world: World) -> None:
    """systemd splits the words itself; no shell has a hand in it."""
    words = [_specified(word, where, world) for word in _split(command.lstrip("-@:+!"))]
    file, _, line = where.rpartition(":")
    scope = Scope(vars=dict(env), exported=set(env))
    shell = Shell(world, file, scope, line=int(line))
    shell.words([_with_variables(word, env, shell) for word in words])


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()  # a quote that is never closed: systemd ignores the line


def _specified(text: str, where: str, world: World) -> str:
    for match in _SPECIFIER.finditer(text):
        if match[1] != "%":
            world.gap(where, match[0], f"{match[0]} is known only to systemd, where the unit runs")
    return text.replace("%%", "%")


def _with_variables(word: str, env: Mapping[str, str], shell: Shell) -> str:
    def value(match: re.Match[str]) -> str:
        name = match[1] or match[2]
        if name not in env:
            shell.unknown(match[0], f"{match[0]} is not set in this unit")
        return env.get(name, match[0])

    return word if "$" not in word or " " in word else _VARIABLE.sub(value, word)
