"""The `args` of a deployment file -> words of an argument vector, by the rules of docs/interfaces.md."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

_NUMBER = re.compile(r"-?[0-9.]+(e[+-]?[0-9]+)?", re.IGNORECASE)


def canonical(name: str) -> str:
    """`a_b` -> `a-b`, before the first dot only: what follows it names a field of a JSON value."""
    flag, dot, rest = name.partition(".")
    return flag.replace("_", "-") + dot + rest


def words(args: Mapping[str, Any]) -> tuple[str, ...]:
    """File order; true = bare flag, false = `--no-…`, null = nothing, mapping = JSON, list = words after one flag."""
    out: list[str] = []
    for name, value in args.items():
        out += _one(canonical(name), value)
    return tuple(out)


def _one(name: str, value: Any) -> list[str]:
    if value is None:
        return []
    if isinstance(value, bool):
        return [f"--{name}" if value else f"--no-{name}"]
    if isinstance(value, list | tuple):
        return [f"--{name}", *map(text, value)]
    word = text(value)
    if word.startswith("-") and not _NUMBER.fullmatch(word):
        return [f"--{name}={word}"]  # as two words argparse would take the value for an option
    return [f"--{name}", word]


def text(value: Any) -> str:
    """One value as one word. JSON never passes a shell, where it loses its quotes unnoticed (first field report)."""
    if isinstance(value, str):
        return value
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
