"""`hashes` probe -> how far the hashing of a model's weights is. What came of it is read by the `model` probe."""

from __future__ import annotations

from dataclasses import dataclass

from sparkd.facts import Fact, FactError, count, lines
from sparkd.facts.model import ask


@dataclass(frozen=True, slots=True)
class Hashed:
    """How far the hashing of the weights is, in bytes; `unread` files could not be read."""

    done: int
    total: int
    unread: tuple[str, ...]


def parse(text: str) -> Hashed:
    said = [line.partition(" ")[::2] for line in lines(text)]
    progress = [rest.split() for name, rest in said if name == "progress"]
    if len(progress) != 1 or len(progress[0]) != 2:
        raise FactError("no progress in it")
    done, total = map(count, progress[0])
    return Hashed(done, total, tuple(rest for name, rest in said if name == "unread"))


HASHES: Fact[Hashed] = Fact("hashes", parse, ask)
