"""When a node is asked how hard it works, and what its last two answers say: nvidia-smi costs ten times a whole look."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sparkd.model.config import Deployment
from sparkd.model.decision import Phase, State
from sparkd.model.effort import Effort, Efforts, GpuLoad
from sparkd.model.snapshot import Unknown

SUSPICIOUS_S = 15.0
"""From one look to the next while something is suspicious."""
LEARNING_S = 60.0
"""The same while nobody asks the engine, until it is known what the node draws then."""
KNOWN_S = 600.0
"""The same once it is known, and where it cannot be: no nvidia-smi, or one that says no power."""
PATIENCE_S = 2.0
"""For both probes of one look; an nvidia-smi that is mute must not cost the loop its whole deadline."""
SHORTEST_S, LONGEST_S = 1.0, 60.0
"""Between two looks that tell a rate: over more than that what was done before the trouble is in it."""


@dataclass(slots=True)
class EffortLook:
    """Remembers of one node when it was asked, and its last figures."""

    node: str
    _asked_at: float | None = None
    _last: Effort | None = None
    _no_power: bool = False

    def due(self, deployments: Sequence[Deployment], states: Mapping[str, State], now: float) -> bool:
        pauses = [pause for one in deployments if (pause := self._pause(one, states[one.name], now)) is not None]
        return bool(pauses) and (self._asked_at is None or now - self._asked_at >= min(pauses))

    def _pause(self, deployment: Deployment, state: State, now: float) -> float | None:
        """None: there is nothing to ask for it."""
        if state.phase is not Phase.SERVE:
            return None
        if state.watch.suspicious:
            return SUSPICIOUS_S
        moved = state.watch.tokens_at if state.watch.tokens_at is not None else state.since
        quiet = min(LEARNING_S, deployment.health.canary_after / 2)  # canaries move tokens too
        if deployment.hardware == "cpu" or now - moved < quiet:
            return None
        return KNOWN_S if self._no_power or self.node in dict(state.waiting_w) else LEARNING_S

    def asked(self, now: float) -> None:
        self._asked_at = now

    def efforts(self, found: Effort | Unknown) -> Efforts | Unknown | None:
        """Both looks; None where there is none before that tells a rate."""
        if isinstance(found, Unknown):
            self._last = None
            return found
        before, self._last = self._last, found
        if before is None or not SHORTEST_S <= found.at_s - before.at_s <= LONGEST_S:
            return None
        return Efforts(before, found)

    def load(self, found: GpuLoad | Unknown) -> GpuLoad | Unknown:
        self._no_power = isinstance(found, Unknown) or found.power_w is None
        return found
