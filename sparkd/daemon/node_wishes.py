"""What people ask of nodes: planned work, its end, and their power, each refused with its reason where it makes no sense."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sparkd.act import power as power_hook
from sparkd.api import Conflict, Invalid, Unwritable
from sparkd.base import clock
from sparkd.decide.upkeep import again_at
from sparkd.fleet.ledger import Ledger
from sparkd.journal import JournalError
from sparkd.loop.upkeep import Upkeeping
from sparkd.model.machine import Boot
from sparkd.model.power import Power
from sparkd.model.snapshot import Snapshot
from sparkd.model.upkeep import Maintenance
from sparkd.model.words import duration, rfc3339
from sparkd.reporting.node_upkeep import use_json

MOST_S = 30 * 86400.0
USUAL_S = 86400.0
"""Without a time of its own: a box that was forgotten must not stay out for weeks."""
LEAST_S = 1.0
PAUSED = "paused: sparkd stops nothing of it"


@dataclass(slots=True)
class NodeWishes:
    """Implements `sparkd.api.Nodes`."""

    upkeeping: Upkeeping
    seen: Callable[[], Snapshot | None]

    # ----------------------------------------------------------------------------------------------------- planned work

    async def maintain(self, node: str, for_s: float | None, by: str, message: str) -> Mapping[str, Any]:
        """Begin planned work on it, or change its time. Raises Invalid, Unwritable."""
        lasts = USUAL_S if for_s is None else for_s
        if not LEAST_S <= lasts <= MOST_S:
            raise Invalid(f"a maintenance of {lasts:g} s", "for_s is from 1 s to 30 days")
        now, before = clock.now(), self._ledger.upkeep.of(node).maintenance
        since, boot = (before.since, before.boot) if before is not None else (now, self._boot(node))
        wall = before.since_wall if before is not None else clock.wall()
        work = Maintenance(since, now + lasts, wall, boot, by, message)
        await self._written(self.upkeeping.begin(node, work))
        return self._answer(node, f"the maintenance of {node} begins", until=rfc3339(clock.wall() + lasts))

    async def end(self, node: str, by: str, message: str) -> Mapping[str, Any]:
        """Raises Conflict where there is none, Unwritable."""
        if self._ledger.upkeep.of(node).maintenance is None:
            raise Conflict(f"{node} is not under maintenance")
        await self._written(self.upkeeping.end(node, f"ended by {by}" if by else "ended by hand", by, message))
        return self._answer(node, f"the maintenance of {node} is over")

    async def _written(self, wish: Awaitable[None]) -> None:
        try:
            await wish
        except JournalError as error:
            raise Unwritable(
                f"the wish could not be written down, so nothing is done: {error}", "free the disk"
            ) from error

    def _answer(self, node: str, sentence: str, **more: object) -> dict[str, Any]:
        return {"schema": 1, "node": node, "sentence": sentence, "deployments": list(self._affected(node)), **more}

    def _affected(self, node: str) -> Iterator[dict[str, str]]:
        """Deployments with a rank there, and what becomes of each."""
        for name, wanted in self._ledger.roster.wanted.items():
            if node in (*wanted.nodes, *self._ledger.running(name).nodes):
                intent = self._ledger.intents[name]
                what = PAUSED if intent.paused else "stays stopped" if intent.wanted != "up" else "is stopped meanwhile"
                yield {"name": name, "what": what}

    @property
    def _ledger(self) -> Ledger:
        return self.upkeeping.ledger

    def _boot(self, node: str) -> str:
        snapshot = self.seen()
        view = snapshot.nodes.get(node) if snapshot is not None else None
        return view.boot.identity if view is not None and isinstance(view.boot, Boot) else ""

    # ------------------------------------------------------------------------------------------------------------ power

    def power(self, node: str) -> Mapping[str, Any]:
        """What a power cycle would do, when it may be done, and the last uses. Raises Conflict where there is no hook."""
        power, known = self._hook(node), self._ledger.upkeep.of(node)
        free = again_at(known.uses, clock.now())
        return {
            "schema": 1,
            "node": node,
            "would": power_hook.described(power),
            "timeout_s": power.timeout,
            "auto": power.auto,
            "again_at": None if free is None else rfc3339(clock.wall() + free - clock.now()),
            "answers": self._boot(node) != "",
            "deployments": list(self._affected(node)),
            "uses": [use_json(one) for one in known.uses],
        }

    async def power_cycle(self, node: str, force: bool, by: str, message: str) -> Mapping[str, Any]:
        """Take its power and give it back, and wait for that. Raises Conflict, Unwritable."""
        power, known = self._hook(node), self._ledger.upkeep.of(node)
        if self.upkeeping.busy(node):
            raise Conflict(f"the power of {node} is being taken right now", "wait for the end of that")
        free = again_at(known.uses, clock.now())
        if free is not None and not force:
            left = duration(free - clock.now())
            raise Conflict(
                f"the power of {node} was taken less than 6 h ago; again in {left}", "add --force to do it now"
            )
        try:
            use = await self.upkeeping.power_cycle(node, power, by or "unknown", message)
        except JournalError as error:
            raise Unwritable(f"it cannot be written down, so it is not done: {error}", "free the disk") from error
        return {"schema": 1, "node": node, **use_json(use)}

    def _hook(self, node: str) -> Power:
        known = self._ledger.config.cluster.nodes.get(node)
        power = known.power if known is not None else None
        if power is None:
            fix = f"write `nodes: {{{node}: {{power: …}}}}` into sparkd.yaml; docs/power.md has examples"
            raise Conflict(f"{node} has no power hook", fix)
        return power
