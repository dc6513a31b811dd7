"""One comparison of a deployment with what it was, or should be -> what people, scripts and metrics are told of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sparkd.drift.difference import Difference, Severity

EVENT, GONE = "drift", "drift-gone"
"""Kind of the event, and its reason where nothing differs any more; otherwise the reason ends with the severity."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """`against` and `live` say what was compared; `at` is on the daemon's clock, `seconds` how long it took."""

    against: str
    live: str
    at: float
    seconds: float
    findings: tuple[Difference, ...]
    unread: Mapping[str, str] = field(default_factory=dict)
    """Node -> why what runs there is not known; its ranks were not compared."""
    absent: tuple[int, ...] = ()
    """Ranks of which nothing runs and nothing is left: compared is what the next start would make of them."""
    ended: tuple[int, ...] = ()
    asleep: tuple[int, ...] = ()
    """Ranks whose containers run without an engine in them: their flags are not known."""
    not_compared: tuple[str, ...] = ()
    flags_by: str = ""
    """The source of the flag table: the image's own parser, or sparkd's table and why; empty where there is none."""

    @property
    def counts(self) -> dict[str, int]:
        """Severity -> how many, every severity there."""
        found = Counter(str(one.severity) for one in self.findings)
        return {str(severity): found[str(severity)] for severity in Severity}

    @property
    def serious(self) -> tuple[Difference, ...]:
        """Above benign, worst first."""
        return tuple(one for one in self.findings if one.severity is not Severity.BENIGN)

    def as_json(self, deployment: str, at: str) -> dict[str, Any]:
        """`at` is RFC 3339."""
        return {
            "schema": 1,
            "deployment": deployment,
            "at": at,
            "seconds": round(self.seconds, 3),
            "against": self.against,
            "live": self.live,
            "findings": [one.as_json() for one in self.findings],
            "unread": dict(self.unread),
            "absent": list(self.absent),
            "ended": list(self.ended),
            "asleep": list(self.asleep),
            "not_compared": list(self.not_compared),
            "flags_by": self.flags_by or None,
        }


def named(findings: tuple[Difference, ...], most: int = 6) -> str:
    """`--max-num-seqs, VLLM_HOST_IP on rank 1 and 3 more`."""
    names = [one.name if one.rank is None else f"{one.name} on rank {one.rank}" for one in findings]
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
