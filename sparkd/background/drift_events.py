"""The last comparison of what runs -> an event where the differences have changed; the webhook gets these too."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from sparkd.drift.report import EVENT, GONE, Drift, named
from sparkd.journal import Event
from sparkd.model.config import Deployment


@dataclass(slots=True)
class DriftEvents:
    happened: Callable[[str, str, str, str], Awaitable[None]]
    """Writes deployment, kind, sentence, reason down."""
    last: Callable[[str], Awaitable[Event | None]]
    """The last event about drift of a deployment, also from before a restart of sparkd: a restart repeats none."""
    _written: dict[str, tuple[int, str]] = field(default_factory=dict)
    """Deployment -> generation, and the sentence about it."""

    async def write(self, deployment: Deployment, generation: int, found: Drift) -> None:
        """Writes no event where the last one says the same, where a node was unread, or by `policy: {drift: off}`."""
        name = deployment.name
        if deployment.policy.drift == "off" or found.unread:
            return
        if name not in self._written:
            event = await self.last(name)
            self._written.setdefault(name, (event.generation, event.sentence) if event is not None else (0, ""))
        of, sentence = self._written[name]
        if found.serious:
            worst = found.serious[0].severity
            text, reason = f"differs from {found.against} in: {named(found.serious)} ({worst})", f"{EVENT}-{worst}"
        else:
            text, reason = f"differs from {found.against} in nothing any more", GONE
        if (generation, text) == (of, sentence) or (reason == GONE and of != generation):
            return
        self._written[name] = generation, text
        await self.happened(name, EVENT, text, reason)

    def forget(self, name: str) -> None:
        self._written.pop(name, None)
