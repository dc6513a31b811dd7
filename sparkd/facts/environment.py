"""`environment` probe -> where a node sets the variables that were asked for. No text: nowhere."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sparkd.engines import ENGINES
from sparkd.facts import Args, Fact, Question, records

_LINE = re.compile(r"(systemd|/\S+) ([A-Z][A-Z0-9_]*)=(.*)")


@dataclass(frozen=True, slots=True)
class Setting:
    """`source`: `systemd`, or the path of a file."""

    source: str
    name: str
    value: str


def parse(text: str) -> tuple[Setting, ...]:
    return tuple(Setting(*match.groups()) for match in records(text, _LINE))


def _args(question: Question) -> Args:
    """Those that break the deployment's engine with some value."""
    return {"names": [one.name for one in ENGINES[question.deployment.engine].variables.broken]}


ENVIRONMENT: Fact[tuple[Setting, ...]] = Fact("environment", parse, _args)
