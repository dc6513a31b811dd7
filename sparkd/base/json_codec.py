"""Frozen dataclasses to plain JSON values and back, tolerant of what another version wrote."""

from __future__ import annotations

import math
import types
from collections.abc import Callable, Collection, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import Enum
from functools import lru_cache
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")


class Undecodable(ValueError):
    """A value that does not fit its type; inside a record its field falls back to the default."""


def encode(value: Any) -> Any:
    """Dataclasses become objects, tuples arrays, sets sorted arrays, enumerations their values."""
    if is_dataclass(value) and not isinstance(value, type):
        return {one.name: encode(getattr(value, one.name)) for one in fields(value)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, frozenset | set):
        return sorted(encode(item) for item in value)
    if isinstance(value, tuple | list):
        return [encode(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): encode(item) for key, item in value.items()}
    return value


def decode(cls: type[T], data: Any, must: Collection[str] = ()) -> T:
    """A value of `cls`. Unknown fields are dropped; missing and unreadable ones become their defaults.

    Raises Undecodable when `data` is no object, or a field without default, or one of those that `must` be read where they are
    there, cannot be read.
    """
    value: T = _record(cls, data, must)
    return value


@lru_cache(maxsize=64)
def _hints(cls: type) -> dict[str, Any]:
    return get_type_hints(cls)


def _record(cls: Any, data: Any, must: Collection[str] = ()) -> Any:
    if not isinstance(data, dict):
        raise Undecodable(f"{cls.__name__} from {type(data).__name__}")
    hints, found = _hints(cls), {}
    for one in fields(cls):
        try:
            if one.name in data:
                found[one.name] = _value(hints[one.name], data[one.name])
        except Undecodable:
            # a phase or class that only a later version knows: the default is what this version would begin with
            if one.name in must or not _has_default(one):
                raise
    try:
        return cls(**found)
    except TypeError as error:
        raise Undecodable(f"{cls.__name__}: {error}") from error


def _has_default(one: Field[Any]) -> bool:
    return one.default is not MISSING or one.default_factory is not MISSING


def _value(hint: Any, data: Any) -> Any:
    origin = get_origin(hint)
    if origin in (types.UnionType, Union):
        return _union(get_args(hint), data)
    if origin is not None:
        return _GENERIC[origin](get_args(hint), data)
    if hint is Any or hint is object:
        return data
    if is_dataclass(hint):
        return _record(hint, data)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return _enum(hint, data)
    return _scalar(hint, data)


def _union(arms: tuple[Any, ...], data: Any) -> Any:
    if data is None and type(None) in arms:
        return None
    for arm in arms:
        try:
            return _value(arm, data)
        except Undecodable:
            continue
    raise Undecodable(f"{data!r} fits none of {arms}")


def _enum(hint: type[Enum], data: Any) -> Enum:
    try:
        return hint(data)
    except ValueError as error:
        raise Undecodable(str(error)) from error


def _scalar(hint: Any, data: Any) -> Any:
    number = isinstance(data, int | float) and not isinstance(data, bool)
    if hint is float and number:
        return _finite(data)
    if hint is int and number and isinstance(data, int):
        return data
    if hint in (str, bool) and isinstance(data, hint):
        return data
    raise Undecodable(f"{data!r} is no {getattr(hint, '__name__', hint)}")


def _finite(data: int | float) -> float:
    """JSON of Python has numbers that no clock shows: NaN, Infinity, and 400 digits."""
    try:
        value = float(data)
    except OverflowError as error:
        raise Undecodable(str(error)) from error
    if not math.isfinite(value):
        raise Undecodable(f"{value} is no number")
    return value


def _list(data: Any) -> list[Any]:
    if not isinstance(data, list):
        raise Undecodable(f"an array, not {type(data).__name__}")
    return data


def _tuple(args: tuple[Any, ...], data: Any) -> tuple[Any, ...]:
    items = _list(data)
    if len(args) == 2 and args[1] is Ellipsis:
        return tuple(_value(args[0], item) for item in items)
    if len(args) != len(items):
        raise Undecodable(f"{len(items)} items, not {len(args)}")
    return tuple(_value(arg, item) for arg, item in zip(args, items, strict=True))


def _set(args: tuple[Any, ...], data: Any) -> frozenset[Any]:
    return frozenset(_value(args[0], item) for item in _list(data))


def _mapping(args: tuple[Any, ...], data: Any) -> dict[Any, Any]:
    if not isinstance(data, dict):
        raise Undecodable(f"an object, not {type(data).__name__}")
    return {key: _value(args[1], item) for key, item in data.items()}


_GENERIC: dict[Any, Callable[[tuple[Any, ...], Any], Any]] = {
    tuple: _tuple,
    frozenset: _set,
    Mapping: _mapping,
    dict: _mapping,
}
