"""`shm` probe -> the engines' shared-memory segments and how many processes hold each. No text: there are none."""

from __future__ import annotations

import re

from sparkd.facts import Fact, records
from sparkd.model.machine import ShmSegment
from sparkd.model.printed import REAL, WHOLE

_LINE = re.compile(rf"((?:psm_|sem\.mp-)\S+) ({WHOLE}) ({REAL}) ({WHOLE}) ({WHOLE}) ({WHOLE})")


def parse(text: str) -> tuple[ShmSegment, ...]:
    return tuple(
        ShmSegment(
            name=match[1],
            size_bytes=int(match[2]),
            mtime=float(match[3]),
            dev=int(match[4]),
            inode=int(match[5]),
            holders=int(match[6]),
        )
        for match in records(text, _LINE)
    )


SHM = Fact("shm", parse)
