"""`effort` probe -> what the ranks' processes and the fabric have done so far."""

from __future__ import annotations

import re

from sparkd.facts import Fact, FactError, lines
from sparkd.model.effort import Effort, Flow, ProcessTime
from sparkd.model.printed import REAL, WHOLE

_AT = re.compile(rf"at ({REAL}) ({WHOLE})")
_CPU = re.compile(rf"cpu ({WHOLE}) ({WHOLE}) (\S+) ({WHOLE}) ({WHOLE}) (.+)")
_FLOW = re.compile(rf"(net|rdma) (\S+) ({WHOLE}) ({WHOLE})")


def parse(text: str) -> Effort:
    first, *rest = list(lines(text)) or [""]
    at = _AT.fullmatch(first)
    if at is None or not int(at[2]):
        raise FactError(f"no time in {first[:80]!r}")
    processes, flows = [], []
    for line in rest:
        if match := _CPU.fullmatch(line):
            pid, start, owner, ticks, child_ticks, comm = match.groups()
            processes.append(ProcessTime(int(pid), int(start), owner, int(ticks), int(child_ticks), comm))
        elif match := _FLOW.fullmatch(line):
            flows.append(Flow(match[1], match[2], int(match[3]), int(match[4])))
        else:
            raise FactError(f"unexpected line {line[:80]!r}")
    return Effort(float(at[1]), int(at[2]), tuple(processes), tuple(flows))


EFFORT: Fact[Effort] = Fact("effort", parse)
