"""A flag and its value, as `args` has them -> why the engine's own parser would refuse it.

By the rules of argparse and of vLLM's types on top of it. What cannot be known for sure is not refused: a wrong refusal
keeps a deployment from starting, a missed one costs the twelve seconds in which the engine says it itself (evidence 16).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from sparkd.base.did_you_mean import closest
from sparkd.engines.args import text
from sparkd.engines.flags import JSON_KINDS, Flag, FlagTable

PLUGINS = {"tool-call-parser": "tool-parser-plugin", "reasoning-parser": "reasoning-parser-plugin"}
"""Flag -> the one that loads a file with more names for it."""
EATEN = "it wants JSON: were its quotes eaten by a shell?"
"""True of every version."""
NOTHING = ("", "None")
_SIZE = re.compile(r"\s*[+-]?\d[\d_]*\s*|\s*\d+[KMGT]\s*|\s*\d+(\.\d+)?[kmgt]\s*")
_OBJECT = re.compile(r"(?s)\s*{.*}\s*")
_STRINGS = re.compile(r'("(?:[^"\\]|\\.)*"?)')
_SHORT = re.compile(r"\b\d+(?:\.\d+)?[kKmMgGtT]\b")
"""`80m` stands for a number in JSON too, outside of strings."""


def find(table: FlagTable, name: str) -> Flag | None:
    """The flag that a name of `args` means, `no-…` of a switch and what follows a dot included."""
    written = name.partition(".")[0]
    flag = table.find(f"--{written}")
    if flag is None and written.startswith("no-"):
        flag = table.find(f"--{written.removeprefix('no-')}")
        return flag if flag is not None and flag.kind == "bool" else None
    return flag


def refusals(flag: Flag, name: str, value: Any, args: Mapping[str, Any]) -> Iterator[str]:
    """Each a clause that follows the flag's name and value. `args`: all of them, `a_b` as `a-b`."""
    key = name.partition(".")[2]
    if value is None:
        return
    if key:
        if flag.kind in JSON_KINDS:
            yield from _object(flag, {key.partition(".")[0].removesuffix("+"): None if "." in key else value})
    elif not flag.takes_value:
        yield from _switch(flag, value)
    elif isinstance(value, bool):
        if not value:
            yield f"there is no --no-{flag.name}"
        elif flag.many != "?":
            yield "it wants a value"
    elif isinstance(value, list | tuple):
        yield from _several(flag, value, args)
    elif isinstance(value, Mapping) and flag.kind in JSON_KINDS:
        yield from _object(flag, value)
    else:
        yield from _word(flag, text(value), args)


def _switch(flag: Flag, value: Any) -> Iterator[str]:
    if not isinstance(value, bool):
        yield "it takes no value: write true or false"
    elif not value and flag.kind == "switch":
        yield f"there is no --no-{flag.name}: leave it out"


def _several(flag: Flag, values: list[Any] | tuple[Any, ...], args: Mapping[str, Any]) -> Iterator[str]:
    if not values and flag.many != "?":
        yield "it wants a value"
    if len(values) > 1 and flag.many != "+":
        yield "it takes one value"
    else:
        for value in values:
            yield from _word(flag, text(value), args)


def _word(flag: Flag, word: str, args: Mapping[str, Any]) -> Iterator[str]:
    if flag.optional and word in NOTHING:
        return
    if flag.kind in JSON_KINDS:
        yield from _json(flag, word)
    elif (reads := _READS.get(flag.kind)) is not None and not reads(word):
        yield f"it wants {_WANTS[flag.kind]}"
    elif flag.choices and word not in ("", *map(str, flag.choices)) and PLUGINS.get(flag.name) not in args:
        near = closest(word, map(str, flag.choices))
        meant = f" (did you mean {near}?)" if near else ""
        yield f"it is one of {', '.join(map(str, flag.choices))}{meant}"


def _json(flag: Flag, word: str) -> Iterator[str]:
    if flag.kind == "json-or-text" and not _OBJECT.fullmatch(word):
        return
    try:
        found = json.loads(_expanded(word))
    except (ValueError, RecursionError):
        yield EATEN
        return
    if isinstance(found, Mapping):
        yield from _object(flag, found)
    elif flag.fields:
        yield "it wants an object of JSON"


def _expanded(word: str) -> str:
    parts = _STRINGS.split(word)
    return "".join(part if at % 2 else _SHORT.sub("0", part) for at, part in enumerate(parts))


def _object(flag: Flag, found: Mapping[str, Any]) -> Iterator[str]:
    if not flag.fields:
        return
    for written, value in found.items():
        key = str(written).replace("-", "_")
        if key not in flag.fields:
            near = closest(key, flag.fields)
            yield f"it has no key {written}" + (f" (did you mean {near}?)" if near else "")
        elif isinstance(value, str) and flag.fields[key] and value not in flag.fields[key]:
            yield f"{written} {value} is none of {', '.join(map(str, flag.fields[key]))}"


def _parses(read: Callable[[str], object]) -> Callable[[str], bool]:
    def reads(word: str) -> bool:
        try:
            read(word)
        except ValueError:
            return False
        return True

    return reads


def _is_size(word: str) -> bool:
    return _SIZE.fullmatch(word) is not None


_READS: Mapping[str, Callable[[str], bool]] = {
    "int": _parses(int),
    "float": _parses(float),
    "size": _is_size,
    "size-auto": lambda word: word.strip().lower() == "auto" or _is_size(word),
}
_WANTS = {
    "int": "a whole number",
    "float": "a number",
    "size": "a whole number, or one like 4k or 4K",
    "size-auto": "a whole number, one like 4k or 4K, or auto",
}
