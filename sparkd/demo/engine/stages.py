"""Turns the start-up time into stages that can be waited through, interrupted and made to fail."""

from __future__ import annotations

import select
from collections.abc import Sequence
from typing import Any

from .faults import Faults
from .options import Sim

# Share of the start each stage takes, after the proportions of a healthy real start (evidence 01, 12c).
SHARES = {"imports": 0.15, "config": 0.15, "core": 0.2, "group": 0.2, "weights": 0.15, "kvcache": 0.1, "ready": 0.05}


class StageFailed(Exception):
    """The start ends here. The text is the root cause as the failing process logs it."""


def duration_s(stage: str, sim: Sim, faults: Faults) -> float:
    """How long a stage lasts; raises StageFailed where the control file says so."""
    now = faults.now()
    if now.get("die_at_stage") == stage:
        raise StageFailed(f"RuntimeError: simulated failure at stage {stage}")
    return SHARES[stage] * float(now.get("start_s", sim.start_s))


def exit_code(faults: Faults) -> int:
    """The status a failed start ends with: vLLM's is 1."""
    now = faults.now()
    return int(now.get("code", 1)) if "die_at_stage" in now else 1


def readable(sources: Sequence[Any], timeout_s: float | None = None) -> list[Any]:
    """The sources with something to read, after at most `timeout_s`; none when the time is over."""
    return select.select(sources, [], [], None if timeout_s is None else max(timeout_s, 0.0))[0]
