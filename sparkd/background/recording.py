"""A generation that has answered for a while -> its record, with the rates that were measured of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any

import structlog

from sparkd.background.known_good_store import MAX_FILE_BYTES, Record, Store
from sparkd.background.speed import ACCEPTANCE, FIRST, RATE, Sample, accepted
from sparkd.base import clock, files
from sparkd.base.one_line import clause
from sparkd.base.redact import Redactor
from sparkd.comparing.seen import Seen
from sparkd.comparing.sides import unread_clauses
from sparkd.model.action import SendCanary, WarmUp
from sparkd.model.config import Deployment
from sparkd.model.decision import Phase, State
from sparkd.model.sanity import Known
from sparkd.model.snapshot import Canary, EngineMetrics, Snapshot
from sparkd.model.words import rfc3339

log = structlog.get_logger("sparkd")

AGAIN_S = 60.0
"""After a try that could not read everything."""
KEPT_SAMPLES = 10


@dataclass(slots=True)
class Measured:
    """What is known of one generation's speed."""

    generation: int
    cold: Canary | None = None
    """Its first request: kernels are compiled in it."""
    canary: Canary | None = None
    """The last one that was answered."""
    samples: list[Sample] = field(default_factory=list)
    """The newest last."""
    measured_at: float = 0.0
    engine: EngineMetrics | None = None


