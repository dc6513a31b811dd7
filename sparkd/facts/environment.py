"""`environment` probe -> where a node sets the variables that were asked for. No text: nowhere."""

from __future__ import annotations

import re

from sparkd.facts import Args, Fact, Question, records

METHOD = "VLLM_WORKER_MULTIPROC_METHOD"
_LINE = re.compile(r"(systemd|/\S+) ([A-Z][A-Z0-9_]*)=(.*)")

Environment = dict[tuple[str, str], str]
"""(source, name) -> value; the source is `systemd` or a file."""


def parse(text: str) -> Environment:
    return {(match[1], match[2]): match[3] for match in records(text, _LINE)}


def _args(question: Question) -> Args:
    return {"names": [METHOD]}


ENVIRONMENT: Fact[Environment] = Fact("environment", parse, _args)
