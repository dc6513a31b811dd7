"""A tree of one file -> a frozen value of `sparkd.model.config`, or every reason why not, each with its line.

The dataclasses are the schema: pydantic reads them as they are, strictly and with unknown keys forbidden. Nothing is
written twice.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from typing import Any, Generic, NamedTuple, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from pydantic import ConfigDict, TypeAdapter, ValidationError

from sparkd.base.did_you_mean import closest
from sparkd.base.errors import Problem
from sparkd.engines import FIRST
from sparkd.model.hiding import BY_NAME
from sparkd.model.secret import is_secret
from sparkd.settings.tree import Item, Path, describe, dotted, printable

T = TypeVar("T")

INTERNAL = ("file", "digest")
"""Fields that loading fills in; in a file they are unknown keys."""
_GIVEN = (*INTERNAL, "name")
"""A section's name is the key that it is under."""

_EXPECTED = {
    "string_type": "a text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "tuple_type": "a list",
    "dict_type": "a mapping",
    "dataclass_type": "a mapping",
}

_MISSING = {
    "name": "write `name: …` in small letters, digits and dashes",
    "engine": f"write `engine: {FIRST}`",
    "nodes": "write `nodes: [NAME, …]`; the first is the head",
    "cluster": "write `cluster: NAME`, shown everywhere",
    "address": "write `address: local` for the head, a host name or an IP address for the others",
    "source": "write the path on the node",
    "target": "write the path inside the container",
    "url": "write `url: https://…`",
}


NEVER = "secrets are references, never values"
_SHORT_LIST = 12
"""Longer lists of known keys help nobody."""


class Fault(NamedTuple):
    """What a check of values found; the loader adds file and line."""

    path: Path
    text: str
    fix: str = ""


class Shaped(NamedTuple, Generic[T]):
    """`value` is None when nothing could be made; with problems it is partial: good for more checks only."""

    value: T | None
    problems: tuple[Problem, ...]
    tree: Item
    """The tree without the refused parts; paths of `value` are paths in it."""


def shape(kind: type[T], tree: Item, file: str, placeholders: Mapping[str, Any]) -> Shaped[T]:
    """`placeholders` stand in for missing keys, so that one missing key does not hide what else is wrong."""
    problems = [_unknown(kind, tree, (name,), file) for name in INTERNAL if tree.child(name)]
    problems += _ambiguous(kind, tree, file)
    for name in INTERNAL:
        tree = tree.without((name,))
    refused: ValidationError | None = None
    for _ in range(4):  # removing a refused value may leave its parent incomplete, at most to the depth of the schema
        try:
            text = json.dumps([{**(placeholders if refused else {}), **tree.plain()}])
            return Shaped(_adapter(cast(Hashable, kind)).validate_json(text)[0], tuple(problems), tree)
        except ValidationError as error:
            if refused is None:
                problems += _problems(kind, error, tree, file)
            refused = error
            tree = _pruned(tree, error)
    return Shaped(None, tuple(problems), tree)


@cache
def _adapter(kind: Hashable) -> TypeAdapter[list[Any]]:
    """A list of one, because pydantic takes no configuration for a bare dataclass; nested ones inherit it from here."""
    return TypeAdapter(list[kind], config=ConfigDict(extra="forbid", strict=True))  # type: ignore[valid-type]


def _pruned(tree: Item, error: ValidationError) -> Item:
    paths = [_path(found) for found in error.errors(include_url=False, include_input=False)]
    missing = [path for path in paths if tree.at(*path) is None]
    refused = {path for path in paths if path not in missing} | {path[:-1] for path in missing}
    for path in sorted(refused, key=lambda path: [(str(type(step)), step) for step in path], reverse=True):
        tree = tree.without(path)
    return tree


def _path(found: Any) -> Path:
    return tuple(step for step in found["loc"][1:] if step != "[key]")


