"""The daemon as its API sees it: everything known as one view, wishes written down as intents."""

from __future__ import annotations

import time
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import sparkd
from sparkd.api import Conflict, Hub, Invalid, NotFound, Operation, Unread, Unusable, Unwritable
from sparkd.base import clock
from sparkd.base.errors import ConfigError, HostError
from sparkd.checks.report import report
from sparkd.daemon import sd_notify
from sparkd.daemon.cleanup_preview import would_clean
from sparkd.daemon.drift_answers import Drifts
from sparkd.daemon.rank_logs import RankLogs
from sparkd.daemon.reload import Reloading
from sparkd.decide.rules import rule
from sparkd.fleet.load_config import NotLoaded
from sparkd.journal import Event, JournalError, as_json
from sparkd.loop.supervisor import Supervisor
from sparkd.model.action import SendCanary, WarmUp
from sparkd.model.config import Deployment
from sparkd.model.decision import Failure, State
from sparkd.model.snapshot import Canary, Snapshot
from sparkd.model.view import ClusterView, DaemonFacts, Pending, node_since
from sparkd.reporting import config_changes
from sparkd.reporting import outage_list as outages
from sparkd.reporting.copies import Shown
from sparkd.reporting.notices import Notifier, drifted, edges
from sparkd.verbs import Verb, Wish, changed, progress, verbs

CAPTURES = 5
REMEMBERED = 200
"""Operations whose outcome can still be asked for."""


