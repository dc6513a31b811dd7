"""`work` probe -> what the processes of each rank have done so far. No text means that none of them has a process."""

from __future__ import annotations

import re

from sparkd.facts import Fact, records
from sparkd.model.machine import Work
from sparkd.model.printed import WHOLE

_LINE = re.compile(rf"(\S+) ({WHOLE}) ({WHOLE})")


def parse(text: str) -> tuple[Work, ...]:
    return tuple(Work(match[1], int(match[2]), int(match[3])) for match in records(text, _LINE))


WORK = Fact("work", parse)
