"""What an engine's log says when something is wrong, in words that decisions understand whatever engine it is."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class FindingKind(StrEnum):
    """What a finding means for the group."""

    FAULT = "fault"
    """The engine cannot go on. By itself it proves nothing, for it is also logged at an ordinary end; while nothing moves it is a
    crash."""
    PROCESS_LOST = "process-lost"
    """One of its processes ended. Whether its rank has, the runtime knows."""
    ENDING = "ending"
    """It was asked to end."""
    HINT = "hint"
    """Normal at times, and worth a word when something is wrong."""


@dataclass(frozen=True, slots=True)
class LogFinding:
    """`name` is the engine's own word for it, `rank` the one whose log has it."""

    name: str
    kind: FindingKind
    rank: int = 0

    def __str__(self) -> str:
        return f"{self.rank}:{self.name}"
