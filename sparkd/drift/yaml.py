"""Plain values -> YAML that people read and git compares line by line."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

_PLAIN = re.compile(r"[A-Za-z_/~<$][\w./@+~$<>-]*(?::[\w./@+-]+)*")
_WORDS = re.compile(r"true|false|null|yes|no|on|off|nan|inf", re.IGNORECASE)
"""Left in quotes although YAML 1.2 reads half of them as words: other readers do not."""
LONGEST_KEY = 1000
"""Without a `?` before it a key has at most 1024 characters; the path of a file may have more."""


def dump(value: Mapping[str, Any], comment: str = "") -> str:
    """One document. `comment` comes first, a `#` before each of its lines."""
    head = [f"# {line}".rstrip() for line in comment.splitlines()]
    return "\n".join([*head, *_block(value, "")]) + "\n"


def _block(value: Mapping[str, Any], indent: str) -> Iterator[str]:
    for key, one in value.items():
        yield from _entry(f"{indent}{_key(key, indent)}:", one, indent)


def _entry(head: str, value: Any, indent: str) -> Iterator[str]:
    if isinstance(value, Mapping) and value:
        yield head
        yield from _block(value, f"{indent}  ")
    elif isinstance(value, list | tuple) and any(isinstance(one, Mapping | list | tuple) for one in value):
        yield head
        for one in value:
            yield from _item(one, f"{indent}  ")
    else:
        yield f"{head} {inline(value)}"


def _item(value: Any, indent: str) -> Iterator[str]:
    if not isinstance(value, Mapping) or not value:
        yield f"{indent}- {inline(value)}"
        return
    first, *rest = _block(value, f"{indent}  ")
    yield f"{indent}- {first.lstrip()}"
    yield from rest


def inline(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_key(key)}: {inline(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(inline, value)) + "]"
    return scalar(value) if isinstance(value, str) else json.dumps(value)


def _key(key: object, indent: str | None = None) -> str:
    text = scalar(str(key))
    if len(text) <= LONGEST_KEY:
        return text
    return f"? {text} " if indent is None else f"? {text}\n{indent}"


def scalar(text: str) -> str:
    plain = _PLAIN.fullmatch(text) and not _WORDS.fullmatch(text) and not text.startswith(("~", "<<"))
    return text if plain else "".join(map(_shown, json.dumps(text, ensure_ascii=False)))


def _shown(char: str) -> str:
    """Invisible characters are written as escapes: YAML does not allow them as they are."""
    return char if char.isprintable() else f"\\u{ord(char):04x}" if char <= "\uffff" else f"\\U{ord(char):08x}"
