"""`pressure` probe -> how hard memory is pressed, the swap devices, and who would kill for memory."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from sparkd.facts import Fact, FactError, lines
from sparkd.model.printed import REAL, WHOLE

_PSI = re.compile(rf"psi (some|full) avg10=({REAL}) avg60=({REAL}) avg300=({REAL}) total=({WHOLE})")
_SWAP = re.compile(rf"swap (\S+) (\S+) ({WHOLE}) ({WHOLE})")
_KNOB = re.compile(rf"vm ([a-z_]+) (-?{WHOLE})")
_KILLER = re.compile(rf"killer (\S+) ({WHOLE}) (.*)")
_SETTING = re.compile(r"setting (\S+) (.+)")


@dataclass(frozen=True, slots=True)
class Swap:
    name: str
    kind: str
    """partition | file"""
    size_bytes: int
    used_bytes: int

    @property
    def in_memory(self) -> bool:
        """zram: what is swapped to it takes the same memory, compressed."""
        return "zram" in self.name


@dataclass(frozen=True, slots=True)
class Killer:
    name: str
    pid: int
    argv: tuple[str, ...]
    settings: tuple[str, ...] = ()
    """Lines of its own file, those that name a threshold."""


@dataclass(frozen=True, slots=True)
class Pressure:
    some_60: float | None
    """Percent of the last minute in which something waited for memory (PSI), None on a kernel without."""
    full_60: float | None
    """… in which everything did."""
    swaps: tuple[Swap, ...]
    knobs: Mapping[str, int] = field(default_factory=dict)
    killers: tuple[Killer, ...] = ()


def parse(text: str) -> Pressure:
    psi: dict[str, float] = {}
    swaps: list[Swap] = []
    knobs: dict[str, int] = {}
    killers: list[Killer] = []
    settings: dict[str, list[str]] = {}
    for line in lines(text):
        if match := _PSI.fullmatch(line):
            psi[match[1]] = float(match[3])
        elif match := _SWAP.fullmatch(line):
            swaps.append(Swap(match[1], match[2], int(match[3]), int(match[4])))
        elif match := _KNOB.fullmatch(line):
            knobs[match[1]] = int(match[2])
        elif match := _KILLER.fullmatch(line):
            killers.append(Killer(match[1], int(match[2]), tuple(match[3].split())))
        elif match := _SETTING.fullmatch(line):
            settings.setdefault(match[1], []).append(match[2])
        else:
            raise FactError(f"unexpected line {line[:80]!r}")
    if not knobs:
        raise FactError("no knob of the kernel in it")
    known = tuple(Killer(one.name, one.pid, one.argv, tuple(settings.get(one.name, ()))) for one in killers)
    return Pressure(psi.get("some"), psi.get("full"), tuple(swaps), knobs, known)


PRESSURE = Fact("pressure", parse)
