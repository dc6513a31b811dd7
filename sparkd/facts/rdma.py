"""`rdma` probe -> what the main process of every engine on a node may do for RDMA. No text: none runs."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sparkd.facts import Fact, records
from sparkd.model.printed import WHOLE

_LINE = re.compile(rf"({WHOLE}) (\S+) ({WHOLE}|unlimited) (yes|no) (\S+)")


@dataclass(frozen=True, slots=True)
class RdmaRights:
    """Of one main process. `owner`: container id or unit, `-` for neither. `devices` is None where it could not be read."""

    pid: int
    owner: str
    memlock_bytes: int | None
    """None: it may lock as much as it likes."""
    devices: tuple[str, ...] | None


def parse(text: str) -> tuple[RdmaRights, ...]:
    return tuple(
        RdmaRights(
            pid=int(match[1]),
            owner=match[2],
            memlock_bytes=None if match[3] == "unlimited" or match[4] == "yes" else int(match[3]),
            devices={"-": (), "?": None}.get(match[5], tuple(match[5].split(","))),
        )
        for match in records(text, _LINE)
    )


RDMA: Fact[tuple[RdmaRights, ...]] = Fact("rdma", parse)
