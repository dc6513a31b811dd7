"""Compares what runs with what worked, beside the loop: once a minute while it runs, before every start, and when asked."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import structlog
from anyio.abc import TaskGroup

from sparkd.background.drift_events import DriftEvents
from sparkd.background.engine_port import EnginePort
from sparkd.background.engine_words import EngineWords
from sparkd.background.known_good_store import NotRead, Record, Store
from sparkd.background.parser_interview import Asking, beside
from sparkd.background.recording import Recording, answered
from sparkd.background.speed import slower
from sparkd.base import clock, files
from sparkd.base.errors import SparkdError
from sparkd.base.guarded import guarded
from sparkd.base.redact import Redactor
from sparkd.checks.shared.scene import Scene
from sparkd.comparing.live import HASHING, live, reading, wanted
from sparkd.comparing.sides import in_order, with_known, with_wanted
from sparkd.drift.known_good import KIND
from sparkd.drift.report import EVENT, Drift
from sparkd.facts.hashes import HASHES, Hashed
from sparkd.fleet.ledger import Ledger
from sparkd.journal import Journal
from sparkd.model.config import Deployment
from sparkd.model.decision import ASK_ENGINE, Phase
from sparkd.model.sanity import Known
from sparkd.model.snapshot import Canary, Snapshot, Unknown
from sparkd.observe.survey import Surveyor

log = structlog.get_logger("sparkd")

EVERY_S = 60.0
"""A difference in a live rank is worth knowing within a minute (DESIGN 8)."""
MEASURE_S = 120.0
"""For one request that is sent for its rate: no verdict rests on it, and a large model makes 2 tokens in a second."""
LIVE = (Phase.SERVE, Phase.PAUSED)
"""What is compared by itself."""
AROUND_S = 300.0
"""What lies around the ranks changes seldom, and reading it costs a node more than reading them."""


class NothingToCompare(SparkdError):
    """Nothing is recorded; `fix` says how that would come. `named`: a person named a generation that is not there."""

    def __init__(self, text: str, fix: str, named: bool = False) -> None:
        self.text, self.fix, self.named = text, fix, named
        super().__init__(text)


def not_recorded(name: str, generation: object, kept: Mapping[int, Record | str]) -> NothingToCompare:
    """For a person who named a generation that is not there: those that are, and can be used."""
    there = ", ".join(str(number) for number, one in kept.items() if isinstance(one, Record))
    fix = f"there is: {there}" if there else f"sparkd ctl bless {name}, while it serves well"
    return NothingToCompare(f"nothing is recorded of generation {generation} of {name}", fix, named=True)


@dataclass(slots=True)
class DriftWatch:
    surveyor: Surveyor
    owner: str
    ledger: Ledger
    store: Store
    recording: Recording
    engine_words: EngineWords
    asking: Asking
    events: DriftEvents
    found: dict[str, Drift] = field(default_factory=dict)
    """Deployment -> the last comparison of what runs with what worked."""
    _tried: dict[str, float] = field(default_factory=dict)
    _running: set[str] = field(default_factory=set)
    _scenes: dict[str, tuple[float, str, Scene]] = field(default_factory=dict)
    """Deployment -> when all of it was read, by which file, and what was seen."""

    async def count_on(self) -> None:
        """A journal that was lost would begin at 1 again, below records that are kept by their numbers."""
        for name, state in self.ledger.states.items():
            newest = await self.store.newest(name)
            if newest > state.highest:
                self.ledger.states[name] = state = replace(state, highest=newest)
            if newest and state.sanity.known is None and (known := await self._known_answer(name)) is not None:
                self.ledger.states[name] = replace(state, sanity=replace(state.sanity, known=known))

    async def _known_answer(self, name: str) -> Known | None:
        """By its record: a journal that was lost does not know what it answered when all was well."""
        try:
            return answered(await self.store.reference(name))
        except NotRead:
            return None  # said when a record is asked for

    # ----------------------------------------------------------------------------------------------------- beside the loop

    def look(self, group: TaskGroup | None, seen: Snapshot) -> None:
        """After every look of the loop: start what is due. Nothing waits for it."""
        for name in self.ledger.roster.wanted:
            self.recording.hear(name, seen)
            state = self.ledger.states[name]
            if state.phase not in LIVE:
                self.found.pop(name, None)  # what was true of a group that is gone
                continue
            due = clock.now() - self._tried.get(name, -EVERY_S) >= EVERY_S
            due = due or self.recording.due(self.ledger.running(name), state)
            if group is not None and due and name not in self._running:
                self._running.add(name)
                self._tried[name] = clock.now()
                group.start_soon(self._work, name, seen)

    async def _work(self, name: str, seen: Snapshot) -> None:
        try:
            await guarded(partial(self._as_far_as_read, name, seen), "drift", name)
        finally:
            self._running.discard(name)
            if name not in self.ledger.states:
                self.forget(name)

    async def _as_far_as_read(self, name: str, seen: Snapshot) -> None:
        try:
            await self._record_or_compare(name, seen)
        except NotRead as error:
            log.warning("not compared with what worked", deployment=name, why=str(error))

    def forget(self, name: str) -> None:
        """It is no deployment any more: its records on the disk stay, what is remembered of it goes."""
        for known in (self.found, self._tried, self._scenes):
            known.pop(name, None)
        self.recording.forget(name)
        self.events.forget(name)

    async def _record_or_compare(self, name: str, seen: Snapshot) -> None:
        running, state, file = self.ledger.running(name), self.ledger.states[name], self.ledger.roster.wanted[name]
        due, reference = self.recording.due(running, state), await self.store.reference(name)
        if due or reference is not None:
            await self.recording.measure(running, state, seen)
        if due:
            found = live(await self.scene(running, seen))
            await self.recording.record(running, state, found, file)
            reference = await self.store.reference(name)
        if reference is not None:
            drift = await self._with_reference(reference, running, seen, quick=True)
            now = self.ledger.states.get(name)
            if now is not None and now.phase in LIVE and now.generation == state.generation:
                self.found[name] = drift
                await self.events.write(running, state.generation, drift)

    # -------------------------------------------------------------------------------------------------------------- asked

    async def drift(self, name: str, seen: Snapshot, against: str | None = None) -> Drift:
        """A comparison made now, of what runs or (where nothing does) of the next start. `against`: `known-good`,
        `wanted`, or a generation's number. Raises NothingToCompare and NotRead."""
        state, file = self.ledger.states[name], self.ledger.roster.wanted[name]
        deployment = self._compared(name)
        if against == "wanted":
            began = clock.now()
            scene = await self.scene(deployment, seen)
            found, same = live(scene), file.digest == deployment.digest
            next_start = wanted(scene if same else await self.scene(file, seen, keep=False))
            return with_wanted(next_start.side, found, began, clock.now() - began)
        record = await self._record(name, against)
        drift = await self._with_reference(record, deployment, seen)
        if against in (None, "known-good") and state.phase in LIVE:
            self.found[name] = drift
            await self.events.write(deployment, state.generation, drift)
        return drift

    async def _record(self, name: str, against: str | None) -> Record:
        fix = f"compare with its file: sparkd ctl drift {name} --against wanted; if all is well now: sparkd ctl bless {name}"
        if against in (None, "known-good"):
            record = await self.store.reference(name)
            if record is None:
                raise NothingToCompare(f"nothing is recorded of {name} yet: it is not known what worked", fix)
            return record
        kept = await self.store.kept(name)
        found = kept.get(int(against))
        if found is None:
            raise not_recorded(name, against, kept)
        if isinstance(found, str):
            raise NotRead(f"the record of generation {against} of {name} cannot be used: {found}")
        return found

    async def _with_reference(
        self, record: Record, deployment: Deployment, seen: Snapshot, quick: bool = False
    ) -> Drift:
        began = clock.now()
        found = live(await self.scene(deployment, seen, quick))
        drift = with_known(record.side, found, began, clock.now() - began)
        slow = slower(deployment, record.measured, self.recording.samples(deployment.name))
        return replace(drift, findings=in_order((*drift.findings, *slow)))

    async def before_start(self, scene: Scene) -> Drift | Unknown | None:
        """What the next start differs in from what worked, by the facts that the checks have read; None where nothing
        is recorded."""
        try:
            record = await self.store.reference(scene.deployment.name)
        except NotRead as error:
            return Unknown(str(error), clock.now())
        return None if record is None else with_known(record.side, wanted(scene), clock.now(), 0.0)

    # -------------------------------------------------------------------------------------------------------------- scenes

    async def scene(self, deployment: Deployment, seen: Snapshot, quick: bool = False, keep: bool = True) -> Scene:
        """What a survey sees now. `quick`: what lies around the ranks may be some minutes old."""
        veil = await files.aside(partial(Redactor.of, deployment))
        blank = replace(self._blank(deployment, seen), veil=veil)
        at, digest, before = self._scenes.get(deployment.name, (0.0, "", blank))
        old = clock.now() - at > AROUND_S or digest != deployment.digest
        if old or not quick:
            began = clock.now()
            scene = await beside(self.asking, self.surveyor.survey(blank, [reading(quick=False)]), deployment)
            scene = replace(scene, says=await self.engine_words.read(scene))
            if keep:
                self._scenes[deployment.name] = began, deployment.digest, scene
            return scene
        blank = replace(blank, parser=before.parser, unasked=before.unasked, engine_id=before.engine_id)
        blank = replace(blank, tables=self.asking.tables())
        scene = await self.surveyor.survey(blank, [reading(quick=True)])
        return replace(
            scene,
            facts=_over(before.facts, scene.facts),
            answers=_over(before.answers, scene.answers),
            says=before.says,
        )

    def _blank(self, deployment: Deployment, seen: Snapshot) -> Scene:
        return Scene(
            cluster=self.ledger.config.cluster,
            deployment=deployment,
            owner=self.owner,
            running=True,
            nodes={node: seen.nodes[node] for node in deployment.nodes if node in seen.nodes},
        )

    async def hashed(self, name: str, seen: Snapshot) -> Mapping[str, Hashed | Unknown]:
        """Node -> how far it has hashed the weights; they go on with it while a client asks. What is hashed is in every
        later comparison."""
        deployment = self._compared(name)
        scene = await self.surveyor.survey(self._blank(deployment, seen), [HASHING])
        found: dict[str, Hashed | Unknown] = {}
        for node in deployment.nodes:
            progress = scene.fact(node, HASHES)
            found[node] = progress
        return found

    def _compared(self, name: str) -> Deployment:
        """What runs, or would run next."""
        state = self.ledger.states[name]
        return self.ledger.running(name) if state.phase in ASK_ENGINE else self.ledger.roster.wanted[name]


def drift_watch(
    surveyor: Surveyor,
    asking: Asking,
    owner: str,
    ledger: Ledger,
    state: Path,
    engines: EnginePort,
    happened: Callable[[str, str, str, str], Awaitable[None]],
    journal: Journal,
) -> DriftWatch:
    """All parts of it. `state`: the daemon's own folder; `happened`: writes deployment, kind, sentence, reason into `journal`."""

    async def ask(name: str) -> Canary:
        return await engines.measure(name, ledger.states[name].generation, MEASURE_S)

    async def recorded(name: str, record: Record) -> None:
        why = "blessed" if record.pinned else "it has answered for a while"
        await happened(name, KIND, f"generation {record.generation} is recorded as known-good: {why}", KIND)

    store = Store(state / KIND, asking.tables)
    engine_words = EngineWords(surveyor.access, engines)
    events = DriftEvents(happened, lambda name: journal.last(name, EVENT))
    return DriftWatch(surveyor, owner, ledger, store, Recording(store, ask, recorded), engine_words, asking, events)


def _over(before: Mapping[Any, Any], now: Mapping[Any, Any]) -> dict[Any, Any]:
    return {**before, **now}
