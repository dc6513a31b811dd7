"""What is asked of running engines beside the loop: see `sparkd.background.engine_port`, which this fills."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sparkd.act.canary import key, measure
from sparkd.act.hands import ActionFailed, Hands
from sparkd.model.snapshot import Canary


@dataclass(frozen=True, slots=True)
class AskedEngines:
    hands: Callable[[str], Hands]
    """Deployment -> what its actions work with."""

    async def key(self, deployment: str) -> str | None:
        try:
            return await key(self.hands(deployment))
        except ActionFailed:
            return None  # then the page that wants it says nothing

    async def measure(self, deployment: str, generation: int, timeout_s: float) -> Canary:
        return await measure(self.hands(deployment), generation, timeout_s)
