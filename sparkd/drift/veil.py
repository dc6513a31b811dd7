"""Values with secrets in them -> the same without (rule 13)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from sparkd.drift.form import RankForm
from sparkd.drift.values import NotJson
from sparkd.model.secret import HIDDEN, SECRET_ENDINGS, is_secret

SHORTEST = 6
"""A value shorter than this would be found inside ordinary words."""

_NAMED = re.compile(
    rf"(?<![\w-])((?:[\w-]*(?:{'|'.join(ending.replace('_', '[_-]') for ending in SECRET_ENDINGS)}))[\"']?(?:\s*[=:]\s*|\s+))"
    r"(\"(?:[^\"\\]|\\.)*\"?|'[^']*'?|[^\s\"'`;&|<>,}]+)",
    re.IGNORECASE,
)
"""A secret's name and its value in any text: `export HF_TOKEN=…`, `--api-key …`, `"access_key": "…"`. A quote that is never
closed hides the rest: to try each quote anew would take the square of the text's length."""

_IN_ADDRESS = re.compile(r"(?<=://)([^\s/:@'\"]*:)[^\s/@'\"]+(?=@)")
"""The password in `postgres://user:password@host`."""


def hides(name: str) -> bool:
    """Flags count like variables: `--api-key` is a secret, `--max-num-batched-tokens` is none."""
    return is_secret(name.lstrip("-").replace("-", "_"))


@dataclass(frozen=True, slots=True)
class Veil:
    """Knows the secret values of the forms it was made for, and hides them wherever they turn up."""

    values: tuple[str, ...]

    @classmethod
    def of(cls, forms: Iterable[RankForm]) -> Veil:
        found = {text for form in forms for text in _secrets({**form.env, **(form.flags or {})})}
        return cls(tuple(sorted((text for text in found if len(text) >= SHORTEST), key=len, reverse=True)))

    def text(self, text: str) -> str:
        for value in self.values:
            text = text.replace(value, HIDDEN)
        return _NAMED.sub(lambda match: match[1] + HIDDEN, without_passwords(text))

    def value(self, value: Any, name: str = "") -> Any:
        """A JSON value with the values of secret names, and the known secrets anywhere, hidden."""
        if value is None or isinstance(value, bool):
            return value
        if hides(name):
            return HIDDEN
        if isinstance(value, Mapping):
            return {key: self.value(one, str(key)) for key, one in value.items()}
        if isinstance(value, list | tuple):
            return [self.value(one) for one in value]
        return value if isinstance(value, int | float) else self.text(str(value))


def without_passwords(text: str) -> str:
    return _IN_ADDRESS.sub(lambda match: match[1] + HIDDEN, text) if "://" in text else text


def veiled(form: RankForm) -> RankForm:
    """A form without secrets, for whoever keeps it: what a comparison needs of one is that it is there."""
    veil = Veil.of((form,))
    flags = form.flags and {name: _flag(veil, name, value) for name, value in form.flags.items()}
    sections = {
        name: veil.value(getattr(form, name)) for name in ("env", "container", "mounts", "unit", "files", "says")
    }
    return replace(form, flags=flags, **sections)


def _flag(veil: Veil, name: str, value: Any) -> Any:
    if isinstance(value, NotJson) and not hides(name):
        return replace(value, text=veil.text(value.text))  # still known as what it is
    return veil.value(value, name)


def _secrets(tree: Mapping[str, Any]) -> Iterator[str]:
    for name, value in tree.items():
        if isinstance(value, Mapping):
            yield from _secrets(value)
        elif hides(str(name)):
            yield from (str(one) for one in (value if isinstance(value, list) else [value]) if str(one)[:1] != "<")
