"""Planned work on nodes and the uses of their power hooks: kept in the journal, over restarts of sparkd and of the head."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from sparkd.base.json_codec import Undecodable, decode, encode
from sparkd.journal import Journal, JournalError
from sparkd.journal.moment import Moment, now, shift_s
from sparkd.model.config import Node
from sparkd.model.power import PowerUse
from sparkd.model.upkeep import NOTHING, Maintenance, Upkeep

NOTE = "upkeep"
USES = 20
"""Of one node that are remembered."""


@dataclass(slots=True)
class UpkeepLedger:
    """What is known of every node, as `Snapshot.upkeep` shows it."""

    journal: Journal
    nodes: Callable[[], Mapping[str, Node]]
    moment: Callable[[], Moment] = now
    _kept: dict[str, Upkeep] = field(default_factory=dict)

    def load(self) -> None:
        """Bring back what was kept, its times on this boot's clock. What cannot be read is as if it had never been."""
        row = self.journal.recall(NOTE) or {}
        try:
            by_s = shift_s(Moment(row["boot"], row["at"], row["wall"]), self.moment())
            found = {str(name): decode(Upkeep, said).shifted(by_s) for name, said in row["nodes"].items()}
        except (Undecodable, ValueError, KeyError, TypeError, AttributeError):
            found = {}
        self._kept = found

    def standing(self) -> dict[str, Upkeep]:
        """Node -> what is known of it, of all that are configured."""
        return {name: self.of(name) for name in self.nodes()}

    def of(self, node: str) -> Upkeep:
        power = self.nodes()[node].power if node in self.nodes() else None
        return replace(self._kept.get(node, NOTHING), hook=power is not None, auto=power is not None and power.auto)

    async def plan(self, node: str, work: Maintenance | None) -> None:
        """Begin planned work, or end it with None. Raises JournalError where it cannot be written down; then nothing changes."""
        await self._keep(node, replace(self.of(node), maintenance=work))

    async def use(self, node: str, use: PowerUse) -> None:
        """Written before it is done. Raises JournalError; then it must not be done: nobody would know that it was."""
        known = self.of(node)
        await self._keep(node, replace(known, uses=(*known.uses, use)[-USES:]))

    async def used(self, node: str, use: PowerUse) -> None:
        """How the last use ended. That it was begun is written; a disk that fills up just then loses no more than its end."""
        known = self.of(node)
        self._kept[node] = replace(known, uses=(*known.uses[:-1], use))
        await self.journal.remember(NOTE, self._row())

    async def _keep(self, node: str, known: Upkeep) -> None:
        before = dict(self._kept)
        self._kept[node] = known
        await self.journal.remember(NOTE, self._row())
        if self.journal.read_only:
            self._kept = before
            await self.journal.remember(NOTE, self._row())
            raise JournalError(f"it cannot be written to {self.journal.path}: {self.journal.trouble}")

    def _row(self) -> dict[str, Any]:
        kept = {name: encode(known) for name, known in self._kept.items() if known.maintenance or known.uses}
        return {"nodes": kept, **asdict(self.moment())}
