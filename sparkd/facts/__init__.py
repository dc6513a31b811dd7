"""Raw text of a probe -> typed value. One file per fact, each a pure `parse` of what `sparkd.node.probes` writes, and its Fact:
the one place that says by which name it is asked for and how the answer is read.

A parser raises FactError for text that is empty where something must be, cut off, or not its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from sparkd.model.config import Cluster, Deployment
from sparkd.model.printed import real, whole

T_co = TypeVar("T_co", covariant=True)
Args = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Question:
    """What a fact is asked for: on `node`, for `deployment`."""

    cluster: Cluster
    deployment: Deployment
    node: str


def no_args(question: Question) -> Args | None:
    return None


@dataclass(frozen=True, slots=True)
class Fact(Generic[T_co]):
    """Something that a node can be asked: its name is that of the probe (`via` the node service) or of Docker's answer.

    `args` gives the arguments for checks and drift. The loop asks with arguments of its own, for several deployments at once.
    """

    name: str
    parse: Callable[[str], T_co]
    args: Callable[[Question], Args | None] = no_args
    via: str = "node"
    """node | docker"""


LONGEST_WHY = 300


class FactError(ValueError):
    """The text is not what this fact is read from. The message says in one clause what is wrong, for `Unknown.why`."""

    def __init__(self, why: str) -> None:
        super().__init__(why if len(why) <= LONGEST_WHY else f"{why[:LONGEST_WHY]}…")  # it quotes what was printed


def lines(text: str) -> Iterator[str]:
    """The lines of a whole text. Every record ends with a newline, so a text that does not was cut off.

    Only newlines separate: process titles may hold any other character that `splitlines` would break at.
    """
    if not text:
        return
    if not text.endswith("\n"):
        last = text.rpartition("\n")[2]
        raise FactError(f"cut off in {_shown(last)}")
    yield from text[:-1].split("\n")


def records(text: str, pattern: re.Pattern[str]) -> Iterator[re.Match[str]]:
    """Every line as a match of `pattern`; a text without any line has no records."""
    for line in lines(text):
        match = pattern.fullmatch(line)
        if match is None:
            raise FactError(f"unexpected line {_shown(line)}")
        yield match


def word(text: str) -> str:
    """The one line of a text that must hold exactly one."""
    found = list(lines(text))
    if len(found) != 1:
        raise FactError("empty" if not found else f"{len(found)} lines where one was expected")
    return found[0]


def count(text: str) -> int:
    value = whole(text)
    if value is None:
        raise FactError(f"{_shown(text)} is no whole number")
    return value


def figure(text: str) -> float:
    value = real(text)
    if value is None:
        raise FactError(f"{_shown(text)} is no number")
    return value


def _shown(line: str) -> str:
    return repr(line if len(line) <= 80 else line[:77] + "...")
