"""A probe that sparkd does not have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def probe(args: Mapping[str, Any], deadline_s: float) -> str:
    return f"high {args['at']}\n"
