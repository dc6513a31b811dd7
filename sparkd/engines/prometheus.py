"""Prometheus text format -> samples, as far as an engine's own page needs it. What is odd is skipped."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

_SAMPLE = re.compile(r"([a-zA-Z_:][\w:]*)(?:\{(.*)\})?[ \t]+(\S+)(?:[ \t]+\S+)?\s*")
_LABEL = re.compile(r'(?<!\w)(\w+)="((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True, slots=True)
class Samples:
    """(name, labels as written, value) in page order."""

    rows: tuple[tuple[str, str, float], ...]

    def _values(self, name: str) -> list[float]:
        return [value for row, _, value in self.rows if row == name]

    def total(self, name: str) -> float | None:
        """Sum over all series (one per engine with data parallelism), or None when there is no such name."""
        values = self._values(name)
        return sum(values) if values else None

    def highest(self, name: str) -> float | None:
        return max(self._values(name), default=None)

    def labels(self, name: str) -> list[dict[str, str]]:
        """The labels of every series of that name: `…_info` metrics say what they say there."""
        return [dict(_LABEL.findall(labels)) for row, labels, _ in self.rows if row == name]

    def by_label(self, name: str, label: str) -> dict[str, float]:
        """Sums per value of one label."""
        sums: dict[str, float] = {}
        for row, labels, value in self.rows:
            if row == name and (key := dict(_LABEL.findall(labels)).get(label)) is not None:
                sums[key] = sums.get(key, 0.0) + value
        return sums


def samples(text: str) -> Samples:
    return Samples(tuple(_rows(text)))


def _rows(text: str) -> Iterator[tuple[str, str, float]]:
    for line in text.splitlines():
        match = _SAMPLE.fullmatch(line)
        if match is None:
            continue
        try:
            value = float(match[3])
        except ValueError:
            continue  # not a sample: a foreign page
        if math.isfinite(value):
            yield match[1], match[2] or "", value
