"""Follows the memory of every node: with each look of the loop, and each second while a group starts there.

A loading rank takes a GiB in a second, and the loop looks every five. The loop never waits for what is asked here; of each node
one thing is asked at a time, and each question has its deadline.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import anyio
from anyio.abc import TaskGroup

from sparkd.base import clock
from sparkd.base.guarded import guarded
from sparkd.decide.memory_back import RISING_BYTES
from sparkd.decide.memory_guard import going, turns
from sparkd.decide.memory_low import STIR, falling, guard_of
from sparkd.model.config import Deployment
from sparkd.model.decision import STARTING, Phase, State
from sparkd.model.machine import Holders, Memory
from sparkd.model.memory_trail import Guard, MemoryLook, MemoryTrail
from sparkd.model.snapshot import EngineMetrics, EngineView, NodeView
from sparkd.observe.memory_look import memory_look
from sparkd.observe.unknowns import NodeAccess

EVERY_S = 1.0
"""While a group starts, or waits for memory that comes back."""
DEADLINE_S = 3.0
"""A node that is short of memory answers late; until it has, it is not asked again."""
KEPT_S = 60.0
NEAR = 4
"""Below so many times the guard it is also read who has the memory, before it has to be said."""
SLOWLY_S, SLOW_KEPT = 600.0, 13
"""Two hours, for memory that drains."""
FOLLOWED = STARTING | {Phase.CLEANUP}
WAITING = ("memory-wait", "memory-returns")
"""Reasons of a start that waits for memory: it goes on as soon as that is there."""
MOVING = STARTING | {Phase.CLEANUP, Phase.PRECHECK, Phase.ADOPTING}
"""Phases in which a group comes or goes: what its node's memory does meanwhile is no drain."""


