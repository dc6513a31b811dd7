"""`ping` probe -> one Ping per address. No text means that none was asked for."""

from __future__ import annotations

import re

from sparkd.facts import Fact, records
from sparkd.model.machine import Ping
from sparkd.model.printed import REAL

_LINE = re.compile(rf"([0-9A-Fa-f.:]+) (?:ok ({REAL})|lost|error (.+))")


def parse(text: str) -> tuple[Ping, ...]:
    return tuple(
        Ping(address=match[1], ms=None if match[2] is None else float(match[2]), error=match[3])
        for match in records(text, _LINE)
    )


PING = Fact("ping", parse)
