"""Keeps secret values out of everything that is written or shown (rule 13)."""

from __future__ import annotations

import sys
import traceback
from collections.abc import MutableMapping
from dataclasses import replace
from functools import lru_cache
from types import TracebackType
from typing import Any

from sparkd.base import secret_files
from sparkd.model.config import Deployment
from sparkd.model.hiding import Hiding
from sparkd.model.leaks import leaks
from sparkd.model.snapshot import Canary, Outcome


class Redactor(Hiding):
    """Hides the secrets of one deployment, in text and in trees of JSON values."""

    __slots__ = ()

    @classmethod
    def of(cls, deployment: Deployment) -> Redactor:
        """Reads the deployment's secrets (blocking I/O), and finds those that stand in its configuration."""
        written = {leak.value for leak in leaks([deployment.env, deployment.node_env, deployment.args])}
        return cls.knowing(written | secret_files.values(deployment.secrets.values()), deployment.secrets)

    def __call__(self, text: str) -> str:
        return self.text(text)

    def outcome(self, outcome: Outcome) -> Outcome:
        """What came of an action, in words that an engine, Docker or a node may have put a secret into."""
        value = outcome.value
        if isinstance(value, Canary):
            said = value.said
            if said is not None:
                said = replace(said, text=self.text(said.text), reasoning=self.text(said.reasoning))
            value = replace(value, why=self.text(value.why), said=said)
        elif isinstance(value, dict | list | tuple | str):
            value = self.tree(value)
        return replace(outcome, error=self.text(outcome.error), value=value)


def log_line(_: object, __: str, fields: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """A processor of structlog: one line of the daemon's own log, its trace included, without any secret that this
    process has read."""
    hide = _everything(secret_files.values())
    for name, value in fields.items():
        plain = value is None or isinstance(value, str | int | float | bool | dict | list | tuple)
        fields[name] = hide.tree(value if plain else str(value), name)
    return fields


def text(said: str) -> str:
    """Without any secret that this process has read, or that stands under a secret's name."""
    return _everything(secret_files.values()).text(said)


def last_words(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """A `sys.excepthook`: what a crash says is logged too."""
    text = "".join(traceback.format_exception(kind, error, trace))
    sys.stderr.write(_everything(secret_files.values()).text(text))


@lru_cache(1)
def _everything(values: frozenset[str]) -> Hiding:
    return Hiding.knowing(values)