@dataclass(slots=True)
class Recording:
    store: Store
    ask: Callable[[str], Awaitable[Canary]]
    """Sends one request to this deployment's engine, of as many tokens as a rate takes."""
    recorded: Callable[[str, Record], Awaitable[None]]
    """Called when a generation was recorded."""
    _known: dict[str, Measured] = field(default_factory=dict)
    _done: dict[str, int] = field(default_factory=dict)
    """Deployment -> the generation that was recorded last."""
    _tried: dict[str, float] = field(default_factory=dict)

    # ------------------------------------------------------------------------------------------------------------ measured

    def hear(self, name: str, seen: Snapshot) -> None:
        """Canaries and figures that the loop saw."""
        outcome = seen.outcomes.get(name)
        canary = outcome.value if outcome is not None else None
        if outcome is not None and isinstance(canary, Canary) and canary.ok:
            known = self._of(name, canary.generation)
            if isinstance(outcome.action, WarmUp) and known.cold is None:
                known.cold = canary
            elif isinstance(outcome.action, SendCanary):
                known.canary = canary
        engine = seen.engines.get(name)
        if engine is not None and isinstance(engine.metrics, EngineMetrics) and name in self._known:
            self._known[name].engine = engine.metrics

    def _of(self, name: str, generation: int) -> Measured:
        known = self._known.get(name)
        if known is None or known.generation != generation:
            known = self._known[name] = Measured(generation)
        return known

    def forget(self, name: str) -> None:
        for known in (self._known, self._done, self._tried):
            known.pop(name, None)

    def samples(self, name: str) -> tuple[Sample, ...]:
        """Of the generation that runs, the newest last."""
        known = self._known.get(name)
        return tuple(known.samples) if known is not None else ()

    async def measure(self, deployment: Deployment, state: State, seen: Snapshot) -> None:
        """One request of enough tokens to an idle engine, where the last one is long enough ago."""
        known = self._of(deployment.name, state.generation)
        engine = seen.engines.get(deployment.name)
        metrics = engine.metrics if engine is not None else None
        idle = isinstance(metrics, EngineMetrics) and not metrics.running and not metrics.waiting
        if (
            state.phase is not Phase.SERVE
            or not idle
            or clock.now() - known.measured_at < deployment.policy.measure_every
        ):
            return
        known.measured_at = clock.now()
        canary = await self.ask(deployment.name)
        if canary.ok and canary.generation == state.generation:
            drafted = accepted(metrics.acceptance) if isinstance(metrics, EngineMetrics) else None
            sample = Sample(rate=canary.tokens_per_second, first_token_s=canary.first_token_s, accepted=drafted)
            known.samples = [*known.samples, sample][-KEPT_SAMPLES:]
            known.canary = canary

    def figures(self, name: str, generation: int) -> dict[str, Any]:
        """As they are kept in a record; what was not measured is not in it."""
        known = self._of(name, generation)
        cold, warm, engine = known.cold, known.canary, known.engine
        warm_rates = [one.rate for one in known.samples if one.rate is not None]
        rates = {
            "warm": round(sum(warm_rates) / len(warm_rates), 2) if warm_rates else None,
            "cold": _rounded(cold.tokens_per_second) if cold is not None else None,
        }
        first = {
            "warm": _rounded(warm.first_token_s) if warm is not None else None,
            "cold": _rounded(cold.first_token_s) if cold is not None else None,
        }
        found = {
            RATE: {key: value for key, value in rates.items() if value is not None},
            FIRST: {key: value for key, value in first.items() if value is not None},
            ACCEPTANCE: [round(one, 4) for one in engine.acceptance] if engine is not None else [],
            "kv_cache_tokens": engine.kv_cache_tokens if engine is not None else None,
        }
        return {key: value for key, value in found.items() if value}

    # ------------------------------------------------------------------------------------------------------------ recorded

    def due(self, deployment: Deployment, state: State) -> bool:
        """Has this generation answered for long enough, with nothing against it, and was it not recorded yet?"""
        since = state.serving_since
        unseen = state.watch.gap_until is not None  # ten minutes without a look are no ten minutes of answering
        doubted = state.watch.suspicious or unseen or state.sanity.bad > 0
        if state.phase is not Phase.SERVE or since is None or doubted:
            return False
        waited = clock.now() - self._tried.get(deployment.name, -AGAIN_S) >= AGAIN_S
        return waited and self._lasted(deployment, since) and self._done.get(deployment.name) != state.generation

    def _lasted(self, deployment: Deployment, since: float) -> bool:
        return clock.now() - since >= deployment.policy.known_good_after

    async def record(self, deployment: Deployment, state: State, seen: Seen, wanted: Deployment) -> None:
        """Keep it, unless it was kept by an earlier sparkd, or not all of it could be read. Raises NotRead."""
        name = deployment.name
        self._tried[name] = clock.now()
        # A file that cannot be used counts as kept: another version wrote it, or a person is mending it.
        if state.generation in await self.store.kept(name):
            self._done[name] = state.generation
        elif seen.whole:
            try:
                await self.keep(deployment, state.generation, seen, wanted, answer=state.sanity.known)
            except OSError as error:
                log.warning("known-good not recorded", deployment=name, why=str(error))

    async def keep(
        self,
        deployment: Deployment,
        generation: int,
        seen: Seen,
        wanted: Deployment,
        note: str | None = None,
        pinned: bool = False,
        answer: Known | None = None,
    ) -> Record:
        """Write the record. `answer` is kept where this generation gave it. Raises OSError and NotRead."""
        own = answer is not None and answer.generation == generation
        record = Record(
            deployment=deployment.name,
            generation=generation,
            recorded=rfc3339(clock.wall()),
            note=note,
            pinned=pinned,
            measured=self.figures(deployment.name, generation),
            answer={"text": answer.text, "at": rfc3339(answer.wall)} if answer is not None and own else {},
            side=seen.side,
        )
        source = await files.aside(partial(_source, deployment, wanted))
        await self.store.write(record, source)
        if unread := list(unread_clauses(seen)):
            log.warning("recorded without what could not be read", deployment=deployment.name, unread=unread)
        self._done[deployment.name] = generation
        await self.recorded(deployment.name, record)
        return record


def _source(running: Deployment, wanted: Deployment) -> str | None:
    """The deployment file, where it still says what runs and holds no secret."""
    if running.digest != wanted.digest or not wanted.file:
        return None
    try:
        text = files.read(wanted.file, MAX_FILE_BYTES).decode("utf-8")
    except (OSError, UnicodeDecodeError):
        return None  # not for us to read, or just being replaced: a record without it is a record too
    return text if Redactor.of(running)(text) == text else None


def answered(record: Record | None) -> Known | None:
    """What the fixed question was answered with then; None for a record without an answer, or with one that is none."""
    if record is None or not record.answer.get("text"):
        return None
    try:
        at = datetime.fromisoformat(record.answer.get("at", "")).timestamp()
    except (ValueError, OverflowError):
        return None
    return Known(clause(record.answer["text"]), at, record.generation)


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