@dataclass(slots=True)
class _Followed:
    """One node: what was seen of its memory, and what is to be read of it."""

    looks: list[MemoryLook] = field(default_factory=list)
    slow: list[MemoryLook] = field(default_factory=list)
    below: int = 0
    """The highest guard of its deployments, in bytes."""
    every_second: bool = False
    waited_for: bool = False
    """A start waits for its memory."""
    tokens: float | None = None
    slowly_at: float | None = None
    """When it was last asked for the slow row, whatever came of it."""
    asking: bool = False
    """A task asks it now, or will in a second."""

    def add(self, look: MemoryLook) -> None:
        """A look that was overtaken by a later one says nothing new."""
        if self.looks and look.at <= self.looks[-1].at:
            return
        self.looks.append(look)
        recent = [one for one in self.looks if look.at - one.at <= KEPT_S]
        told = [one for one in self.looks[: -len(recent)] if one.holders is not None]
        self.looks = [*told[-1:], *recent]

    def add_slow(self, look: MemoryLook) -> None:
        if look.memory is not None:
            self.slow = [*self.slow, look][-SLOW_KEPT:]

    def slow_due(self, now: float) -> bool:
        return not self.every_second and (self.slowly_at is None or now - self.slowly_at >= SLOWLY_S)

    def wants_holders(self, now: float) -> bool:
        """It comes near the guard, and has become less since it was read last who has it."""
        newest = self.looks[-1].memory if self.looks else None
        if newest is None or newest.available >= NEAR * self.below:
            return False
        told = [one for one in self.looks if one.holders is not None and one.memory is not None]
        last = told[-1].memory if told else None
        return last is None or last.available - newest.available >= max(1, self.below // STIR)

    def rising(self) -> bool:
        known = [one.memory.available for one in self.looks[-2:] if one.memory is not None]
        return len(known) == 2 and known[1] - known[0] >= RISING_BYTES

    def trail(self, may: tuple[str, ...], gone: str) -> MemoryTrail:
        return MemoryTrail(tuple(self.looks), tuple(self.slow), may, gone)


@dataclass(slots=True)
class MemoryTrails:
    """`seen` after each look of the loop, then `follow`, which starts what is due beside it."""

    wake: Callable[[], None]
    """Called when the loop should look at once: a guard is reached, or memory is back that a start waits for."""
    access: Mapping[str, NodeAccess] = field(default_factory=dict)
    guard: Guard = field(default_factory=Guard)
    _nodes: dict[str, _Followed] = field(default_factory=dict)

    def configure(self, access: Mapping[str, NodeAccess], guard: Guard) -> None:
        """Go on with these nodes and this guard of sparkd.yaml."""
        self.access, self.guard = access, guard
        self._nodes = {name: self._nodes.get(name) or _Followed() for name in access}

    def seen(
        self,
        at: float,
        views: Mapping[str, NodeView],
        engines: Mapping[str, EngineView],
        deployments: Sequence[Deployment],
        states: Mapping[str, State],
    ) -> dict[str, MemoryTrail]:
        """The looks until now, the loop's own one included, by node."""
        found = {}
        for name, node in self._nodes.items():
            here = list({one.name: one for one in deployments if name in one.nodes}.values())
            self._plan(node, here, states)
            node.tokens = _tokens(here, states, engines)
            if (view := views.get(name)) is not None:
                memory = view.memory if isinstance(view.memory, Memory) else None
                holders = view.holders if isinstance(view.holders, Holders) else None
                node.add(MemoryLook(at, memory, holders, node.tokens))
            found[name] = node.trail(turns(here, states, self.guard), going(here, states, at))
        return found

    def _plan(self, node: _Followed, here: Sequence[Deployment], states: Mapping[str, State]) -> None:
        phases = {states[one.name].phase for one in here}
        guards = [guard_of(one, self.guard)[0] for one in here]
        node.below = max([*guards, guard_of_cluster(self.guard) if not here else 0])
        node.every_second = bool(phases & FOLLOWED)
        node.waited_for = any(states[one.name].reason in WAITING for one in here)
        if phases & MOVING:
            node.slow, node.slowly_at = [], None

    def follow(self, group: TaskGroup | None) -> None:
        """Ask what is due of each node, beside the loop: again and again while a group starts there, else once."""
        now = clock.now()
        for name, node in self._nodes.items():
            due = node.every_second or node.wants_holders(now) or node.slow_due(now)
            if group is not None and due and not node.asking:
                node.asking = True
                group.start_soon(self._ask, name, node)

    async def _ask(self, name: str, node: _Followed) -> None:
        try:
            await guarded(partial(self._while_due, name, node), f"following the memory of {name}")
        finally:
            node.asking = False

    async def _while_due(self, name: str, node: _Followed) -> None:
        while self._nodes.get(name) is node:
            began = clock.now()
            await self._look(name, node)
            if not node.every_second:
                return
            await anyio.sleep(max(EVERY_S / 10, EVERY_S - (clock.now() - began)))

    async def _look(self, name: str, node: _Followed) -> None:
        now, access = clock.now(), self.access.get(name)
        if access is None:  # it was taken out of the configuration a moment ago
            return
        slowly = node.slow_due(now)
        look = await memory_look(name, access, slowly or node.wants_holders(now), DEADLINE_S)
        look = replace(look, tokens=node.tokens)
        node.add(look)
        if slowly:
            node.slowly_at = now
            node.add_slow(look)
        if falling(node.looks, node.below) is not None or (node.waited_for and node.rising()):
            self.wake()


def guard_of_cluster(guard: Guard) -> int:
    """Bytes, for a node on which no deployment has a rank."""
    return guard_of(Deployment(name="", engine="", nodes=()), guard)[0]


def _tokens(here: Iterable[Deployment], states: Mapping[str, State], engines: Mapping[str, EngineView]) -> float | None:
    """What the engines with a rank there have counted; None where one of them should serve and could not be asked."""
    counted = 0.0
    for one in here:
        view = engines.get(one.name)
        if view is not None and isinstance(view.metrics, EngineMetrics):
            counted += view.metrics.prompt_tokens + view.metrics.generation_tokens
        elif states[one.name].phase in (Phase.SERVE, Phase.PAUSED):
            return None
    return counted
