"""The words after `vllm serve` -> model and flags by meaning, read as the engine's own parser reads them.

Without a table (another engine, an unknown flag) a flag's looks decide. Rules are those of vLLM 0.32's parser: dashes
for underscores up to the first dot, beginnings that fit one flag, `-O3`, `--config.key value`, later repeats win.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sparkd.drift.values import NotJson, amount, by_kind, by_looks, from_json, path
from sparkd.engines.args import canonical, text
from sparkd.engines.flags import JSON_KINDS, Flag, FlagTable

DEEPEST = 16
"""Levels of `--config.key.key`; all that walks over values goes down with them."""
_OPTION = re.compile(r"--?[A-Za-z]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments:
    """`extra` are words that belong to no flag; the engine refuses them."""

    model: str | None
    flags: Mapping[str, Any]
    extra: tuple[str, ...] = ()


@dataclass(slots=True)
class _Reading:
    table: FlagTable
    found: dict[str, Flag | None] = field(default_factory=dict)
    """What the table has of each spelling so far: beginnings are looked for among all flags."""
    flags: dict[str, Any] = field(default_factory=dict)
    dotted: dict[str, tuple[str, dict[str, Any]]] = field(default_factory=dict)
    """Name as it is written (`-cc` and `--compilation-config` apart) -> flag, and its JSON keys merged.

    vLLM appends them to the other words, in this order: the last one wins as a whole.
    """
    loose: list[str] = field(default_factory=list)

    def find(self, written: str) -> Flag | None:
        if written not in self.found:
            self.found[written] = self.table.find(written)
        return self.found[written]


def read_argv(words: Sequence[str], table: FlagTable) -> Arguments:
    """Never raises: what the engine would refuse is kept as it is written."""
    reading = _Reading(table)
    todo = deque(words)  # a hostile command line has 100,000 of them
    while todo:
        word = todo.popleft()
        if not _OPTION.match(word):
            reading.loose.append(word)
            continue
        name, equals, value = _normal(word).partition("=")
        _option(reading, name, [value] if equals else None, todo)
    flags = {name: value for name, value in reading.flags.items() if value is not None or _means_more(name, table)}
    flags |= dict(reading.dotted.values())
    positional = [word for word in reading.loose if word != "--"]
    model = flags.pop("model", None) or (path(positional[0]) if positional else None)
    return Arguments(model=model, flags=dict(sorted(flags.items())), extra=tuple(positional[1:]))


def _means_more(name: str, table: FlagTable) -> bool:
    """Does nothing, said on purpose, mean something else than leaving the flag out?"""
    flag = table.flags.get(name)
    return flag is not None and flag.default is not None


def _normal(word: str) -> str:
    if word.startswith("--"):
        name, equals, value = word.partition("=")
        return f"--{canonical(name[2:])}{equals}{value}"
    if re.match(r"-O=?\w", word):
        return f"--optimization-level={word[2:].removeprefix('=')}"
    return f"-cc{word[2:]}" if word.startswith("-O.") else word  # the older meaning: keys of the compilation


def _option(reading: _Reading, name: str, given: list[str] | None, todo: deque[str]) -> None:
    if name == "-O":
        name = "--optimization-level"
    head, dot, keys = name.partition(".")
    flag = reading.find(head)
    if dot and keys:
        value = given[0] if given else (todo.popleft() if todo else "")
        _, merged = reading.dotted.setdefault(head, (flag.name if flag else head.lstrip("-"), {}))
        _merge(merged, keys, value)
        return
    negated = reading.find(f"--{name[5:]}") if flag is None and name.startswith("--no-") else None
    if negated is not None and negated.kind == "bool":
        reading.flags[negated.name] = False
    elif flag is None:
        _unlisted(reading, name, given, todo)
    elif not flag.takes_value:
        reading.flags[flag.name] = True if given is None else given[0]
    else:
        _valued(reading, flag, given, todo)


def _valued(reading: _Reading, flag: Flag, given: list[str] | None, todo: deque[str]) -> None:
    words = given if given is not None else _following(todo, flag.many == "+")
    if flag.many == "?" and not words:
        reading.flags[flag.name] = True
        return
    values = [by_kind(word, flag) for word in words]
    if flag.kind in JSON_KINDS and values and isinstance(values[0], NotJson):
        # A shell that ate the quotes may have split the value at its blanks, or at the commas of `{a,b}`, too.
        joined = " ".join((*words, *(_following(todo, True) if given is None else ())))
        values = [NotJson(joined, '"' not in joined)]
    if flag.many == "append":
        reading.flags.setdefault(flag.name, []).extend(values)
    elif flag.many == "+":
        reading.flags[flag.name] = values
    else:
        reading.flags[flag.name] = values[0] if values else None


def _following(todo: deque[str], many: bool) -> list[str]:
    """The words that belong to the option before them, taken off `todo`."""
    taken: list[str] = []
    while todo and not _OPTION.match(todo[0]) and todo[0] != "--" and (many or not taken):
        taken.append(todo.popleft())
    return taken


def _unlisted(reading: _Reading, name: str, given: list[str] | None, todo: deque[str]) -> None:
    """A flag that no table knows: from a fork, another version, another engine."""
    words = given if given is not None else _following(todo, True)
    bare = name.lstrip("-")
    values = [by_looks(word) for word in words]
    if values and isinstance(values[0], NotJson):
        joined = " ".join(words)
        values = [NotJson(joined, '"' not in joined)]
    if not values and name.startswith("--no-"):
        reading.flags[bare[3:]] = False
    else:
        reading.flags[bare] = True if not values else values[0] if len(values) == 1 else values


def _merge(here: dict[str, Any], keys: str, word: str) -> None:
    *inner, last = keys.split(".", DEEPEST)  # deeper ones stay one name: no setting is
    added = last.endswith("+")
    value = list(map(str, word.split(","))) if added else _loose_json(word)
    for key in inner:
        below = here.setdefault(key, {})
        here = below if isinstance(below, dict) else here
    key = last.removesuffix("+")
    before = here.get(key)
    here[key] = [*before, *value] if isinstance(before, list) and isinstance(value, list) else value


def _loose_json(word: str) -> Any:
    value = from_json(word)
    if not isinstance(value, NotJson):
        return value
    found = amount(word)
    return path(word) if found is None else found


def spelled(name: str, value: Any) -> Iterator[str]:
    """The flag as words again, for people who have to type it."""
    if isinstance(value, bool):
        yield f"--{name}" if value else f"--no-{name}"
    elif value is not None:
        yield f"--{name}"
        yield from map(_word, value if isinstance(value, list) else [value])


def _word(value: Any) -> str:
    return str(value) if isinstance(value, NotJson) else text(value)
