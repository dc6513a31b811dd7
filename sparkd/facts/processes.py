"""`processes` probe -> the processes of our ranks and leftovers, in the node's order. No text means no such process."""

from __future__ import annotations

import re

from sparkd.facts import Fact, records
from sparkd.model.machine import Process
from sparkd.model.printed import WHOLE

HEAD = rf"({WHOLE}) ({WHOLE}) ({WHOLE}) ([A-Za-z]) ({WHOLE}) (\S+)"
"""With what every line about a process begins; `head` reads it."""
_LINE = re.compile(rf"{HEAD} (.+)")


def parse(text: str) -> tuple[Process, ...]:
    return tuple(head(match, match[7]) for match in records(text, _LINE))


def head(match: re.Match[str], title: str) -> Process:
    return Process(
        pid=int(match[1]),
        ppid=int(match[2]),
        start_ticks=int(match[3]),
        state=match[4],
        rss_bytes=int(match[5]),
        owner=match[6],
        title=title,
    )


PROCESSES = Fact("processes", parse)
