"""What other programs print -> numbers, texts and JSON that can be worked with: bounded, finite, ASCII digits. Pure.

A log line, a title, a label or a page is input, and its author chooses how long a number in it is. Python's own `int` and
`float` are not made for that: they read `1_000`, digits of other scripts, `nan` and `inf`, and raise at 4301 digits.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

WHOLE = r"[0-9]{1,20}"
"""For patterns: as many digits as 64 bits have. What it matches, `int` reads."""
REAL = rf"{WHOLE}(?:\.{WHOLE})?"
"""For patterns: what it matches, `float` reads, and it is finite."""
LONGEST_LINE = 1 << 16
"""Characters of one line that patterns are shown; Docker's log driver cuts at 16 Ki, vLLM's arguments have some thousand."""
LONGEST_TEXT = 1 << 12
"""Of one value in a line, such as a path or a name."""
DEEPEST = 64
"""Levels of JSON; Docker's own words have eight."""

_WHOLE = re.compile(rf"-?{WHOLE}")
_REAL = re.compile(rf"[-+]?(?:{REAL}\.?|\.{WHOLE})(?:[eE][-+]?[0-9]{{1,3}})?")
_MOST = 10**20


@dataclass(frozen=True, slots=True)
class Unread:
    """In the place of a value: it is there, and why nothing is made of it, in one clause."""

    why: str


def whole(text: str) -> int | None:
    """None for what is no whole number of at most 20 digits."""
    return int(text) if _WHOLE.fullmatch(text) else None


def real(text: str) -> float | None:
    """None for what is no finite number, or has more than 20 digits before or after the point."""
    value = float(text) if _REAL.fullmatch(text) else math.nan
    return value if math.isfinite(value) else None


def shown(lines: Iterable[str]) -> Iterator[str]:
    """Lines as patterns get to see them: cut at LONGEST_LINE."""
    return (line[:LONGEST_LINE] for line in lines)


def clean(text: str) -> str:
    """Without halves of characters, which no file and no answer of ours could hold."""
    return text.encode("utf-8", "replace").decode("utf-8")


def scalar(value: Any) -> Any:
    """A flag's value as it was printed (None, bool, int, float, str), or Unread where it is none that can be worked with."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, str):
        return clean(value) if len(value) <= LONGEST_TEXT else Unread(f"a text of {len(value)} characters")
    if isinstance(value, int):
        return value if -_MOST < value < _MOST else Unread("a number of more than 20 digits")
    if isinstance(value, float):
        return value if math.isfinite(value) else Unread(f"{value} is no number")
    return Unread("no plain value")


def document(text: str) -> Any:
    """The value of a JSON text whose numbers and depth can be worked with. Raises ValueError, with the reason in one clause, for
    anything else."""
    try:
        value = json.loads(text, parse_int=_int, parse_float=_float, parse_constant=_odd)
    except RecursionError:
        raise ValueError("JSON that is nested too deeply") from None
    level = [value]
    for _ in range(DEEPEST):
        level = [one for inner in level if isinstance(inner, dict | list) for one in _within(inner)]
        if not level:
            return value
    raise ValueError("JSON that is nested too deeply")


def _within(value: dict[str, Any] | list[Any]) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value


def _int(text: str) -> int:
    value = whole(text)
    return _odd(text) if value is None else value


def _float(text: str) -> float:
    value = float(text)
    return value if math.isfinite(value) else _odd(text)


def _odd(text: str) -> Any:
    raise ValueError(f"{text[:20]}{'…' if len(text) > 20 else ''} is no number to work with")
