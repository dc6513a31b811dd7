"""Keeps secret values out of everything that is written or shown (rule 13)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sparkd.model.config import Deployment

HIDDEN = "<redacted>"
SECRET_ENDINGS = ("_TOKEN", "_KEY", "_SECRET", "PASSWORD")
SHORTEST = 6
"""A value shorter than this would be found inside ordinary words."""


def is_secret(name: str) -> bool:
    """Is the value of this environment variable a secret by its name? `--max-num-batched-tokens` is none."""
    return name.upper().endswith(SECRET_ENDINGS)


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
                found.append(Path(file).read_text("utf-8").strip())
            except (OSError, UnicodeDecodeError):
                continue  # a secret that cannot be read cannot be in what was written either
        return cls(tuple(sorted({one for one in found if len(one) >= SHORTEST}, key=len, reverse=True)))

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


def _environment(deployment: Deployment) -> list[tuple[str, str]]:
    pairs = list(deployment.env.items())
    for values in deployment.node_env.values():
        pairs += values.items()
    return pairs
