"""One line of history, and its JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened. `at` is Unix time; `id` counts up and is given by the journal (0 before that)."""

    at: float
    kind: str
    sentence: str
    deployment: str = ""
    generation: int = 0
    reason: str = ""
    cls: str = ""
    signature: str = ""
    by: str = ""
    message: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)
    id: int = 0


def as_json(event: Event) -> dict[str, Any]:
    """One entry of `ctl history --json`; times to the millisecond, for what happens in one second has an order too."""
    at = datetime.fromtimestamp(min(max(event.at, 0.0), 253402300799.0), UTC)
    return {
        "schema": 1,
        "id": event.id,
        "at": at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "deployment": event.deployment or None,
        "generation": event.generation or None,
        "kind": event.kind,
        "sentence": event.sentence,
        "reason": event.reason or None,
        "class": event.cls or None,
        "signature": event.signature or None,
        "by": event.by or None,
        "message": event.message or None,
        "data": dict(event.data),
    }
