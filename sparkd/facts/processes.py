"""`processes` probe -> the processes of our ranks and leftovers, in the node's order. No text means no such process."""

from __future__ import annotations

import re

from sparkd.facts import records
from sparkd.model.snapshot import Process

_LINE = re.compile(r"(\d+) (\d+) (\d+) ([A-Za-z]) (\d+) (\S+) (.+)")


def parse(text: str) -> tuple[Process, ...]:
    return tuple(
        Process(
            pid=int(match[1]),
            ppid=int(match[2]),
            start_ticks=int(match[3]),
            state=match[4],
            rss_bytes=int(match[5]),
            owner=match[6],
            title=match[7],
        )
        for match in records(text, _LINE)
    )
