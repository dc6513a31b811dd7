"""Prometheus text format -> samples, as far as an engine's own page needs it. What is no sample is skipped; a sample that
is no number to work with is Unread, since a sum without it would be another sum at every look."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from sparkd.model.printed import Unread, real

_SAMPLE = re.compile(r"([a-zA-Z_:][\w:]*)(?:\{(.*)\})?[ \t]+(\S+)(?:[ \t]+\S+)?\s*", re.ASCII)
_LABEL = re.compile(r'[\s,]*(\w+)="((?:[^"\\]|\\.)*)"', re.ASCII)
LONGEST_SAMPLE = 1 << 13
"""Characters of a line; a model's name may be a long path."""
MOST_SAMPLES = 50_000
"""vLLM's page has some thousand."""


@dataclass(frozen=True, slots=True)
class Samples:
    """(name, labels as written, value) in page order."""

    rows: tuple[tuple[str, str, float | None], ...]
    """None: it stands there and is no finite number."""

    def _values(self, name: str) -> list[float] | Unread:
        """For an engine's figures, none of which goes below zero."""
        values = [value for row, _, value in self.rows if row == name]
        counts = [value for value in values if value is not None and value >= 0]
        return counts if len(counts) == len(values) else Unread(f"{name} is no number from zero on")

    def total(self, name: str) -> float | None | Unread:
        """Sum over all series (one per engine with data parallelism), or None when there is no such name."""
        values = self._values(name)
        return values if isinstance(values, Unread) else sum(values) if values else None

    def highest(self, name: str) -> float | None | Unread:
        values = self._values(name)
        return values if isinstance(values, Unread) else max(values, default=None)

    def labels(self, name: str) -> list[dict[str, str]]:
        """The labels of every series of that name: `…_info` metrics say what they say there."""
        return [dict(_pairs(labels)) for row, labels, _ in self.rows if row == name]

    def by_label(self, name: str, label: str) -> dict[str, float]:
        """Sums per value of one label; without samples that are no number."""
        sums: dict[str, float] = {}
        for row, labels, value in self.rows:
            if row == name and value is not None and (key := dict(_pairs(labels)).get(label)) is not None:
                sums[key] = sums.get(key, 0.0) + value
        return sums


def samples(text: str) -> Samples | Unread:
    """Unread: a page of more samples than any engine has."""
    rows: list[tuple[str, str, float | None]] = []
    for row in _rows(text):
        if len(rows) == MOST_SAMPLES:
            return Unread(f"more than {MOST_SAMPLES} samples")
        rows.append(row)
    return Samples(tuple(rows))


def _rows(text: str) -> Iterator[tuple[str, str, float | None]]:
    for line in text.split("\n"):  # and at nothing else that ends a line: a label may hold it
        match = _SAMPLE.fullmatch(line) if len(line) <= LONGEST_SAMPLE else None
        if match is not None and _is_value(match[3]):
            yield match[1], match[2] or "", real(match[3])


def _is_value(text: str) -> bool:
    """Is it a value at all? A foreign page has words there."""
    return text[:1] in "0123456789+-." or text.lower() in ("nan", "inf")


def _pairs(labels: str) -> Iterator[tuple[str, str]]:
    """One after the other up to what is no label: to look for one further on would read the rest again and again."""
    at = 0
    while (match := _LABEL.match(labels, at)) is not None:
        yield match[1], match[2]
        at = match.end()
