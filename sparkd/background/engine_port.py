"""What goes on beside the loop may ask of running engines, although only `sparkd.act` sends requests that make one work."""

from __future__ import annotations

from typing import Protocol

from sparkd.model.snapshot import Canary


class EnginePort(Protocol):
    """Two requests to a running engine. Neither is an action: it changes nothing, and no verdict rests on how it ends. So it
    may be under way beside the one action of its deployment (docs/architecture.md, "One action in flight")."""

    async def key(self, deployment: str) -> str | None:
        """The bearer token that its engine wants; None where it wants none, or where the token cannot be read."""

    async def measure(self, deployment: str, generation: int, timeout_s: float) -> Canary:
        """One completion for its rate alone. A failed one is a value. Raises ActionFailed without a usable key."""
