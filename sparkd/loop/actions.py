"""Decisions -> the actions in flight, at most one per deployment, and what came of them for the next look."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field

import anyio
from anyio.abc import TaskGroup

from sparkd.act.hands import Hands
from sparkd.act.runner import perform
from sparkd.base import clock
from sparkd.base.guarded import guarded
from sparkd.model.action import INTERRUPTIBLE, Action
from sparkd.model.decision import Decision, Phase
from sparkd.model.failure_code import FailureCode
from sparkd.model.snapshot import Outcome


@dataclass(frozen=True, slots=True)
class Deed:
    """An action in flight. `started_at` is on the daemon's clock."""

    action: Action
    started_at: float
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope, compare=False)


@dataclass(slots=True)
class InFlight:
    """The loop starts actions here and never waits for one. Iterating gives the deployments that have one."""

    hands: Callable[[str], Hands]
    """Deployment -> what its action works with, asked when it starts."""
    ended: Callable[[str, float, Outcome], Awaitable[None]]
    """Called with deployment, start and outcome of every action that ran to its end."""
    wake: Callable[[], None]
    _deeds: dict[str, Deed] = field(default_factory=dict)
    _outcomes: dict[str, Outcome] = field(default_factory=dict)

    def __iter__(self) -> Iterator[str]:
        return iter(self._deeds)

    def __contains__(self, name: object) -> bool:
        return name in self._deeds

    def __len__(self) -> int:
        return len(self._deeds)

    def actions(self) -> dict[str, Action]:
        return {name: deed.action for name, deed in self._deeds.items()}

    def binds(self, name: str) -> bool:
        """True while nothing can be decided for this deployment: its action is one that is never given up half-way."""
        return name in self._deeds and not isinstance(self._deeds[name].action, INTERRUPTIBLE)

    def outcomes(self, until: float) -> dict[str, Outcome]:
        """What had ended by then. A look that began earlier may show less than what was done."""
        return {name: one for name, one in self._outcomes.items() if one.ended_at <= until}

    def unseen(self, name: str, shown: Mapping[str, Outcome]) -> bool:
        """True when an action of this deployment ended after `shown` was taken."""
        return name in self._outcomes and name not in shown

    def forget(self, name: str) -> None:
        """Drop the outcome: it has been decided on, or its deployment is gone."""
        self._outcomes.pop(name, None)

    def follow(self, group: TaskGroup, name: str, decision: Decision) -> None:
        """Start what was decided; give up an interruptible action when another is wanted, or none."""
        deed, action = self._deeds.get(name), decision.actions[0] if decision.actions else None
        if deed is not None:
            same = action is not None and _same(deed.action, action, decision)
            if not same and (action is not None or decision.state.phase not in (Phase.WARMUP, Phase.SERVE)):
                deed.scope.cancel()
        elif action is not None:
            self._deeds[name] = Deed(action, clock.now())
            group.start_soon(self._perform, name, self._deeds[name])

    async def _perform(self, name: str, deed: Deed) -> None:
        with deed.scope:
            done = await guarded(lambda: perform(self.hands(name), deed.action), "action", name)
            bug = Outcome(deed.action, False, clock.now(), "a bug in sparkd, see its log", FailureCode.BUG)
            outcome = done or bug
            self._outcomes[name] = outcome
            await self.ended(name, deed.started_at, outcome)
        self._deeds.pop(name, None)
        self.wake()


def _same(running: Action, wanted: Action, decision: Decision) -> bool:
    return type(running) is type(wanted) and getattr(running, "generation", None) == decision.state.generation
