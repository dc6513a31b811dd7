"""The last comparison of what runs -> an event where what differs has become another; the webhook is told of these."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from sparkd.drift.report import EVENT, GONE, Drift, named
from sparkd.journal import Event
from sparkd.model.config import Deployment


@dataclass(slots=True)
class Telling:
    happened: Callable[[str, str, str, str], Awaitable[None]]
    """Writes deployment, kind, sentence, reason down."""
    last: Callable[[str], Awaitable[Event | None]]
    """What was told of a deployment last, by whichever sparkd: a restart of sparkd is no news."""
    _told: dict[str, tuple[int, str]] = field(default_factory=dict)
    """Deployment -> generation, and the sentence about it."""

    async def tell(self, deployment: Deployment, generation: int, found: Drift) -> None:
        """Nothing where the same was told, where a node was unread, or by `policy: {drift: off}`."""
        name = deployment.name
        if deployment.policy.drift == "off" or found.unread:
            return
        if name not in self._told:
            event = await self.last(name)
            self._told.setdefault(name, (event.generation, event.sentence) if event is not None else (0, ""))
        of, sentence = self._told[name]
        if found.serious:
            worst = found.serious[0].severity
            text, reason = f"differs from {found.against} in: {named(found.serious)} ({worst})", f"{EVENT}-{worst}"
        else:
            text, reason = f"differs from {found.against} in nothing any more", GONE
        if (generation, text) == (of, sentence) or (reason == GONE and of != generation):
            return
        self._told[name] = generation, text
        await self.happened(name, EVENT, text, reason)

    def forget(self, name: str) -> None:
        self._told.pop(name, None)
