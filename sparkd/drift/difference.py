"""One difference: what, where, how bad, how that is known, what to do."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any


class Severity(StrEnum):
    """`breaks`: the group does not start, dies, hangs or answers wrongly. `slows`: it serves, with less speed or room.
    `unknown`: no source says, or it could not be read. `benign`: the same in effect."""

    BREAKS = "breaks"
    SLOWS = "slows"
    UNKNOWN = "unknown"
    BENIGN = "benign"

    @property
    def badness(self) -> int:
        return list(Severity)[::-1].index(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """`kind`: flag env image container file unit host rank. `rank` is None where all compared ranks share it.

    `known` and `live` are JSON values, None where that side has nothing. No secret is ever in one.
    """

    severity: Severity
    kind: str
    name: str
    known: Any = None
    live: Any = None
    rank: int | None = None
    node: str | None = None
    why: str | None = None
    fix: str | None = None

    def as_json(self) -> dict[str, Any]:
        """A finding of `compare --json` and `drift --json` (docs/interfaces.md)."""
        order = ("severity", "kind", "rank", "node", "name", "known", "live", "why", "fix")
        fields = asdict(self)
        return {key: str(fields[key]) if key == "severity" else fields[key] for key in order}
