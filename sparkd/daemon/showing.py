"""All that is known, as one view; after every cycle it is shown to those who listen, and what changed goes to the notifier."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

import structlog

import sparkd
from sparkd.api import Hub
from sparkd.background.drift_watch import DriftWatch
from sparkd.base import clock
from sparkd.daemon.reload import Reloading
from sparkd.fleet.ledger import Ledger
from sparkd.journal import Event, Journal, as_json
from sparkd.model.action import SendCanary, WarmUp
from sparkd.model.decision import Decision, Failure, State
from sparkd.model.snapshot import Canary, Snapshot
from sparkd.model.view import ClusterView, DaemonFacts, node_since
from sparkd.reporting.copies import Shown
from sparkd.reporting.notices import Notifier, drifted, edges, of_nodes

log = structlog.get_logger("sparkd.daemon.showing")

CAPTURES = 5
"""For so many generations of a deployment sparkd remembers what was saved, for `why`."""
EARLIER = 10
"""Starts of a deployment whose stages are remembered, for the ETA of the next."""


class Loop(Protocol):
    """What the loop has seen and decided last."""

    @property
    def owner(self) -> str: ...

    @property
    def snapshot(self) -> Snapshot | None: ...

    @property
    def decisions(self) -> Mapping[str, Decision]: ...

    @property
    def last_loop(self) -> float: ...


class Showing:
    """The view of all that is known, and who is told of it. `publish` is called after every cycle."""

    def __init__(
        self,
        loop: Loop,
        ledger: Ledger,
        journal: Journal,
        drift_watch: DriftWatch,
        reloading: Reloading,
        notifier: Notifier,
    ) -> None:
        self._loop, self._ledger, self._journal = loop, ledger, journal
        self._drift_watch, self._reloading, self._notifier = drift_watch, reloading, notifier
        self._hub = Hub()
        self.shown = Shown(self.view)
        self._since = clock.wall()
        self._before: Mapping[str, Any] | None = None
        self._seen: Snapshot | None = None
        self._node_since: dict[str, float] = {}
        self._canaries: dict[str, Canary] = {}
        self._captures: dict[str, dict[int, Mapping[str, Any]]] = {}
        self._earlier: dict[str, tuple[Mapping[str, float], ...]] = {}

    def view(self) -> ClusterView:
        loop, ledger, now = self._loop, self._ledger, clock.now()
        cluster, wanted = ledger.config.cluster, ledger.roster.wanted
        return ClusterView(
            cluster=cluster.cluster,
            at=now,
            wall=clock.wall(),
            daemon=DaemonFacts(
                version=sparkd.__version__,
                owner=loop.owner,
                since_wall=self._since,
                loop_age_s=now - loop.last_loop if loop.last_loop else 0.0,
                read_only_disk=self._journal.read_only,
                period_s=cluster.policy.period,
                problems=self._reloading.problems,
            ),
            snapshot=loop.snapshot,
            nodes=cluster.nodes,
            deployments=(*(ledger.running(name) for name in wanted), *ledger.roster.broken),
            pending={name: ledger.pending(name) for name in wanted},
            states=dict(ledger.states),
            intents=dict(ledger.intents),
            decisions=dict(loop.decisions),
            earlier=dict(self._earlier),
            node_since=dict(self._node_since),
            canaries=dict(self._canaries),
            upkeep=ledger.upkeep.standing(),
            drift={name: found.counts for name, found in self._drift_watch.found.items()},
        )

    async def learn(self) -> None:
        """What an earlier sparkd knew: stage durations for the first ETA, and the status that people were last told of."""
        for name in self._ledger.roster.wanted:
            self._earlier[name] = tuple(await self._journal.stage_times(name))
            for event in await self._journal.history(name, limit=200):
                self._remember(event)
        self._before = self._journal.recall("status")

    async def publish(self) -> Mapping[str, Any]:
        """After a cycle: remember what only changes there, tell the listeners and the notifier. Returns the status."""
        snapshot = self._loop.snapshot
        if snapshot is not None and snapshot is not self._seen:
            self._node_since = node_since(self._seen, snapshot, self._node_since)
            self._seen = snapshot
            for name, outcome in snapshot.outcomes.items():
                if isinstance(outcome.value, Canary) and isinstance(outcome.action, SendCanary | WarmUp):
                    self._canaries[name] = outcome.value
        shown = self.shown.picture(self.view()).found
        self._hub.publish("status", shown)
        before, self._before = self._before, shown
        try:
            notes = edges(before, shown, self._ledger.config.cluster.policy.notice_after)
        except (KeyError, TypeError, ValueError, AttributeError):
            # Only what was remembered can be of another form: of an older version, a later one, or damaged.
            log.warning("the status that people were told of last is of another form and is passed over")
            notes, before = (), None
        for note in notes:
            self._notifier.offer(note)
        if notes or before is None:
            await self._journal.remember("status", shown)
        return shown

    def publish_event(self, event: Event) -> None:
        """Every event as it is journalled."""
        self._hub.publish("event", as_json(event))
        self._remember(event)
        cluster = self._ledger.config.cluster.cluster
        for note in (*drifted(cluster, event), *of_nodes(cluster, event)):
            self._notifier.offer(note)
        if event.kind == "serving" and "stages" in event.data:
            known = self._earlier.get(event.deployment, ())
            self._earlier[event.deployment] = (*known, dict(event.data["stages"]))[-EARLIER:]

    def _remember(self, event: Event) -> None:
        """Keep what was saved of the last few generations, for `why`."""
        value = event.data.get("value")
        if event.data.get("action") == "CaptureEvidence" and isinstance(value, Mapping):
            known = self._captures.setdefault(event.deployment, {})
            known[event.generation] = value
            while len(known) > CAPTURES:
                known.pop(min(known))

    def subscribe(self) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        return self._hub.subscribe()

    def cause(self, name: str) -> dict[str, Any] | None:
        """The last failure as `ctl why` shows it: what sparkd saw, then the last words of every rank of that generation."""
        state = self._ledger.states[name]
        if state.failure is None:
            return None
        saved = self._captures.get(name, {}).get(state.failure.generation, {})
        return _cause(state.failure, state, saved)


def _cause(failure: Failure, state: State, capture: Mapping[str, Any]) -> dict[str, Any]:
    evidence = [{"source": "sparkd", "line": None, "text": text} for text in failure.evidence]
    for source, lines in capture.get("last", {}).items():
        evidence += [{"source": source, "line": None, "text": line} for line in lines]
    if "folder" in capture:
        evidence.append({"source": "saved", "line": None, "text": capture["folder"]})
    return {
        "class": failure.cls.value,
        "signature": failure.signature,
        "text": failure.text,
        "confidence": "likely" if failure.evidence or failure.exit_code is not None else "unclear",
        "rank": failure.rank,
        "evidence": evidence,
        "fix": state.hold.fix if state.hold is not None else None,
    }