def _problems(kind: type, error: ValidationError, tree: Item, file: str) -> Iterator[Problem]:
    for found in error.errors(include_url=False, include_input=False):
        path = _path(found)
        item = tree.at(*path)
        if item is None:
            yield place(Fault(path, f"`{path[-1]}` is missing", _MISSING.get(str(path[-1]), "")), tree, file)
        elif found["type"] == "unexpected_keyword_argument":
            yield _unknown(kind, tree, path, file)
        elif is_secret(str(path[-1])):  # a password of digits is one too, and is not told
            yield place(Fault(path, NEVER, as_secret(str(path[-1]))), tree, file)
        else:
            expected = _EXPECTED.get(found["type"], found["msg"].removeprefix("Input should be "))
            text = f"expected {expected}, found {describe(item)}"
            yield place(Fault(path, text, _type_fix(found["type"], item, _section(kind, path))), tree, file)


def place(finding: Fault, tree: Item, file: str) -> Problem:
    """The problem of a finding: at the line where that path is written, or would have to be."""
    item, taken = tree.nearest(finding.path)
    veil = BY_NAME  # a problem is shown and journalled, whatever was written into the file
    path = dotted((*item.path, *finding.path[taken:]))
    return Problem(
        file, item.line if item.path else 0, path, printable(veil.text(finding.text)), printable(veil.text(finding.fix))
    )


def as_secret(variable: str) -> str:
    """How a variable with a secret is written instead."""
    return f"write `secrets: {{{variable}: {{file: /etc/sparkd/{variable.lower()}}}}}` and put the value there"


def refused(found: Fault, whole: Item, shaped: Item) -> bool:
    """Is the finding about a value that was left out, or parts of it? What is wrong with it has been said."""
    written, left = whole.at(*found.path), shaped.at(*found.path)
    return written is not None and (left is None or left.plain() != written.plain())


def _type_fix(kind: str, item: Item, hint: Any) -> str:
    if item.value is None:
        return "leave the key out"
    if kind in _EXAMPLES:
        return _EXAMPLES[kind](item, hint)
    return ""


def _text_fix(item: Item, hint: Any) -> str:
    return f'write it in quotes: "{item.spelling}"' if item.spelling is not None else "write one text"


def _list_fix(item: Item, hint: Any) -> str:
    if isinstance(item.value, str) and item.value.startswith("["):
        return "write the list in the file: a variable holds one value"
    if isinstance(item.value, str) and item.value.strip():
        return "write [" + ", ".join(item.value.split()) + "]"
    return f"write [{item.spelling}]" if item.spelling else "write [ONE, ANOTHER], or a line with `- ` for each"


def _mapping_fix(item: Item, hint: Any) -> str:
    """As the section would look; from a list of NAME=VALUE, as people know them from containers, what it means."""
    pairs = [part.value.partition("=") for part in _parts(item) if isinstance(part.value, str) and "=" in part.value]
    if pairs and len(pairs) == len(_parts(item)):
        return "write {" + ", ".join(f'{name}: "{value}"' for name, _, value in pairs[:_SHORT_LIST]) + "}"
    known = [field.name for field in fields(hint) if field.name not in _GIVEN] if is_dataclass(hint) else []
    return f"write {_outline(hint)}" + (f"; known here: {', '.join(known)}" if 0 < len(known) <= _SHORT_LIST else "")


def _outline(hint: Any) -> str:
    """What a section looks like: the keys that it must have, else its first."""
    if not is_dataclass(hint):
        inner = get_args(hint)[1] if get_origin(hint) is Mapping else None
        return "{NAME: " + (_outline(inner) if is_dataclass(inner) else "…") + "}"
    own = [field for field in fields(hint) if field.name not in _GIVEN]
    needed = [field.name for field in own if field.default is MISSING and field.default_factory is MISSING]
    return "{" + ", ".join(f"{name}: …" for name in needed or [own[0].name]) + "}"


def _parts(item: Item) -> tuple[Item, ...]:
    return item.value if isinstance(item.value, tuple) else ()


