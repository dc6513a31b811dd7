"""`gpu` probe -> the driver's module, what nvidia-smi answered, and the Xid errors since boot."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sparkd.facts import Fact, FactError, lines
from sparkd.model.printed import REAL, WHOLE

_NUMBER = re.compile(rf"-?{REAL}(?![0-9])")
_BITS = re.compile(r"0x[0-9a-fA-F]{1,16}")
_XID = re.compile(rf"({WHOLE}\.{WHOLE}) (NVRM: Xid .*?: ({WHOLE}),.*)")


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU. Watts and MHz; None where the tool says `[N/A]`, as GB10 does for much."""

    name: str
    driver: str
    pstate: str
    power_w: float | None
    sm_mhz: float | None
    utilization: float | None
    """Percent."""
    temperature_c: float | None
    reasons: int | None = None
    """The driver's clock-event reasons as NVML's bits: why the clock is not the highest one. None where it does not say."""
    max_sm_mhz: float | None = None


@dataclass(frozen=True, slots=True)
class Xid:
    at: float
    """Unix time."""
    number: int
    text: str


@dataclass(frozen=True, slots=True)
class GpuState:
    module: str | None
    """Version of the loaded kernel module, None without one."""
    smi: str
    """ok | missing | failed"""
    said: str
    """nvidia-smi's words where it failed."""
    gpus: tuple[Gpu, ...]
    xids: tuple[Xid, ...]


def parse(text: str) -> GpuState:
    module: str | None = None
    smi, said, gpus, xids = "", "", [], []
    for line in lines(text):
        kind, _, rest = line.partition(" ")
        if kind == "module":
            module = None if rest == "-" else rest
        elif kind == "smi":
            smi, _, said = rest.partition(" ")
        elif kind == "gpu":
            gpus.append(_gpu(rest))
        elif kind == "xid":
            xids.append(_xid(rest))
        else:
            raise FactError(f"unexpected line {line[:80]!r}")
    if smi not in ("ok", "missing", "failed"):
        raise FactError("no word of nvidia-smi in it")
    return GpuState(module, smi, said, tuple(gpus), tuple(xids))


def _gpu(row: str) -> Gpu:
    """A driver of before R535 knows no clock events, and is asked without them."""
    fields = [field.strip() for field in row.split(",")]
    if len(fields) not in (8, 10):
        raise FactError(f"a GPU of {len(fields)} fields")
    _, name, driver, pstate, *figures = fields
    power, mhz, utilization, temperature = map(_figure, figures[:4])
    reasons, most = (_bits(figures[4]), _figure(figures[5])) if len(fields) == 10 else (None, None)
    return Gpu(name, driver, pstate, power, mhz, utilization, temperature, reasons, most)


def _figure(text: str) -> float | None:
    match = _NUMBER.match(text)
    return float(match[0]) if match else None


def _bits(text: str) -> int | None:
    return int(text, 16) if _BITS.fullmatch(text) else None


def _xid(rest: str) -> Xid:
    match = _XID.fullmatch(rest)
    if match is None:
        raise FactError(f"no Xid: {rest[:80]!r}")
    return Xid(float(match[1]), int(match[3]), match[2])


GPU: Fact[GpuState] = Fact("gpu", parse)
