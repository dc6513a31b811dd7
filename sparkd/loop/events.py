"""What happens to deployments -> the journal, the counters, and the listeners."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sparkd.act.runner import describe, result
from sparkd.base import clock
from sparkd.fleet.ledger import durable
from sparkd.journal import Event, Journal
from sparkd.model.action import AskSanity, SendCanary
from sparkd.model.decision import Intent, State
from sparkd.model.snapshot import Canary, Outcome
from sparkd.model.view import stage_seconds
from sparkd.reporting.metrics import Counters
from sparkd.verbs import verbs


@dataclass(slots=True)
class Chronicle:
    journal: Journal
    counters: Counters
    listener: Callable[[Event], None] = lambda event: None
    """Called with every event as it is journalled."""

    _kept: dict[str, State] = field(default_factory=dict)
    """Deployment -> what is worth a write of its state, as it was written last."""

    async def decided(self, name: str, before: State, state: State) -> None:
        """Keep the state where it has changed, and with it the record of an outage that has just ended."""
        kept = durable(state)
        if kept == self._kept.get(name):
            return
        ended = state.last_outage if state.last_outage != before.last_outage else None
        await self.journal.save_state(name, state, ended)
        if ended is not None and not ended.asked:
            self.counters.outage(name, ended.down_s(0.0))
        self._kept[name] = kept

    def forget(self, name: str) -> None:
        """Called when a deployment is removed."""
        self._kept.pop(name, None)

    async def happened(
        self,
        name: str,
        state: State,
        intent: Intent,
        kind: str,
        sentence: str,
        reason: str,
        data: Mapping[str, Any] | None = None,
    ) -> None:
        """Journal one event. Only events that a person asked for say who asked and why; the others sparkd caused by itself."""
        failure = state.failure if kind == "failed" else None
        asked = any(kind == verb.event for verb in verbs().values())
        event = Event(
            at=clock.wall(),
            deployment=name,
            generation=state.generation,
            kind=kind,
            sentence=sentence,
            reason=reason,
            cls=failure.cls.value if failure else "",
            signature=failure.signature if failure else "",
            by=intent.by if asked else "",
            message=intent.message if asked else "",
            data=data if data is not None else _details(kind, state),
        )
        self.listener(await self.journal.record(event))
        self._count(name, kind, state)

    async def record(self, event: Event) -> None:
        """Journal an event that concerns more than one deployment."""
        self.listener(await self.journal.record(event))

    async def ended(self, name: str, state: State, intent: Intent, started_at: float, outcome: Outcome) -> None:
        """Journal how an action ended. A canary that was answered is no news."""
        canary = outcome.value
        if isinstance(outcome.action, AskSanity) and isinstance(canary, Canary) and canary.ok:
            return  # what it was worth is decided, and told, with the next look
        if isinstance(canary, Canary):
            self.counters.canary(name, canary.ended_at - canary.sent_at, canary.tokens_per_second)
            if isinstance(outcome.action, SendCanary) and canary.ok:
                return
        took = outcome.ended_at - started_at
        said = f"done in {took:.1f} s" if outcome.ok else f"failed after {took:.1f} s: {outcome.error}"
        if isinstance(canary, Canary) and not canary.ok:
            said = f"failed after {took:.1f} s: {canary.why}"
        if told := result(outcome):
            said = f"{said}; {told}"
        kind = type(outcome.action).__name__
        data = {"action": kind, "ok": outcome.ok, "seconds": round(took, 3), "value": _plain(outcome.value)}
        sentence = f"{describe(outcome.action)}: {said}"
        await self.happened(name, state, intent, "action", sentence, outcome.code or "action", data)

    def _count(self, name: str, kind: str, state: State) -> None:
        if kind == "starting" and state.cause is not None:
            self.counters.started(name, state.cause.value)
        elif kind == "failed" and state.failure is not None:
            self.counters.failed(name, state.failure.cls.value, state.failure.signature)
        elif kind == "serving":
            for stage, seconds in _stages(state).items():
                self.counters.stage(name, stage, seconds)


def _stages(state: State) -> dict[str, float]:
    return {name: round(seconds, 3) for name, seconds in stage_seconds(state.stages, state.since).items()}


def _details(kind: str, state: State) -> dict[str, Any]:
    if kind == "serving" and state.started_at is not None:
        return {"stages": _stages(state), "seconds": round(state.since - state.started_at, 3)}
    if kind == "failed" and state.failure is not None:
        failure = state.failure
        return {"evidence": list(failure.evidence), "exit_code": failure.exit_code, "rank": failure.rank}
    return {}


def _plain(value: object) -> object:
    return value if isinstance(value, dict | str | int | float | bool | None) else None
