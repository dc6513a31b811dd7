"""Findings and the table of checks -> the JSON of `ctl check`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sparkd.checks.shared.scene import Check
from sparkd.model.check import Checked, Finding
from sparkd.model.words import rfc3339

Json = dict[str, Any]


def report(deployment: str, checked: Checked, wall: float) -> Json:
    """`wall`: Unix time at which this run began."""
    return {
        "schema": 1,
        "deployment": deployment,
        "at": rfc3339(wall),
        "seconds": round(checked.seconds, 3),
        "checks": [_row(one) for one in checked.findings],
    }


def listing(checks: Iterable[Check]) -> Json:
    return {
        "schema": 1,
        "checks": [
            {
                "code": check.code,
                "severity": str(check.level),
                "description": check.description,
                "needs": [fact.name for fact in check.needs],
            }
            for check in checks
        ],
    }


def _row(one: Finding) -> Json:
    return {
        "code": one.code,
        "severity": str(one.severity),
        "status": str(one.status),
        "node": one.node,
        "rank": one.rank,
        "text": one.text,
        "evidence": list(one.evidence),
        "fix": one.fix,
    }
