"""Turns the daemon's JSON into typed values, or into one sentence about what is wrong with it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from types import UnionType
from typing import Any, TypeVar, get_args, get_origin

from sparkd.ctl.answers import Moment
from sparkd.ctl.errors import Unreached
from sparkd.ctl.text import clean

T = TypeVar("T")

SCHEMA = 1


def read(kind: type[T], answer: object, where: str = "the answer") -> T:
    """`answer` as a value of `kind`; raises Unreached naming the first place that does not fit."""
    value: T = _read(kind, answer, where)
    return value


def check_schema(answer: dict[str, Any]) -> None:
    """Raises Unreached when the answer is written in another schema than the one that this client reads."""
    found = answer.get("schema", SCHEMA)
    if found != SCHEMA:
        raise Unreached(
            f"the daemon answers in schema {found!r}, this client reads schema {SCHEMA}",
            "use the sparkd command of the version that runs as the daemon (sparkd version)",
        )


def _read(kind: Any, value: object, where: str) -> Any:
    if isinstance(kind, UnionType):
        inner = next(option for option in get_args(kind) if option is not type(None))
        return None if value is None else _read(inner, value, where)
    if get_origin(kind) is tuple:
        items = _plain(list, value, where)
        return tuple(_read(get_args(kind)[0], item, f"{where}[{index}]") for index, item in enumerate(items))
    return _READERS.get(kind, _record)(kind, value, where)


def _record(kind: Any, value: object, where: str) -> Any:
    known = _plain(dict, value, where)
    fields = {}
    for field, inner in kind.__annotations__.items():
        key = field.rstrip("_")
        if key in known:
            fields[field] = _read(inner, known[key], f"{where}.{key}")
        elif field not in kind._field_defaults:
            raise _garbled(f"{where} has no {key!r}")
    return kind(**fields)


def _plain(kind: Any, value: object, where: str) -> Any:
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise _garbled(f"{where} should be a {kind.__name__}, not {type(value).__name__}")
    return value


def _text(kind: Any, value: object, where: str) -> str:
    """Without what a terminal obeys: the daemon's sentences quote engines, containers and nodes. `--json` is left as it is."""
    text: str = _plain(kind, value, where)
    return text if text.isprintable() else "\n".join(map(clean, text.split("\n")))


def _number(_kind: Any, value: object, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _garbled(f"{where} should be a number, not {type(value).__name__}")
    return float(value)


def _moment(_kind: Any, value: object, where: str) -> Moment:
    try:
        return Moment(datetime.fromisoformat(_plain(str, value, where)).timestamp())
    except ValueError:
        raise _garbled(f"{where} is no time: {value!r}") from None


def _garbled(what: str) -> Unreached:
    return Unreached(f"the daemon's answer makes no sense: {what}", "is the daemon of the same version? sparkd version")


_READERS: dict[Any, Callable[[Any, object, str], Any]] = {
    str: _text,
    int: _plain,
    bool: _plain,
    float: _number,
    Moment: _moment,
    object: lambda _kind, value, _where: value,
}
