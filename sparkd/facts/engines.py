"""`engines` probe -> everything on the node that looks like an engine's process. No text means that nothing does."""

from __future__ import annotations

import re

from sparkd.facts import Fact, records
from sparkd.facts.processes import HEAD
from sparkd.model.machine import EngineProcess
from sparkd.model.printed import WHOLE

_LINE = re.compile(rf"{HEAD} ({WHOLE}) (-|{WHOLE}(?:,{WHOLE})*) (\S+) (.+)")
_MARK = re.compile(r"([^/]+)/([^/]+)/([0-9]{1,18})")


def parse(text: str) -> tuple[EngineProcess, ...]:
    return tuple(
        EngineProcess(
            pid=int(match[1]),
            ppid=int(match[2]),
            start_ticks=int(match[3]),
            state=match[4],
            rss_bytes=int(match[5]),
            owner=match[6],
            age_s=float(match[7]),
            ports=() if match[8] == "-" else tuple(map(int, match[8].split(","))),
            mark=_mark(match[9]),
            title=match[10],
        )
        for match in records(text, _LINE)
    )


def _mark(text: str) -> tuple[str, str, int] | None:
    """An invalid mark is ignored: any process may set such a variable."""
    match = _MARK.fullmatch(text)
    return (match[1], match[2], int(match[3])) if match else None


ENGINES = Fact("engines", parse)