class Service:
    """Implements `sparkd.api.Service` over the supervisor; `publish` is called after every cycle."""

    def __init__(self, supervisor: Supervisor, notifier: Notifier, reloading: Reloading) -> None:
        self._supervisor, self._notifier, self._reloading = supervisor, notifier, reloading
        self._hub, self._wishes = Hub(), dict[str, Wish]()
        self.shown = Shown(self.view)
        self._since = clock.wall()
        self._before: Mapping[str, Any] | None = None
        self._seen: Snapshot | None = None
        self._node_since: dict[str, float] = {}
        self._canaries: dict[str, Canary] = {}
        self._captures: dict[str, dict[int, Mapping[str, Any]]] = {}
        self._earlier: dict[str, tuple[Mapping[str, float], ...]] = {}
        supervisor.chronicle.heard = self._heard

    # ----------------------------------------------------------------------------------------------------------- shown

    def view(self) -> ClusterView:
        supervisor, now = self._supervisor, clock.now()
        ledger = supervisor.ledger
        running = [ledger.running(name) for name in ledger.roster.wanted]
        return ClusterView(
            cluster=supervisor.cluster.cluster,
            at=now,
            wall=clock.wall(),
            daemon=DaemonFacts(
                version=sparkd.__version__,
                owner=supervisor.owner,
                since_wall=self._since,
                loop_age_s=now - supervisor.last_loop if supervisor.last_loop else 0.0,
                read_only_disk=supervisor.journal.read_only,
                period_s=supervisor.cluster.policy.period,
                problems=self._reloading.problems,
            ),
            snapshot=supervisor.snapshot,
            nodes=supervisor.cluster.nodes,
            deployments=(*running, *ledger.roster.broken),
            pending={name: ledger.pending(name) for name in ledger.roster.wanted},
            states=dict(supervisor.states),
            intents=dict(supervisor.intents),
            decisions=dict(supervisor.decisions),
            earlier=dict(self._earlier),
            node_since=dict(self._node_since),
            canaries=dict(self._canaries),
            drift={name: found.counts for name, found in supervisor.drifter.found.items()},
        )

    async def learn(self) -> None:
        """What an earlier sparkd knew: stage durations for the first ETA, and the status that people were last told of."""
        for name in self._supervisor.deployments:
            self._earlier[name] = tuple(await self._supervisor.journal.stage_times(name))
            for event in await self._supervisor.journal.history(name, limit=200):
                self._remember(event)
        self._before = self._supervisor.journal.recall("status")

    async def publish(self) -> Mapping[str, Any]:
        """After a cycle: remember what only changes there, tell the listeners and the notifier. Returns the status."""
        snapshot = self._supervisor.snapshot
        if snapshot is not None and snapshot is not self._seen:
            self._node_since = node_since(self._seen, snapshot, self._node_since)
            self._seen = snapshot
            for name, outcome in snapshot.outcomes.items():
                if isinstance(outcome.value, Canary) and isinstance(outcome.action, SendCanary | WarmUp):
                    self._canaries[name] = outcome.value
        shown = self.shown.picture(self.view()).found
        self._hub.publish("status", shown)
        notes = edges(self._before, shown, self._supervisor.cluster.policy.notice_after)
        for note in notes:
            self._notifier.offer(note)
        if notes:
            await self._supervisor.journal.remember("status", shown)
        self._before = shown
        return shown

    def _heard(self, event: Event) -> None:
        """Every event as it is journalled."""
        self._hub.publish("event", as_json(event))
        self._remember(event)
        for note in drifted(self._supervisor.cluster.cluster, event):
            self._notifier.offer(note)
        if event.kind == "serving" and "stages" in event.data:
            known = self._earlier.get(event.deployment, ())
            self._earlier[event.deployment] = (*known, dict(event.data["stages"]))[-10:]

    def _remember(self, event: Event) -> None:
        """Keep what was saved of the last few generations, for `why`."""
        value = event.data.get("value")
        if event.data.get("action") == "CaptureEvidence" and isinstance(value, Mapping):
            known = self._captures.setdefault(event.deployment, {})
            known[event.generation] = value
            while len(known) > CAPTURES:
                known.pop(min(known))

    # ---------------------------------------------------------------------------------------------------------- wishes

    async def operate(self, name: str, verb: str, operation: Operation) -> str:
        """Write the wish down as the new intent; the loop does the rest. Raises Conflict, NotFound, Invalid, Unwritable."""
        deployment, asked = self._known(name), verbs()[verb]
        named = {node for one in asked.takes if one.nodes for node in operation.options.get(one.key, ())}
        strangers = sorted(named - set(deployment.nodes))
        if strangers:
            raise Invalid(
                f"{', '.join(strangers)} is no node of {name}", f"its nodes are {', '.join(deployment.nodes)}"
            )
        supervisor = self._supervisor
        before, state = supervisor.intents[name], supervisor.states[name]
        refused = asked.conflict(before, state)
        if refused is not None:
            raise Conflict(f"{name}: {refused[0]}", refused[1].format(name=name))
        self._must_have_a_file(name, asked)
        wanted = changed(before, asked, operation.options, operation.by, operation.message, clock.wall())
        try:
            await supervisor.want(name, wanted, verb)
        except JournalError as error:
            raise Unwritable(
                f"the wish could not be written down, so nothing is done: {error}", "free the disk"
            ) from error
        wish = Wish(uuid.uuid4().hex[:12], name, verb, clock.now(), state.generation)
        self._wishes[wish.id] = wish
        while len(self._wishes) > REMEMBERED:
            self._wishes.pop(next(iter(self._wishes)))
        return wish.id

    def _must_have_a_file(self, name: str, verb: Verb) -> None:
        """A start that a person asks for goes by the file; one that sparkd makes by itself goes by what it knows."""
        fileless = self._supervisor.ledger.roster.fileless
        if not verb.starts or name not in fileless:
            return
        broken = fileless[name]
        if broken is None:
            raise Conflict(f"{name}: its file is gone", f"put it back, or end it for good: sparkd ctl stop {name}")
        raise Conflict(f"{name}: its file cannot be used: {broken.problems[0]}", "correct it, then: sparkd ctl reload")

    async def reload(self, by: str, message: str) -> Mapping[str, Any]:
        """Read the configuration again; systemd shows that it is under way. Raises Unusable or Unread."""
        ready = self._supervisor.snapshot is not None
        if ready:  # before that the unit is not even started, and READY says more than that a reload is over
            sd_notify.notify(RELOADING="1", MONOTONIC_USEC=str(time.monotonic_ns() // 1000))
        try:
            reloaded = await self._reloading.reload(by, message)
        except ConfigError as error:
            raise Unusable(error.problems) from error
        except NotLoaded as error:
            raise Unread(str(error)) from error
        finally:
            if ready:
                sd_notify.notify(READY="1")
        return {"schema": 1, **reloaded.as_json()}

    def operation(self, id: str) -> Mapping[str, Any] | None:
        wish = self._wishes.get(id)
        if wish is None:
            return None
        supervisor = self._supervisor
        state, intent = supervisor.states.get(wish.deployment), supervisor.intents.get(wish.deployment)
        stands, sentence = progress(wish, intent, state)
        known = {"operation": id, "deployment": wish.deployment, "verb": wish.verb}
        return {"schema": 1, **known, "state": stands, "sentence": sentence}

    def _known(self, name: str) -> Deployment:
        deployment = self._supervisor.deployments.get(name)
        if deployment is None:
            broken = next((one for one in self._supervisor.ledger.roster.broken if one.name == name), None)
            if broken is not None:
                raise Conflict(f"{name} is held: {broken.file} cannot be used", "sparkd config check")
            known = ", ".join(self._supervisor.deployments) or "none"
            raise NotFound(f"there is no deployment {name}", f"known: {known}")
        return deployment

    # ---------------------------------------------------------------------------------------------------------- history

    async def history(self, deployment: str | None, limit: int, after_id: int) -> Sequence[Event]:
        return await self._supervisor.journal.history(deployment, limit, after_id)

    def outages(self, name: str | None) -> Mapping[str, Any]:
        return outages.listing(self._supervisor.journal.outages(), dict(self._supervisor.states), clock.now(), name)

    def subscribe(self) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        return self._hub.subscribe()

    def why(self, name: str) -> Mapping[str, Any]:
        self._known(name)
        state = self._supervisor.states[name]
        saved = self._captures.get(name, {})
        cause = _cause(state.failure, state, saved) if state.failure is not None else None
        return {
            "schema": 1,
            "cause": cause,
            "also": [],
            "sentence": state.sentence,
            "reason": state.reason,
            "rule": rule(state.reason),
            "pending": config_changes.as_json(self._supervisor.ledger.pending(name)),
        }

    # ---------------------------------------------------------------------------------------------------------- checks

    def checks(self, name: str) -> Mapping[str, Any]:
        self._known(name)
        checked = self._supervisor.checker.current(name, self._supervisor.states[name])
        if checked is None:
            raise NotFound(f"the checks of {name} have not run yet, as it is now", f"sparkd ctl check {name} runs them")
        ledger = self._supervisor.ledger
        pending = ledger.pending(name) if ledger.judged(name) == ledger.running(name) else Pending()
        said = config_changes.as_json(pending) if pending != Pending() else None
        return {**report(name, checked, clock.wall() - (clock.now() - checked.at)), "pending": said}

    async def check(self, name: str) -> Mapping[str, Any]:
        self._known(name)
        if not await self._supervisor.check_now(name):
            self._known(name)
            raise Conflict(f"{name} cannot be checked before the first look at its nodes", "ask again in a moment")
        return self.checks(name)

    # ----------------------------------------------------------------------------------------------------------- drift

    def drifts(self, name: str) -> Drifts:
        self._known(name)
        return Drifts(name, self._supervisor.drifter, self._supervisor)

    async def cleanup(self, name: str, clean: bool) -> Mapping[str, Any]:
        try:
            return {"schema": 1, "nodes": await would_clean(self._supervisor, self._known(name), clean)}
        except HostError as gone:
            raise Conflict(str(gone), "ask again in a moment") from None

    # ------------------------------------------------------------------------------------------------------------ logs

    def captures(self, name: str) -> Path:
        return self._supervisor.captures / name

    def logs(self, name: str, tail: int, follow: bool) -> AsyncIterator[Mapping[str, Any]]:
        self._known(name)
        return RankLogs(self._supervisor.ledger.running(name), self._supervisor).lines(tail, follow)


def _cause(failure: Failure, state: State, saved: Mapping[int, Mapping[str, Any]]) -> dict[str, Any]:
    """The failure as `ctl why` shows it: what sparkd saw, then the last words of every rank of that generation."""
    evidence = [{"source": "sparkd", "line": None, "text": text} for text in failure.evidence]
    capture = saved.get(failure.generation, {})
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
