"""What the API is asked about one deployment's drift and known-good records -> JSON objects, or its refusals."""

from __future__ import annotations

from collections.abc import Awaitable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

from sparkd import drift
from sparkd.api import Conflict, NotFound, Unread, Unwritable
from sparkd.background.drift_watch import DriftWatch, NothingToCompare, not_recorded
from sparkd.background.known_good_store import NotRead, Record, chosen
from sparkd.base import clock
from sparkd.checks.build_metadata import values
from sparkd.comparing.around import metadata
from sparkd.comparing.live import live
from sparkd.comparing.sides import unread_clauses
from sparkd.drift import between
from sparkd.drift.form import RankForm, Side
from sparkd.drift.report import Drift
from sparkd.model.config import Deployment
from sparkd.model.decision import Phase
from sparkd.model.snapshot import Snapshot, Unknown
from sparkd.model.words import rfc3339

Json = Mapping[str, Any]
T = TypeVar("T")


class Looks(Protocol):
    """The loop's looks at the nodes."""

    @property
    def snapshot(self) -> Snapshot | None: ...

    async def readable_soon(self, deployment: Deployment) -> None: ...


@dataclass(frozen=True, slots=True)
class Drifts:
    name: str
    drift_watch: DriftWatch
    looks: Looks

    @property
    def _wanted(self) -> Deployment:
        """The deployment as its file says."""
        return self.drift_watch.ledger.roster.wanted[self.name]

    async def drift(self, against: str | None) -> Json:
        """Raises NotFound where there is nothing to compare with, Conflict before the first look."""
        try:
            with _readable():
                found = await self.drift_watch.drift(self.name, await self._seen(), against)
        except NothingToCompare as nothing:
            refusal = NotFound if nothing.named else Conflict
            raise refusal(nothing.text, nothing.fix) from nothing
        return found.as_json(self.name, rfc3339(clock.wall() - (clock.now() - found.at)))

    async def build(self) -> Json:
        """How the image was built, as its own file on each node says, and in what they differ. Raises Conflict where
        there is no image, and before the first look."""
        deployment, name = self._wanted, self.name
        if deployment.image is None:
            raise Conflict(f"{name} runs from no image that could say how it was built", f"sparkd ctl drift {name}")
        scene = await self.drift_watch.scene(deployment, await self._seen(), keep=False)
        said = {node: scene.answer(metadata(deployment, node)) for node in deployment.nodes}
        read = {node: values(text) if isinstance(text, str) else None for node, text in said.items()}
        forms = (
            RankForm(rank=rank, node=node, files={f"build {key}": value for key, value in (read[node] or {}).items()})
            for rank, node in enumerate(deployment.nodes)
            if not isinstance(said[node], Unknown)
        )
        side = Side(label="", kind="live", ranks=tuple(forms))
        return {
            "schema": 1,
            "deployment": name,
            "image": deployment.image,
            "path": metadata(deployment, deployment.nodes[0]).path,
            "nodes": read,
            "unread": {node: text.why for node, text in said.items() if isinstance(text, Unknown)},
            "findings": [one.as_json() for one in between.ranks(side, scene.tables)],
        }

    async def hashes(self) -> Json:
        """How far the weights are hashed on each node, which they go on with. Raises Conflict before the first look."""
        found = await self.drift_watch.hashed(self.name, await self._seen())
        read = {node: one for node, one in found.items() if not isinstance(one, Unknown)}
        return {
            "schema": 1,
            "deployment": self.name,
            "complete": all(one.done >= one.total for one in read.values()),
            "nodes": {
                node: {"done_bytes": one.done, "total_bytes": one.total, "unread": list(one.unread)}
                for node, one in read.items()
            },
            "unread": {node: one.why for node, one in found.items() if isinstance(one, Unknown)},
        }

    async def listing(self) -> Json:
        """Raises Unread, as all that is asked about records."""
        store = self.drift_watch.store
        with _readable():
            kept = await store.kept(self.name)
        records = [one for one in kept.values() if isinstance(one, Record)]
        rows = [{**one.as_json(), "reference": one == chosen(records)} for one in records]
        files = {str(store.path(self.name, number)): why for number, why in kept.items() if isinstance(why, str)}
        return {"schema": 1, "deployment": self.name, "known_good": rows, "unusable": files}

    async def show(self, generation: int) -> Json:
        record = await self._record(generation)
        store = self.drift_watch.store
        try:
            text = await store.text(record)
        except OSError as error:
            raise NotFound(f"the record of generation {generation} cannot be read: {error}") from error
        source = await store.source(record)
        return {"schema": 1, **record.as_json(), "text": text, "deployment_file": source, "file": self._wanted.file}

    async def apart(self, before: int, after: int) -> Json:
        """Raises NotFound for one that is not recorded."""
        one, other = await self._record(before), await self._record(after)
        found = Drift(
            against=one.label,
            live=other.label,
            at=clock.now(),
            seconds=0.0,
            findings=drift.compare(one.side, other.side, tables=self.drift_watch.asking.tables()),
            not_compared=drift.not_compared(one.side, other.side),
        )
        return found.as_json(self.name, other.recorded or rfc3339(clock.wall()))

    async def bless(self, generation: int | None, note: str) -> Json:
        """Raises NotFound, Conflict where nothing whole runs that could be recorded, Unwritable."""
        if generation is not None:
            known = await self._record(generation)
            record = replace(known, pinned=True, note=note or known.note)
            await self._kept(self.drift_watch.store.write(record))
            await self.drift_watch.recording.recorded(self.name, record)
            return {"schema": 1, **record.as_json(), "not_read": []}
        record, not_read = await self._bless_now(note)
        return {"schema": 1, **record.as_json(), "not_read": not_read}

    async def _kept(self, keeping: Awaitable[T]) -> T:
        try:
            with _readable():
                return await keeping
        except OSError as error:
            raise Unwritable(
                f"the record could not be written, so nothing was blessed: {error}",
                "its disk, or the rights of its folder",
            ) from error

    async def _bless_now(self, note: str) -> tuple[Record, list[str]]:
        """The record, and what of the ranks could not be read and is not in it."""
        name, ledger = self.name, self.drift_watch.ledger
        state, running = ledger.states[name], ledger.running(name)
        if state.phase is not Phase.SERVE or state.watch.alarmed or state.nonsense:
            fix = f"bless an earlier one: sparkd ctl known-good list {name}"
            raise Conflict(f"{name} does not serve well now: {state.sentence or state.phase}", fix)
        seen = live(await self.drift_watch.scene(running, await self._seen()))
        if not seen.whole:
            unread = "; ".join(f"{node}: {why}" for node, why in seen.unread.items()) or "not all of its ranks run"
            raise Conflict(f"{name} cannot be read whole now ({unread})", "ask again in a moment")
        keep = self.drift_watch.recording.keep
        known = state.sanity.known
        kept = keep(running, state.generation, seen, self._wanted, note or None, pinned=True, answer=known)
        record = await self._kept(kept)
        return record, list(unread_clauses(seen))

    async def _record(self, generation: int) -> Record:
        store = self.drift_watch.store
        with _readable():
            kept = await store.kept(self.name)
        found = kept.get(generation)
        if isinstance(found, str):
            raise Unread(
                f"the record of generation {generation} cannot be used: {found}",
                f"mend or remove {store.path(self.name, generation)}",
            )
        if found is None:
            nothing = not_recorded(self.name, generation, kept)
            raise NotFound(nothing.text, nothing.fix)
        return found

    async def _seen(self) -> Snapshot:
        """A look after which every node could be asked, where that comes soon."""
        await self.looks.readable_soon(self._wanted)
        seen = self.looks.snapshot
        if seen is None:
            raise Conflict(
                f"{self.name} cannot be compared before the first look at its nodes", "ask again in a moment"
            )
        return seen


@contextmanager
def _readable() -> Iterator[None]:
    """Raises Unread, the API's word for NotRead."""
    try:
        yield
    except NotRead as error:
        raise Unread(f"what worked is not known now: {error}", "mend that, then ask again") from error
