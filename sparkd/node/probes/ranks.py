"""systemd -> the properties of every rank that runs as a transient unit, a blank line between units; none is no text.

On control groups v1 a line `OomKills=N` is added to a rank that failed: there systemd says `signal` of an OOM kill.
"""

from __future__ import annotations

import os
from typing import Any, Mapping

from sparkd.node import journal, units
from sparkd.node.refusal import Refusal


def probe(args: Mapping[str, Any], deadline_s: float) -> str:
    """Nodes without such ranks are most: there systemd is not even asked (5 ms of CPU each time)."""
    names = units.listed()
    if not names:
        return ""
    finished = units.systemctl([*units.SHOW, "--", *names], deadline_s)
    if finished.status:
        raise Refusal("failed", f"systemctl show: {finished.errors.strip() or f'exit status {finished.status}'}")
    if not os.path.isdir(units.MEMORY_V1):
        return finished.output
    return "\n".join(_with_oom_kills(block, deadline_s) for block in finished.output.rstrip("\n").split("\n\n"))


def _with_oom_kills(block: str, deadline_s: float) -> str:
    found = dict(line.partition("=")[::2] for line in block.splitlines())
    if found["ActiveState"] != "failed" or not units.ID.fullmatch(found["InvocationID"]):
        return f"{block}\n"
    return f"{block}\nOomKills={journal.oom_kills(found['InvocationID'], deadline_s)}\n"
