"""What the checks found, as frozen values: one finding per check and node, with evidence and fix."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from sparkd.model.decision import ASK_ENGINE, STARTING, FailureClass, State


class Level(StrEnum):
    """How much a check's trouble matters, by its own nature or as `checks:` in the configuration says."""

    OFF = "off"
    WARN = "warn"
    FAIL = "fail"


class Status(StrEnum):
    OK = "ok"
    WARN = "warn"
    FAIL = "fail"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One row of `ctl check`. `node` is None for what is wrong with the deployment itself, on whatever node."""

    code: str
    """The stable code of the check: `ghost-path`, `memory` …"""
    severity: Level
    """What the check's trouble counts as: warn or fail."""
    status: Status
    node: str | None = None
    rank: int | None = None
    text: str = ""
    evidence: tuple[str, ...] = ()
    """What was seen, word for word where it can be."""
    fix: str = ""
    cls: FailureClass = FailureClass.PERMANENT
    """How a start that this stops is held (DESIGN 7)."""
    not_yet: bool = False
    """Shortly after a node's boot this is *not yet* there, never a failure (rule 7)."""
    passing: bool = False
    """Sparkd ends it itself before a start, and then it is no more."""

    @property
    def fact(self) -> str:
        """What a hold names, and what must pass for it to heal."""
        return f"check:{self.node or ''}:{self.code}"


def about(state: State) -> tuple[int, bool]:
    """Which generation a run of checks is of that begins now, and whether of its ranks."""
    return state.generation, state.phase in ASK_ENGINE


@dataclass(frozen=True, slots=True)
class Checked:
    """One run of the checks of a deployment: when it began (daemon's clock), how long it took, what it found.

    It is evidence of one generation (rule 4): of ranks that ran, or (`running` False) of what the start after it would find.
    """

    at: float
    seconds: float
    findings: tuple[Finding, ...]
    generation: int | None = None
    """None: run without a daemon, so that no generation exists."""
    running: bool = False

    def current(self, state: State) -> Checked | None:
        """The findings that are still true in this state; None where all of them are about something that is gone.

        While ranks are being brought up, the checks before that start count on, but for what it ended first.
        """
        if self.generation is None or (self.generation, self.running) == about(state):
            return self
        if state.phase not in STARTING or self.running:
            return None
        return replace(self, findings=tuple(one for one in self.findings if not one.passing))

    @property
    def failed(self) -> tuple[Finding, ...]:
        return tuple(one for one in self.findings if one.status is Status.FAIL)

    @property
    def counts(self) -> Mapping[str, int]:
        """Status -> how many, every status there."""
        found = Counter(one.status.value for one in self.findings)
        return {status.value: found[status.value] for status in Status}
