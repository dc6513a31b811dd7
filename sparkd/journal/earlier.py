"""States as earlier versions wrote them, in the words of this one. Pure."""

from __future__ import annotations

from typing import Any

CODES = {"boot": "rebooted", "operator": "operator"}
"""Cause of a start -> the outage's, where no failure tells."""


def state(row: Any) -> Any:
    """Before there were records of outages, a state only had when the one that goes on began (`down_since`)."""
    if not isinstance(row, dict) or not _number(row.get("down_since")) or row.get("outage") is not None:
        return row
    failure = row.get("failure")
    told = failure if isinstance(failure, dict) and failure.get("outage_s") is None else {}
    since, wall, began = row.get("since"), row.get("since_wall"), row["down_since"]
    outage = {
        "began": began,
        "began_wall": wall - (since - began) if _number(since) and _number(wall) else 0.0,
        "generation": told.get("generation", row.get("generation", 0)),
        "code": told.get("signature") or CODES.get(str(row.get("cause")), "unknown"),
        "text": told.get("text") or "an earlier sparkd did not write down why",
        "cls": told.get("cls", ""),
    }
    return {**row, "outage": outage}


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
