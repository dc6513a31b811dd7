"""Measurements -> one row each, with a verdict against its target; rows -> a table for people and JSON for scripts."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

SCHEMA = 1
HEADS = ("what", "target", "measured", "ratio", "verdict")
NOTE_WIDTH = 110


class Verdict(StrEnum):
    MET = "met"
    MISSED = "MISSED"
    UNSURE = "unsure"
    """The target is within the interval of what was measured."""
    INFO = "-"
    """A figure without a target."""
    SKIPPED = "skipped"
    FAILED = "FAILED"
    """The benchmark itself broke, so that nothing is known."""
    NOT_JUDGED = "quick"
    """Measured for too short a time to be judged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One figure. Smaller is better in all of them; `limit` is the target in the same unit, None where there is none."""

    benchmark: str
    what: str
    unit: str = ""
    value: float | None = None
    limit: float | None = None
    within: float | None = None
    """Half the width of the 95 % interval of `value`, where it is known."""
    spread: str = ""
    """How far single values were apart, in words."""
    note: str = ""
    verdict: Verdict = Verdict.INFO

    @property
    def ratio(self) -> float | None:
        """Measured over target."""
        return self.value / self.limit if self.value is not None and self.limit else None


def judged(row: Row, quick: bool) -> Verdict:
    """Of a row that was measured."""
    if row.value is None or row.limit is None:
        return row.verdict
    if quick:
        return Verdict.NOT_JUDGED
    if row.within is not None and abs(row.value - row.limit) <= row.within:
        return Verdict.UNSURE
    return Verdict.MET if row.value <= row.limit else Verdict.MISSED


def table(rows: Sequence[Row]) -> str:
    """Columns as wide as they need to be; notes below, numbered."""
    cells = [HEADS, *(_cells(row) for row in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(HEADS))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in cells]
    lines.insert(1, "  ".join("-" * width for width in widths))
    for row in rows:
        if row.note:
            lines += ["", *textwrap.wrap(f"{row.what}: {row.note}", NOTE_WIDTH)]
    return "\n".join(lines)


def _cells(row: Row) -> tuple[str, ...]:
    target = f"{number(row.limit)} {row.unit}".strip() if row.limit is not None else ""
    measured = f"{number(row.value)} {row.unit}".strip() if row.value is not None else ""
    measured += f" +-{number(row.within)}" if row.within is not None else ""
    spread = f" ({row.spread})" if row.spread else ""
    ratio = f"{row.ratio:.2f}" if row.ratio is not None else ""
    return row.what, target, measured + spread, ratio, row.verdict.value


def number(value: float) -> str:
    """Three figures: more would be noise."""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def as_json(rows: Sequence[Row], about: dict[str, Any]) -> dict[str, Any]:
    """`about`: when, where and how it was measured."""
    return {"schema": SCHEMA, **about, "rows": [{**asdict(row), "ratio": row.ratio} for row in rows]}
