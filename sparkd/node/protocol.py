"""One JSON line of a client -> a checked request; answers -> JSON lines. Protocol version 1."""

from __future__ import annotations

import json
from typing import Any, Mapping, NamedTuple

from sparkd.node import arguments
from sparkd.node.refusal import Refusal

PROTOCOL = 1
PROTOCOLS = (1,)
"""Versions this service understands; `hello` tells them, so that a head of the next version can still talk to it."""

MAX_LINE_BYTES = 1 << 20
MAX_ANSWER_BYTES = (8 << 20) - 1024
"""What the head reads of one line. In JSON a zero byte takes six: 4 MiB of a file may become 24."""
MAX_PROBES = 32
DEFAULT_DEADLINE_S = 5.0
MAX_DEADLINE_S = 300.0


class Ask(NamedTuple):
    """One probe of a request. `deadline_s` counts from the moment the request was read."""

    name: str
    args: Mapping[str, Any]
    deadline_s: float


class Request(NamedTuple):
    """A well-formed request; whether it is allowed is not decided here."""

    version: int
    owner: str
    op: str
    args: Mapping[str, Any]
    deadline_s: float
    probes: tuple[Ask, ...]


def parse(line: bytes) -> Request:
    """Raises Refusal(usage) with one sentence for anything that is not a well-formed request."""
    message = _load(line)
    deadline_s = _deadline(message, DEFAULT_DEADLINE_S)
    op = arguments.text(message, "op")
    return Request(
        version=arguments.integer(message, "v", 0, 1 << 31),
        owner=arguments.text(message, "owner", default=""),
        op=op,
        args=arguments.mapping(message, "args"),
        deadline_s=deadline_s,
        probes=_asks(message, deadline_s) if op == "probe" else (),
    )


def encode(answer: Mapping[str, Any]) -> bytes:
    return json.dumps(answer, separators=(",", ":")).encode("ascii") + b"\n"


def _load(line: bytes) -> Mapping[str, Any]:
    try:
        message = json.loads(line.decode("utf-8"), parse_int=short_integer)
    except (ValueError, RecursionError) as error:
        raise Refusal("usage", f"the request is not JSON: {error}") from None
    if not isinstance(message, dict):
        raise Refusal("usage", "the request is not a JSON object")
    return message


def short_integer(digits: str) -> int:
    """For `json.loads` of text that another program wrote. Raises ValueError."""
    # Python 3.9 turns a million digits into a number in quadratic time, with the interpreter locked.
    if len(digits) > 20:
        raise ValueError("a number has too many digits")
    return int(digits)


def _asks(message: Mapping[str, Any], deadline_s: float) -> tuple[Ask, ...]:
    entries = message.get("probes")
    if not isinstance(entries, list) or not 0 < len(entries) <= MAX_PROBES:
        raise Refusal("usage", f"probes must be a list of 1 to {MAX_PROBES} objects")
    asks = tuple(_ask(entry, deadline_s) for entry in entries)
    if len({ask.name for ask in asks}) < len(asks):
        raise Refusal("usage", "a probe is named twice: answers carry only the name")
    return asks


def _ask(entry: object, deadline_s: float) -> Ask:
    if not isinstance(entry, dict):
        raise Refusal("usage", "a probe must be an object with a name")
    return Ask(arguments.text(entry, "name"), arguments.mapping(entry, "args"), _deadline(entry, deadline_s))


def _deadline(message: Mapping[str, Any], default: float) -> float:
    return arguments.number(message, "deadline_s", 0.001, MAX_DEADLINE_S, default=default)
