"""A tree of values that know where they were written: line, path and spelling."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from sparkd.base.one_line import escaped
from sparkd.model.config import Scalar

Path = tuple[str | int, ...]

_NULL = re.compile(r"|~|null|Null|NULL")
_BOOL = re.compile(r"true|True|TRUE|false|False|FALSE")
_INT = re.compile(r"[-+]?[0-9]{1,20}|0o[0-7]{1,20}|0x[0-9a-fA-F]{1,16}")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")


_SHOWN = 400
"""Characters of a message or a path: the longest of ours have 250."""


@dataclass(frozen=True, slots=True)
class Item:
    """One value. `path` and `line` (of the key, where there is one) say where it was written, `spelling` how."""

    value: Scalar | tuple[Item, ...] | dict[str, Item]
    line: int
    path: Path = ()
    spelling: str | None = None
    size: int = 1
    """Values in it, itself included, aliases expanded."""
    height: int = 0
    """Levels below it, aliases expanded."""

    def plain(self) -> Any:
        """The value as plain dicts, lists and scalars."""
        if isinstance(self.value, dict):
            return {key: item.plain() for key, item in self.value.items()}
        if isinstance(self.value, tuple):
            return [item.plain() for item in self.value]
        return self.value

    def nearest(self, path: Path) -> tuple[Item, int]:
        """The value at `path` or the last one on the way to it, and how many steps of the path lead there."""
        item = self
        for taken, step in enumerate(path):
            inner = item.child(step)
            if inner is None:
                return item, taken
            item = inner
        return item, len(path)

    def at(self, *path: str | int) -> Item | None:
        item, taken = self.nearest(path)
        return item if taken == len(path) else None

    def child(self, step: str | int) -> Item | None:
        if isinstance(self.value, dict):
            return self.value.get(str(step))
        if isinstance(self.value, tuple) and isinstance(step, int) and step < len(self.value):
            return self.value[step]
        return None

    def mapping(self, *path: str | int) -> Mapping[str, Item]:
        """The mapping at `path`, or an empty one when there is something else."""
        item = self.at(*path)
        return item.value if item is not None and isinstance(item.value, dict) else {}

    def with_child(self, key: str, item: Item) -> Item:
        """A copy of a mapping with one key set."""
        return replace(self, value={**self.mapping(), key: item})

    def without(self, path: Path) -> Item:
        """A copy without the value at `path`; the others keep their own paths."""
        child = self.child(path[0]) if path else None
        if child is None:
            return self
        inner = {path[0]: child.without(path[1:])} if len(path) > 1 else {}
        if isinstance(self.value, tuple):
            return replace(
                self, value=tuple(inner.get(i, x) for i, x in enumerate(self.value) if i != path[0] or inner)
            )
        kept = {key: inner.get(key, x) for key, x in self.mapping().items() if key != path[0] or inner}
        return replace(self, value=kept)


def from_plain(value: Any, path: Path) -> Item:
    """A tree of plain values that no file holds: line 0."""
    if isinstance(value, Mapping):
        return Item({key: from_plain(inner, (*path, key)) for key, inner in value.items()}, 0, path)
    if isinstance(value, list | tuple):
        return Item(tuple(from_plain(inner, (*path, index)) for index, inner in enumerate(value)), 0, path)
    return Item(value, 0, path, str(value))


def describe(item: Item) -> str:
    """What was found, for people."""
    value = item.value
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return f"`{item.spelling}`"
    if isinstance(value, int | float):
        return f"the number {item.spelling}"
    if isinstance(value, str):
        return f"the text {json.dumps(value if len(value) <= 40 else value[:40] + '…', ensure_ascii=False)}"
    return "a list" if isinstance(value, tuple) else "a mapping"


def dotted(path: Path) -> str:
    """`container.mounts[0].source`"""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return printable(text.removeprefix("."))


def printable(text: str) -> str:
    """One line of bounded length that a terminal shows as it is: what a file says must not steer a terminal."""
    shown = escaped(text[: _SHOWN + 1])
    return shown if len(text) <= _SHOWN else shown[:_SHOWN] + "…"


def resolve(text: str) -> Scalar:
    """A plain scalar by the core schema of YAML 1.2: `on`, `1_000` and `2026-01-01` are words, `010` is ten."""
    if _NULL.fullmatch(text):
        return None
    if _BOOL.fullmatch(text):
        return text.lower() == "true"
    if _INT.fullmatch(text):
        return int(text, 0) if text[:2] in ("0x", "0o") else int(text)
    if _FLOAT.fullmatch(text) and math.isfinite(number := float(text)):
        return number
    return text
