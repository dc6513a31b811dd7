"""`caches` probe -> what each cache folder of a deployment holds on the node. No text: it names none."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sparkd.engines.caches import folders
from sparkd.facts import Args, Fact, Question, records
from sparkd.model.printed import WHOLE

_LINE = re.compile(rf"(?:({WHOLE}) ({WHOLE})|(missing|unreadable)) (/.*)")


@dataclass(frozen=True, slots=True)
class Cache:
    """`files` is None where it could not be read."""

    path: str
    bytes: int
    files: int | None


def parse(text: str) -> tuple[Cache, ...]:
    return tuple(
        Cache(match[4], int(match[1] or 0), None if match[3] == "unreadable" else int(match[2] or 0))
        for match in records(text, _LINE)
    )


def ask(question: Question) -> Args | None:
    return {"paths": list(folders(question.deployment))}


CACHES = Fact("caches", parse, args=ask)
