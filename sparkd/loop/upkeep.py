"""Beside the deployments: planned work on nodes that ends, and power hooks, used by a person or by sparkd itself.

`look` is called after every cycle. What it decides on is pure (`decide/upkeep.py`); a hook runs in a task of its own.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace

import anyio
import structlog
from anyio.abc import TaskGroup

from sparkd.act import power as power_hook
from sparkd.base import clock
from sparkd.base.guarded import guarded
from sparkd.decide.evidence import LATE_PERIODS
from sparkd.decide.upkeep import Needed, agreed, may_take_power, over
from sparkd.fleet.ledger import Ledger
from sparkd.journal import Event, JournalError
from sparkd.model.config import Node
from sparkd.model.machine import Boot
from sparkd.model.policy import Policy
from sparkd.model.power import Power, PowerUse
from sparkd.model.snapshot import Snapshot
from sparkd.model.upkeep import Maintenance

log = structlog.get_logger("sparkd")

PLANNED, OVER, POWER = "maintenance-begun", "maintenance-over", "power-cycle"
"""Kinds of events in history."""


@dataclass(slots=True)
class Upkeeping:
    """Changes what the ledger keeps of nodes; nothing else does."""

    ledger: Ledger
    record: Callable[[Event], Awaitable[None]]
    wake: Callable[[], None]
    group: TaskGroup | None = None
    """Where hooks run; None: nothing is done by itself."""
    _agreed: dict[str, float] = field(default_factory=dict)
    """Node -> since when it has been gone at every look."""
    _well: set[str] = field(default_factory=set)
    """Nodes that this sparkd has read. Of one that it never saw nobody can say that it should be there."""
    _leaving: set[str] = field(default_factory=set)
    """Nodes that were seen to shut down when they were read last: somebody wanted that."""
    _looked_at: float | None = None
    _busy: set[str] = field(default_factory=set)
    """Nodes whose hook is being used."""

    async def look(self, snapshot: Snapshot | None) -> None:
        """After a cycle, with what it saw. Raises nothing that a disk does."""
        if snapshot is None:
            return
        await self._end_what_is_over(snapshot)
        self._remember(snapshot)
        for name in self._agreed:
            known = self.ledger.upkeep.of(name)
            node = self._nodes.get(name)
            ready = may_take_power(known, self._agreed[name], self._policy.gone_after, clock.now())
            if ready and node is not None and node.power is not None and self.group is not None:
                why = f"silent to SSH and to pings on both networks for {self._policy.gone_after:.0f} s"
                self.group.start_soon(self._by_itself, name, node.power, why)

    @property
    def _nodes(self) -> Mapping[str, Node]:
        return self.ledger.config.cluster.nodes

    @property
    def _policy(self) -> Policy:
        return self.ledger.config.cluster.policy

    def _remember(self, snapshot: Snapshot) -> None:
        read = {name for name, view in snapshot.nodes.items() if isinstance(view.boot, Boot)}
        self._well |= read
        self._leaving = {name for name in self._leaving if name not in read} | {
            name for name in read if snapshot.nodes[name].system == "stopping"
        }
        last, self._looked_at = self._looked_at, snapshot.at
        late = last is not None and snapshot.at - last > LATE_PERIODS * self._policy.period + snapshot.took_s
        ledger = self.ledger
        needed = [
            Needed(ledger.running(name), ledger.states[name], ledger.intents[name]) for name in ledger.roster.wanted
        ]
        self._agreed = agreed(self._agreed, self._well - self._leaving, snapshot, needed, late)

    # ----------------------------------------------------------------------------------------------------- planned work

    async def begin(self, node: str, work: Maintenance) -> None:
        """Raises JournalError; then nothing is planned (rule 8)."""
        await self.ledger.upkeep.plan(node, work)
        why = f": {work.message}" if work.message else ""
        for_s = work.until - work.since
        said = f"maintenance of {node} begins{why}; until its next boot, and for {for_s / 3600:g} h at the most"
        await self._tell(PLANNED, node, said, work.by, work.message)
        self.wake()

    async def end(self, node: str, why: str, by: str = "", message: str = "") -> None:
        """Raises JournalError; then it goes on."""
        await self.ledger.upkeep.plan(node, None)
        await self._tell(OVER, node, f"the maintenance of {node} is over: {why}", by, message)
        self.wake()

    async def _end_what_is_over(self, snapshot: Snapshot) -> None:
        for name, known in self.ledger.upkeep.standing().items():
            if known.maintenance is None:
                continue
            why = over(known.maintenance, snapshot.nodes.get(name), self._policy.not_yet, clock.now())
            if why:
                try:
                    await self.end(name, why)
                except JournalError as error:  # tried again after the next look
                    log.warning("the end of a maintenance is not written down", node=name, why=str(error))

    # ------------------------------------------------------------------------------------------------------------ power

    def busy(self, node: str) -> bool:
        return node in self._busy

    async def power_cycle(self, node: str, power: Power, by: str, message: str) -> PowerUse:
        """Use the hook, and wait for its end. Raises JournalError where its use cannot be written down first."""
        self._busy.add(node)
        try:
            use = PowerUse(clock.now(), clock.wall(), by, message)
            await self.ledger.upkeep.use(node, use)
            with anyio.CancelScope(shield=True):  # bounded by its own time; half of it would leave the node off
                done = await power_hook.take(node, power)
                ended = replace(use, ok=done.ok, text=done.text)
                await self.ledger.upkeep.used(node, ended)
                how = "by itself" if not by else f"by {by}"
                why = f" ({message})" if message else ""
                worked = "power-cycled" if done.ok else "could NOT be power-cycled"
                await self._tell(POWER, node, f"{node} {worked} {how}{why}: {done.text}", by, message, ok=done.ok)
        finally:
            self._busy.discard(node)
        self.wake()
        return ended

    async def _by_itself(self, node: str, power: Power, why: str) -> None:
        if node in self._busy:
            return

        async def use() -> None:
            try:
                await self.power_cycle(node, power, "", why)
            except JournalError as error:
                log.warning("a power hook is not used: that cannot be written down", node=node, why=str(error))

        await guarded(use, "power hook", node)

    async def _tell(self, kind: str, node: str, said: str, by: str, message: str, **data: object) -> None:
        log.info(said, node=node, by=by or None)
        known = {"node": node, **data}
        await self.record(
            Event(at=clock.wall(), kind=kind, sentence=said, reason=kind, by=by, message=message, data=known)
        )
