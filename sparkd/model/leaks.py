"""Values that people or programs wrote -> the secrets in them, each with its place (rule 13)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from sparkd.model.secret import holds_secret, is_flag, is_secret
from sparkd.model.secret_text import spans

Path = tuple[str | int, ...]


class Leak(NamedTuple):
    """`name` is what the secret stands under: a variable, a flag or a key; empty for the password of an address."""

    path: Path
    name: str
    value: str


def leaks(value: Any, path: Path = (), name: str = "") -> Iterator[Leak]:
    """Every secret in a JSON value that is called `name`: what lies under a secret's name, leaf by leaf, the words of a flag
    in an argument vector, `NAME=value`, and the passwords of addresses. What is hidden or a reference is none."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from leaks(inner, (*path, key), name if is_secret(name) else str(key))
    elif isinstance(value, list | tuple):
        yield from _words(value, path, name)
    elif holds_secret(name, value):
        yield Leak(path, name, str(value))
    elif isinstance(value, str):
        yield from (Leak(path, span.name, value[span.start : span.end]) for span in spans(value))


def _words(words: Sequence[Any], path: Path, name: str) -> Iterator[Leak]:
    inside = name
    for index, word in enumerate(words):
        if is_flag(word) and not is_secret(name):
            inside = word if "=" not in word else ""
            yield from leaks(word, (*path, index))
        else:
            yield from leaks(word, (*path, index), inside)
