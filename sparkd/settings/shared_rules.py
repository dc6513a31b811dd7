"""Rules that sparkd.yaml and deployment files share: values of the right type -> what is still wrong with them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from sparkd.base.did_you_mean import closest
from sparkd.model.config import Policy
from sparkd.model.size import parse_size
from sparkd.settings.shape import Fault
from sparkd.settings.tree import Path

PORT = (1, 65535)
RANGES = {"port": PORT, "master_port": PORT, "jitter": (0, 1)}
_DURATION_PAIRS = (("suspect_after", "stalled_after"), ("stalled_after", "busy_after"))
MOST = 1_000_000_000
"""Of any duration or count: 31 years. Beyond it clocks and C libraries overflow."""
CHECK_LEVELS = ("off", "warn", "fail")
WORDS: dict[Path, tuple[str, ...]] = {
    ("policy", "drift"): ("off", "warn", "refuse"),
    ("policy", "on_nonsense"): ("tell", "restart-once"),
    ("cleanup", "remove_strays"): ("own", "holders", "never"),
    ("hardware",): ("gb10", "gpu", "cpu"),
    ("warmup", "api"): ("chat", "completions"),
    ("memory", "gate"): ("auto", "off"),
    ("memory", "reads"): ("free", "available"),
    ("memory", "guard", "act"): ("warn", "stop"),
    ("container", "network"): ("host",),
    ("container", "ipc"): ("host", "private"),
    ("container", "gpus"): ("all",),
}
"""Keys that take one of a few words."""


def choice(path: Path, value: object, allowed: Iterable[str]) -> Iterator[Fault]:
    """One of a few words."""
    allowed = tuple(allowed)
    if value not in allowed:
        meant = closest(str(value), allowed) or " or ".join(allowed)
        yield Fault(path, f"`{value}` means nothing here", f"write {meant}")


def word(path: Path, value: object) -> Iterator[Fault]:
    """One of the key's own few words."""
    yield from choice(path, value, WORDS[path])


def name(path: Path, value: str, pattern: str, what: str) -> Iterator[Fault]:
    if not re.fullmatch(pattern, value):
        yield Fault(path, f"`{value}` is no {what}", _NAME_FIX)


NODE_NAME = r"[A-Za-z0-9][A-Za-z0-9.-]{0,62}"
SMALL_NAME = r"[a-z0-9][a-z0-9-]{0,40}"
_NAME_FIX = "use small letters, digits and dashes, beginning with a letter or digit, at most 41"


def absolute(path: Path, value: str | None) -> Iterator[Fault]:
    """A path that means the same on every node and for every user."""
    if value is None:
        return
    if value.startswith("~"):
        yield Fault(path, f"`{value}`: which node's home?", "write the path from `/`")
    elif "$" in value:
        yield Fault(path, f"`{value}`: no shell expands it", "write the path from `/`")
    elif not value.startswith("/"):
        yield Fault(path, f"`{value}` is relative: to which node's folder?", "write the path from `/`")
    elif ".." in value.split("/"):
        yield Fault(path, f"`{value}` goes through `..`", "write the path without it")


def literal(path: Path, value: object) -> Iterator[Fault]:
    """A value that is handed on as it is, though it looks as if a shell should expand it."""
    if isinstance(value, str) and re.match(r"~(/|$)|\$\{?HOME\b", value):
        yield Fault(path, f"`{value}` would be passed as it is: no shell expands it", "write the path from `/`")


def size(path: Path, value: str | None) -> Iterator[Fault]:
    if value is None:
        return
    try:
        parse_size(value)
    except ValueError:
        yield Fault(path, f"`{value}` is no size", "write a number with a unit, like 64g or 512MiB")


def numbers(value: Any, path: Path = ()) -> Iterator[Fault]:
    """Every number of a configuration is more than nothing, ports and fractions have their ranges."""
    if is_dataclass(value):
        for field in fields(value):
            yield from numbers(getattr(value, field.name), (*path, field.name))
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from numbers(inner, (*path, key)) if is_dataclass(inner) else ()
    elif isinstance(value, tuple):
        for index, inner in enumerate(value):
            yield from numbers(inner, (*path, index)) if not isinstance(inner, Mapping) else ()
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield from _number(path, value)


def _number(path: Path, value: float) -> Iterator[Fault]:
    low, high = RANGES.get(str(path[-1]), (None, None))
    if low is not None and high is not None:
        if not low <= value <= high:
            yield Fault(path, f"{value:g} is out of range", f"write a number from {low} to {high}")
    elif value <= 0:
        yield Fault(path, f"{value:g} is not more than 0", "write a number above 0")
    elif value > MOST:
        yield Fault(path, f"{value:g} is more than anything here can mean", f"write a number up to {MOST}")


def policy(path: Path, value: Policy) -> Iterator[Fault]:
    for key in ("drift", "on_nonsense"):
        yield from word((*path, key), getattr(value, key))
    for sooner, later in _DURATION_PAIRS:
        first, second = getattr(value, sooner), getattr(value, later)
        if first > second > 0:
            yield Fault((*path, sooner), f"{first:g} s is after `{later}` ({second:g} s)", f"write at most {second:g}")
    if value.backoff.first > value.backoff.max > 0:
        found = f"{value.backoff.first:g} s is more than `max` ({value.backoff.max:g} s)"
        yield Fault((*path, "backoff", "first"), found, f"write at most {value.backoff.max:g}")


def checks(path: Path, values: Mapping[str, str]) -> Iterator[Fault]:
    """A level for a check that does not exist would be silently without effect."""
    if not values:
        return
    # Importing the checks is a third of the time that reading a configuration takes, and few files name one.
    from sparkd.checks import all_checks

    known = [check.code for check in all_checks()]
    for code, level in values.items():
        if code not in known:
            near = closest(code, known)
            fix = f"did you mean `{near}`?" if near else "sparkd check --list shows them"
            yield Fault((*path, code), f"there is no check `{code}`", fix)
        yield from choice((*path, code), level, CHECK_LEVELS)


def keys(path: Path, value: Mapping[str, Any], known: Iterable[str], suggest: Callable[..., str]) -> Iterator[Fault]:
    """Unknown keys of a mapping that has no dataclass of its own."""
    known = tuple(known)
    for key in value:
        if key not in known:
            yield Fault((*path, key), f"unknown key `{key}`", suggest(key, known))


def duplicates(named: Iterable[tuple[Path, str | None]], what: str) -> Iterator[Fault]:
    """The same value at two nodes, where each node must have its own."""
    first: dict[str, Path] = {}
    for path, value in named:
        if value is not None and value in first:
            yield Fault(path, f"`{value}` is already the {what} of `{first[value][-2]}`", "every node has its own")
        elif value is not None:
            first[value] = path