def _number_fix(item: Item, hint: Any) -> str:
    whole = hint is not float
    plain = (item.spelling or "").replace("_", "").strip()
    if isinstance(item.value, bool) or item.spelling is None:
        return f"write a {'whole ' * whole}number"
    if written := _WITH_UNIT.fullmatch(plain):
        seconds = float(written[1]) * _SECONDS[written[2]]
        return f"write {seconds:g}: durations are seconds" if not whole or seconds.is_integer() else "write a number"
    try:
        number = float(plain.lower().replace(".inf", "inf").replace(".nan", "inf"))
    except ValueError:
        return "write it without quotes and unit; durations are seconds"
    if not abs(number) < _MOST_EXACT:  # infinite, or too large to be meant
        return f"write a {'whole ' * whole}number that is finite and not so large"
    if whole and not number.is_integer():
        return "write a whole number"
    return f"write {number:.0f}" if number.is_integer() else f"write {number:g}"


_MOST_EXACT = 2.0**53
_SECONDS = {"ms": 0.001, "s": 1, "sec": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}
_WITH_UNIT = re.compile(rf"([0-9]+(?:\.[0-9]+)?) *({'|'.join(_SECONDS)})")
_EXAMPLES: dict[str, Callable[[Item, Any], str]] = {
    "string_type": _text_fix,
    "tuple_type": _list_fix,
    "dict_type": _mapping_fix,
    "dataclass_type": _mapping_fix,
    "bool_type": lambda item, hint: "write true or false",
    "float_type": _number_fix,
    "int_type": _number_fix,
    "int_from_float": _number_fix,
    "int_parsing_size": _number_fix,
}


def _ambiguous(kind: type, item: Item, file: str) -> Iterator[Problem]:
    """Numbers that readers of YAML take differently: 017 is 17 in YAML 1.2, was 15 in 1.1, and 0o17 was a word."""
    for inner in item.mapping().values() if isinstance(item.value, dict) else _parts(item):
        yield from _ambiguous(kind, inner, file)
    is_number = isinstance(item.value, int) and not isinstance(item.value, bool)
    if is_number and _OTHER_BASE.match(item.spelling or "") and _section(kind, item.path) in (int, float):
        text = f"{item.spelling} is one number to this reader of YAML and another to the next"
        yield Problem(file, item.line, dotted(item.path), text, f"write {item.value}")


_OTHER_BASE = re.compile(r"[-+]?0[0-9xo]")


# -------------------------------------------------------------------------------------------------------- unknown keys


def _unknown(kind: type, tree: Item, path: Path, file: str) -> Problem:
    key = str(path[-1])
    return place(
        Fault(path, f"unknown key `{key}`", suggestion(key, _names(kind, path[:-1]), _homes(kind))), tree, file
    )


def suggestion(key: str, names: Iterable[str], homes: Mapping[str, str] | None = None) -> str:
    """What `key` may have meant: a name that is spelled nearly so, one that belongs elsewhere, or all there are."""
    names = sorted(names)
    if near := closest(key, names):
        return f"did you mean `{near}`?"
    word = key.lower().replace("-", "_")
    if homes and word in homes:
        return f"it belongs at `{homes[word]}`"
    if len(names) > _SHORT_LIST:
        return "docs/configuration.md has all keys"
    return "known here: " + ", ".join(names) if names else "there are none"


def _names(kind: type, path: Path) -> list[str]:
    section = _section(kind, path)
    return [field.name for field in fields(section) if field.name not in INTERNAL] if is_dataclass(section) else []


def _section(hint: Any, path: Path) -> Any:
    """The type at `path`: fields by name, and one step into mappings and tuples."""
    if get_origin(hint) is Union or type(hint).__name__ == "UnionType":
        hint = next(arm for arm in get_args(hint) if arm is not type(None))
    if not path:
        return hint
    if is_dataclass(hint):
        return _section(get_type_hints(hint).get(str(path[0])), path[1:])
    return _section(get_args(hint)[get_origin(hint) is Mapping], path[1:])


@cache
def _homes(kind: type, prefix: str = "") -> dict[str, str]:
    """Key -> where it belongs, for every section that is a plain mapping."""
    homes: dict[str, str] = {}
    for name, hint in get_type_hints(kind).items():
        if is_dataclass(hint) and isinstance(hint, type):
            inner = [field.name for field in fields(hint)]
            homes.update({key: f"{prefix}{name}.{key}" for key in inner}, **_homes(hint, f"{prefix}{name}."))
    return homes
