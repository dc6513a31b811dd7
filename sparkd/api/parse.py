"""Request bodies and queries to values; everything that does not fit is named, with what to write instead."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from sparkd.api.service import Invalid, NotFound, Operation
from sparkd.base.did_you_mean import closest
from sparkd.verbs import Option, Verb, options, verbs

MESSAGE_CHARS = 500
NODES = 64


def suggestion(word: str, known: Iterable[str], what: str) -> str:
    """What a person may have meant by `word`."""
    names = sorted(known)
    if near := closest(word, names):
        return f"did you mean {near}?"
    return f"{what}: {', '.join(names)}" if names else f"there is no {what.rstrip('s')}"


def known_name(name: str, known: Iterable[str], what: str) -> str:
    """`name`, or raises NotFound with the closest one."""
    names = set(known)
    if name not in names:
        raise NotFound(f"no {what} is called {name[:100]!r}", suggestion(name, names, f"{what}s"))
    return name


def operation(raw: bytes, verb: Verb, name: str, nodes: Iterable[str], by: str) -> Operation:
    """The body of a POST of the deployment `name`. An empty body means the defaults. Raises Invalid and NotFound."""
    known = dict(sorted(options().items()))
    body = _known(raw, ("message", *known, "to"))
    message = _message("message", body.get("message"))
    read: dict[str, Any] = {
        key: (_nodes if one.nodes else _flag)(key, body[key]) for key, one in known.items() if key in body
    }
    given = {key: value for key, value in read.items() if value}  # false, or no node: as if it were not there
    for key in given:
        if key not in (one.key for one in verb.takes):
            raise Invalid(*_misplaced(known[key], name))
        for node in given[key] if known[key].nodes else ():
            known_name(node, nodes, "node")
    if body.get("to") is not None:
        raise Invalid(f"`to` does not go with {verb.name}", "leave it out")
    return Operation(by=by, message=message, options=given)


def _misplaced(option: Option, name: str) -> tuple[str, str]:
    """What to say of an option that its verb does not take, and what to type instead."""
    takers = [one.name for one in verbs().values() if option.key in (taken.key for taken in one.takes)]
    value = " NODE" if option.nodes else ""
    return f"{option.key} goes with {' and '.join(takers)} only", f"sparkd ctl {takers[0]} {name} {option.flag}{value}"


def message(raw: bytes) -> str:
    """The `message` of a body that may hold nothing else. Raises Invalid."""
    return _message("message", _known(raw, ("message",)).get("message"))


def blessing(raw: bytes) -> tuple[int | None, str]:
    """`generation` (null: what runs now) and `note` of a body. Raises Invalid."""
    body = _known(raw, ("generation", "note"))
    generation = body.get("generation")
    if generation is not None and (type(generation) is not int or not 0 <= generation < 2**31):
        raise Invalid("generation cannot be used", "the number of a recorded generation, or null for what runs now")
    return generation, _message("note", body.get("note"))


def maintenance(raw: bytes) -> tuple[float | None, bool, str]:
    """`for_s` (null: the usual time), `end` and `message` of a body. Raises Invalid."""
    body = _known(raw, ("for_s", "end", "message"))
    for_s, end = body.get("for_s"), _flag("end", body.get("end", False))
    if for_s is not None and (type(for_s) not in (int, float) or not 0 < for_s < 1e9):
        raise Invalid("for_s cannot be used", "seconds, more than 0")
    if end and for_s is not None:
        raise Invalid("for_s does not go with end", "leave one of them out")
    return None if for_s is None else float(for_s), end, _message("message", body.get("message"))


def power_cycle(raw: bytes) -> tuple[bool, str]:
    """`force` and `message` of a body. Raises Invalid."""
    body = _known(raw, ("force", "message"))
    return _flag("force", body.get("force", False)), _message("message", body.get("message"))


def against(query: Mapping[str, str]) -> str | None:
    """What to compare with, as `ctl drift --against` takes it. Raises Invalid."""
    text = query.get("against")
    if text is None or text in ("known-good", "wanted") or (text.isascii() and text.isdecimal() and len(text) < 11):
        return text
    raise Invalid(f"against is {text[:40]!r}", "known-good, wanted, or the number of a recorded generation")


def whole_number(query: Mapping[str, str], key: str, default: int, least: int, most: int) -> int:
    """A number of a query, or raises Invalid."""
    text = query.get(key)
    if text is None:
        return default
    if not text.isascii() or not text.isdigit() or len(text) > 18 or not least <= int(text) <= most:
        raise Invalid(f"{key} is {text[:40]!r}", f"a whole number from {least} to {most}")
    return int(text)


def truth(query: Mapping[str, str], key: str) -> bool:
    """A yes or no of a query, no when it is not there; raises Invalid."""
    text = query.get(key, "false").lower()
    if text not in _TRUTH:
        raise Invalid(f"{key} is {text[:40]!r}", "true or false")
    return _TRUTH[text]


_TRUTH = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


def _known(raw: bytes, keys: tuple[str, ...]) -> dict[str, Any]:
    """A body with these keys and no other."""
    body = _object(raw, keys)
    for key in body:
        if key not in keys:
            raise Invalid(f"unknown key {key[:100]!r}", suggestion(key, keys, "keys"))
    return body


def _object(raw: bytes, keys: Iterable[str]) -> dict[str, Any]:
    if not raw.strip():
        return {}
    try:
        body = json.loads(raw, object_pairs_hook=_unique, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise Invalid(f"the body is no JSON: {str(error)[:100]}", f"an object with {', '.join(keys)}") from error
    if not isinstance(body, dict):
        raise Invalid(f"the body is a JSON {type(body).__name__}", f"an object with {', '.join(keys)}")
    return body


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise Invalid("a key is there twice", "write every key once")
    return found


def _no_constant(name: str) -> None:
    raise Invalid(f"{name} is no JSON", "leave it out")


def _message(key: str, value: object) -> str:
    if value is None:
        return ""
    if not isinstance(value, str) or len(value) > MESSAGE_CHARS or not (value.isprintable() or not value):
        raise Invalid(f"{key} cannot be used", f"one line of text of at most {MESSAGE_CHARS} characters")
    return value


def _nodes(key: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or len(value) > NODES or not all(isinstance(name, str) for name in value):
        raise Invalid(f"{key} cannot be used", 'an array of node names, such as ["spark2"]')
    return tuple(value)


def _flag(key: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise Invalid(f"{key} cannot be used", "true or false")
    return value
