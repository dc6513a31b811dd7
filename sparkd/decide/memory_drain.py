"""Memory that drains while nobody asks anything: said hours before the guard would be reached (vllm#56824, F26)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from sparkd.decide.case import duration
from sparkd.decide.memory_low import available
from sparkd.decide.memory_taker import Growth, grower
from sparkd.model.memory_trail import MemoryEpisode, MemoryLook, MemoryTrail
from sparkd.model.size import spoken
from sparkd.model.snapshot import NodeView

WINDOWS = (4, 7, 13)
"""In looks, which are ten minutes apart: half an hour, one hour, two hours."""
LEAST_BYTES = 512 << 20
"""The kernel's own use of an idle node differs by some hundred MiB over hours."""
STEADY = 2
"""Every step of a drain is at least this part of the mean one: what is taken once, and then kept, is no drain."""
WITHIN_S = 86400.0
"""What reaches the guard later than this is no trend yet."""
IDLE_TOKENS_PER_S = 2.0
"""Canaries and the requests that are sent for their rate move less; one person who asks moves ten times as much."""


@dataclass(frozen=True, slots=True)
class Drain:
    """A node that loses memory: bytes in seconds, and when no more than `below` would be left."""

    node: str
    available: int
    fell: int
    over_s: float
    below: int
    left_s: float
    growth: Growth | None

    @property
    def text(self) -> str:
        lost = f"{self.node} loses memory while idle: {spoken(self.fell)} in {duration(self.over_s)}"
        left = (
            f"{spoken(self.available)} are available, and {spoken(self.below)} in {duration(self.left_s)} at this pace"
        )
        return f"{lost}; {left}" + (f"; most of that went to {self.growth.words}" if self.growth is not None else "")


def drain(node: str, trail: MemoryTrail, view: NodeView, below: int) -> Drain | None:
    """A fall that went on, step by step, over one of the windows, and would reach the guard within a day."""
    looks = _idle(trail.slow)
    for size in WINDOWS:
        window = looks[-size:]
        if len(window) == size and (fell := _steady_fall(window)) >= LEAST_BYTES:
            over_s, left = window[-1].at - window[0].at, available(window[-1])
            left_s = max(0, left - below) / fell * over_s
            if left_s <= WITHIN_S:
                return Drain(node, left, fell, over_s, below, left_s, grower(window, view))
    return None


def stopped(episode: MemoryEpisode, trail: MemoryTrail) -> bool:
    """The memory is back, or has not become less for an hour. What is not known ends nothing."""
    known = [one for one in trail.looks if one.memory is not None]
    if known and available(known[-1]) >= episode.available + LEAST_BYTES:
        return True
    hour = trail.slow[-WINDOWS[1] :]
    return len(hour) == WINDOWS[1] and available(hour[0]) - available(hour[-1]) < LEAST_BYTES // 4


def _idle(looks: Sequence[MemoryLook]) -> list[MemoryLook]:
    """The last of them, as far back as memory was read and no engine of that node did work in between."""
    found: list[MemoryLook] = []
    for look in reversed(looks):
        if look.memory is None or (found and _worked(look, found[-1])):
            break
        found.append(look)
    return found[::-1]


def _worked(before: MemoryLook, after: MemoryLook) -> bool:
    """Also where that is not known: an engine that could not be asked may have worked."""
    if before.tokens is None or after.tokens is None:
        return True
    return not 0 <= after.tokens - before.tokens <= IDLE_TOKENS_PER_S * (after.at - before.at)


def _steady_fall(window: Sequence[MemoryLook]) -> int:
    """Bytes, 0 where one of the steps is no part of a steady fall."""
    fell = available(window[0]) - available(window[-1])
    mean = fell / (len(window) - 1)
    return fell if all(step * STEADY >= mean for step in _steps(window)) else 0


def _steps(window: Sequence[MemoryLook]) -> Iterator[int]:
    for before, after in pairwise(window):
        yield available(before) - available(after)
