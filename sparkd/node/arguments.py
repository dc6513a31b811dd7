"""A field of a client's JSON object -> a value of the expected type and range, or Refusal(usage) with one sentence."""

from __future__ import annotations

from typing import Any, Mapping, Optional, Pattern

from sparkd.node.refusal import Refusal

MAX_LIST = 4096
"""Entries of one list: a killed engine leaves hundreds of segments to unlink."""


def text(args: Mapping[str, Any], name: str, default: Optional[str] = None) -> str:
    value = args.get(name, default)
    if not isinstance(value, str):
        raise Refusal("usage", f"{name} must be a string")
    return value


def number(args: Mapping[str, Any], name: str, low: float, high: float, default: Optional[float] = None) -> float:
    """The comparison also refuses NaN, which JSON readers of other languages like to send."""
    value = args.get(name, default)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= high:
        raise Refusal("usage", f"{name} must be a number from {low:g} to {high:g}")
    return float(value)


def integer(args: Mapping[str, Any], name: str, low: int, high: int, default: Optional[int] = None) -> int:
    value = args.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise Refusal("usage", f"{name} must be a whole number from {low} to {high}")
    return value


def flag(args: Mapping[str, Any], name: str) -> bool:
    """Absent means false."""
    value = args.get(name, False)
    if not isinstance(value, bool):
        raise Refusal("usage", f"{name} must be true or false")
    return value


def mapping(args: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Absent and null mean empty."""
    value = args.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise Refusal("usage", f"{name} must be an object")
    return value


def items(args: Mapping[str, Any], name: str, pattern: Pattern[str]) -> tuple[str, ...]:
    """A list of strings that all match `pattern`; absent means empty."""
    values = _listed(args, name)
    for value in values:
        if not isinstance(value, str) or not pattern.fullmatch(value):
            raise Refusal("usage", f"{name} has an entry that is not allowed: {str(value)[:80]!r}")
    return tuple(values)


def ports(args: Mapping[str, Any], name: str) -> frozenset[int]:
    """A list of TCP ports; absent means none."""
    values = _listed(args, name)
    if not all(type(value) is int and 0 < value < 65536 for value in values):
        raise Refusal("usage", f"{name} must be a list of ports from 1 to 65535")
    return frozenset(values)


def _listed(args: Mapping[str, Any], name: str) -> list[Any]:
    values = args.get(name, [])
    if not isinstance(values, list) or len(values) > MAX_LIST:
        raise Refusal("usage", f"{name} must be a list of at most {MAX_LIST} entries")
    return values
