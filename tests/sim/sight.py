"""What sparkd could see, kept beside it and from nothing of its own: no verdict on canaries comes from a gap."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from sparkd.model.config import Policy
from sparkd.model.snapshot import Canary, EngineMetrics, Outcome, Snapshot


@dataclass(slots=True)
class Sight:
    """What sparkd could see, kept beside it and by nothing of its own: the gaps, and the canaries that failed since."""

    looked_at: float | None = None
    blind: bool = False
    blind_until: float | None = None
    """When the last gap ended; None once an answer or a moving token came after it."""
    tokens: float | None = None
    failed: list[float] = field(default_factory=list)
    """When the canaries were sent that were sent after the gap and failed."""

    def look(self, snapshot: Snapshot, outcome: Outcome | None, now: float, period: float) -> None:
        canary = outcome.value if outcome is not None and isinstance(outcome.value, Canary) else None
        counted = [view.metrics for view in snapshot.engines.values()]
        moved = [one.generation_tokens for one in counted if isinstance(one, EngineMetrics)]
        if (canary is not None and canary.ok) or (moved and self.tokens is not None and moved[0] != self.tokens):
            self.blind_until, self.failed = None, []
        self.tokens = moved[0] if moved else self.tokens
        late = self.looked_at is not None and now - self.looked_at > 3 * period
        blind = any(view.unread is not None for view in snapshot.nodes.values())
        if late or blind or self.blind:
            self.blind_until, self.failed = now, []
        self.looked_at, self.blind = now, blind
        if canary is not None and not canary.ok and (self.blind_until is None or canary.sent_at >= self.blind_until):
            self.failed.append(canary.sent_at)

    def check(self, signature: str, policy: Policy) -> None:
        if signature not in ON_CANARIES or self.blind_until is None:
            return
        limit = ON_CANARIES[signature](policy)
        assert len(self.failed) >= 2, f"{signature} although no two canaries were sent after the gap and failed"
        assert self.failed[-1] - self.failed[0] >= limit / 2, f"{signature} over canaries sent at {self.failed}"


ON_CANARIES: dict[str, Callable[[Policy], float]] = {
    "stalled": lambda policy: policy.stalled_after,
    "busy": lambda policy: policy.busy_after,
    "rank-stuck": lambda policy: policy.stuck_after,
    "fabric-silent": lambda policy: policy.silent_after,
    "worker-exception": lambda policy: policy.dead_after,
}
"""The verdicts that rest on canaries, and their time."""
