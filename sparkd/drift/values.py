"""One word of a command line -> its value: numbers by amount, JSON by content, paths without their detours."""

from __future__ import annotations

import math
import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

from sparkd.engines.flags import JSON_KINDS, Flag
from sparkd.model.printed import REAL, document

_NUMBER = re.compile(r"[-+]?([0-9]{1,400}(\.[0-9]{0,400})?|\.[0-9]{1,400})([eE][-+]?[0-9]{1,9})?")
_SIZE = re.compile(rf"({REAL})([kKmMgGtT])")
_SIZE_IN_JSON = re.compile(rf'("(?:[^"\\]|\\.)*"?)|\b({REAL}[kKmMgGtT])\b')
"""A string that is never closed is one as well: to look for its end from every quote in it would take the square of its length."""
_PIECE = re.compile(r"\s*[\[{]|\s*[\w.'-]+\s*:")


@dataclass(frozen=True, slots=True)
class NotJson:
    """A value that has to be JSON and is none. `lost_quotes`: it would be, had no shell eaten its quotes."""

    text: str
    lost_quotes: bool

    def __str__(self) -> str:
        return self.text


def number(text: str) -> int | float | None:
    """`0.90` and `.9` are one number, `2` and `2.0` too; None for what is none."""
    if not _NUMBER.fullmatch(text):
        return None
    try:
        return plain_number(Decimal(text))
    except (InvalidOperation, OverflowError):
        return None  # an exponent beyond all reason


def plain_number(value: Decimal | float) -> int | float:
    as_float = float(value)
    if not math.isfinite(as_float):
        raise OverflowError(f"{value} is no number to work with")
    return int(value) if as_float.is_integer() else as_float


def amount(text: str) -> int | float | None:
    """As vLLM reads it: `4k` is 4000, `4K` is 4096, and a fraction of a power of two is refused."""
    match = _SIZE.fullmatch(text)
    if match is None:
        return number(text)
    power = "kmgt".index(match[2].lower()) + 1
    if match[2].islower():
        return int(float(match[1]) * 1000**power)
    return int(match[1]) * 1024**power if "." not in match[1] else None


def path(text: str) -> str:
    """`/models//x/` and `/models/./x` are `/models/x`; anything that is no absolute path stays as it is."""
    return "/" + posixpath.normpath(text).lstrip("/") if text.startswith("/") else text


def from_json(text: str) -> Any:
    """The value of a JSON text, or NotJson."""
    try:
        return plain(document(_SIZE_IN_JSON.sub(_spelled_out, text)))
    except ValueError:
        return NotJson(text, _PIECE.match(text) is not None and '"' not in text)


def _spelled_out(match: re.Match[str]) -> str:
    return match[1] or str(amount(match[2]))


def plain(value: Any) -> Any:
    """A JSON value with its numbers by amount, its keys in order, and its paths without detours."""
    if isinstance(value, Mapping):
        return {str(key): plain(value[key]) for key in sorted(value, key=str)}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if isinstance(value, float):
        return plain_number(value) if math.isfinite(value) else str(value)
    return path(value) if isinstance(value, str) else value


def by_kind(text: str, flag: Flag) -> Any:
    """What the engine's parser makes of one word given to `flag`; a word it would refuse stays a word."""
    if flag.optional and text in ("", "None"):
        return None
    if flag.kind in JSON_KINDS:
        is_text = flag.kind == "json-or-text" and not text.strip().startswith("{")
        return path(text) if is_text else from_json(text)
    if flag.kind == "size-auto" and text.lower() == "auto":
        return -1
    if flag.kind in ("size", "size-auto", "int", "float"):
        found = amount(text) if flag.kind.startswith("size") else number(text)
        return text if found is None else found
    if isinstance(flag.default, int | float) and not isinstance(flag.default, bool):
        found = number(text)  # an enumeration of numbers, as --optimization-level
        return text if found is None else found
    return path(text)


def by_looks(text: str) -> Any:
    """The same without a table: numbers and JSON by how they look."""
    if text[:1] in "[{" and text:
        return from_json(text)
    found = number(text)
    return path(text) if found is None else found


def same(one: Any, other: Any) -> bool:
    """Equal as values; true is not 1, which Python thinks it is."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)
