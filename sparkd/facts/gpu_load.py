"""`gpu_load` probe -> how hard every GPU works at this moment, and who computes on it."""

from __future__ import annotations

import re

from sparkd.facts import Fact, FactError, count, lines
from sparkd.model.effort import Card, GpuLoad
from sparkd.model.printed import REAL

_NUMBER = re.compile(rf"({REAL})(?: (?:%|W|MHz))?")
_BITS = re.compile(r"0x([0-9a-fA-F]{1,16})")
FIELDS = 7


def parse(text: str) -> GpuLoad:
    smi, said, cards, pids, whole = "", "", [], list[int](), True
    for line in lines(text):
        kind, _, rest = line.partition(" ")
        if kind == "smi":
            smi, _, said = rest.partition(" ")
        elif kind == "gpu":
            cards.append(_card(rest))
        elif kind == "pid":
            pids.append(count(rest))
        elif line == "pids -":
            whole = False
        else:
            raise FactError(f"unexpected line {line[:80]!r}")
    if smi not in ("ok", "missing", "failed"):
        raise FactError("no word of nvidia-smi in it")
    return GpuLoad(smi, said, tuple(cards), tuple(pids) if whole else None)


def _card(row: str) -> Card:
    fields = [field.strip() for field in row.split(",")]
    if len(fields) != FIELDS:
        raise FactError(f"a GPU of {len(fields)} fields")
    _, name, used, memory, power, clock, reasons = fields
    bits = _BITS.fullmatch(reasons)
    return Card(
        name,
        utilization=_figure(used),
        memory_utilization=_figure(memory),
        power_w=_figure(power),
        sm_mhz=_figure(clock),
        reasons=int(bits[1], 16) if bits else None,
    )


def _figure(text: str) -> float | None:
    """None for `[N/A]`, `[Not Supported]` and the like."""
    match = _NUMBER.fullmatch(text)
    return float(match[1]) if match else None


GPU_LOAD: Fact[GpuLoad] = Fact("gpu_load", parse)
