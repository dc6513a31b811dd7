"""Keeps secret values out of everything that is written or shown (rule 13)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from sparkd import files
from sparkd.model.config import Deployment
from sparkd.model.secret import HIDDEN, is_secret

SHORTEST = 6
"""A value shorter than this would be found inside ordinary words."""


@dataclass(frozen=True, slots=True)
class Redactor:
    """Replaces the known secret values of one deployment, in text and in trees of JSON values."""

    values: tuple[str, ...]

    @classmethod
    def of(cls, deployment: Deployment) -> Redactor:
        """Read the deployment's secrets (blocking I/O) and the values of secret-looking names in its environment."""
        found = [value for name, value in _environment(deployment) if is_secret(name)]
        for file in deployment.secrets.values():
            try:
                found.append(files.text(file))
            except (OSError, UnicodeDecodeError):
                continue  # a secret that cannot be read cannot be in what was written either
        forms = {form for value in found for form in _forms(value.strip()) if len(form) >= SHORTEST}
        return cls(tuple(sorted(forms, key=len, reverse=True)))

    def __call__(self, text: str) -> str:
        for value in self.values:
            text = text.replace(value, HIDDEN)
        return text

    def tree(self, value: Any) -> Any:
        """The same for nested JSON values; `NAME=value` strings with a secret-looking name lose their value."""
        if isinstance(value, str):
            name, equals, _ = value.partition("=")
            return f"{name}={HIDDEN}" if equals and is_secret(name) else self(value)
        if isinstance(value, Mapping):
            return {key: self.tree(one) for key, one in value.items()}
        if isinstance(value, list):
            return [self.tree(one) for one in value]
        return value


def _forms(value: str) -> Iterator[str]:
    """As it is, as each of its lines (a log comes line by line), and as JSON, Python and addresses write it."""
    for part in (value, *map(str.strip, value.splitlines())):
        yield from (
            part,
            json.dumps(part)[1:-1],
            json.dumps(part, ensure_ascii=False)[1:-1],
            repr(part)[1:-1],
            quote(part, safe=""),
        )


def _environment(deployment: Deployment) -> list[tuple[str, str]]:
    """Flags count like variables: `--api-key` is a secret."""
    pairs = list(deployment.env.items())
    pairs += ((name.replace("-", "_"), str(value)) for name, value in deployment.args.items())
    for values in deployment.node_env.values():
        pairs += values.items()
    return pairs
