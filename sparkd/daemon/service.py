"""The daemon as its API sees it: everything known as one view, wishes written down as intents."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from sparkd.api import Conflict, NotFound, Operation, Unread, Unusable
from sparkd.background.checks_runner import Checker
from sparkd.background.drift_watch import DriftWatch
from sparkd.base import clock
from sparkd.base.errors import ConfigError, HostError
from sparkd.checks.shared.report import report
from sparkd.daemon import cleanup_preview, drift_answers, rank_logs, sd_notify
from sparkd.daemon.node_wishes import NodeWishes
from sparkd.daemon.reload import Reloading
from sparkd.daemon.showing import Showing
from sparkd.daemon.wishes import Wishes
from sparkd.decide.rules import rule
from sparkd.fleet.ledger import Ledger
from sparkd.fleet.load_config import NotLoaded
from sparkd.journal import Event, Journal
from sparkd.model.config import Deployment
from sparkd.model.view import ClusterView, Pending
from sparkd.reporting import config_changes, memory_alerts, outage_list
from sparkd.reporting.copies import Shown


class Loop(drift_answers.Looks, cleanup_preview.Reached, rank_logs.Running, Protocol):
    """The loop, as far as people ask something of it."""

    async def check_now(self, name: str) -> bool:
        """Run the checks of one deployment. False before the first look at its nodes."""


@dataclass(slots=True)
class Service:
    """Implements `sparkd.api.Service`."""

    loop: Loop
    ledger: Ledger
    journal: Journal
    checker: Checker
    drift_watch: DriftWatch
    reloading: Reloading
    showing: Showing
    wishes: Wishes
    nodes: NodeWishes
    saved: Path
    """The folder of the captures."""

    @property
    def shown(self) -> Shown:
        return self.showing.shown

    def view(self) -> ClusterView:
        return self.showing.view()

    def subscribe(self) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        return self.showing.subscribe()

    # ---------------------------------------------------------------------------------------------------------- wishes

    async def operate(self, name: str, verb: str, operation: Operation) -> str:
        return await self.wishes.operate(self._known(name), verb, operation)

    def operation(self, id: str) -> Mapping[str, Any] | None:
        return self.wishes.operation(id)

    async def reload(self, by: str, message: str) -> Mapping[str, Any]:
        """Read the configuration again; systemd shows that it is under way. Raises Unusable or Unread."""
        ready = self.loop.snapshot is not None
        if ready:  # before that the unit is not even started, and READY says more than that a reload is over
            sd_notify.notify(RELOADING="1", MONOTONIC_USEC=str(time.monotonic_ns() // 1000))
        try:
            reloaded = await self.reloading.reload(by, message)
        except ConfigError as error:
            raise Unusable(error.problems) from error
        except NotLoaded as error:
            raise Unread(str(error)) from error
        finally:
            if ready:
                sd_notify.notify(READY="1")
        return {"schema": 1, **reloaded.as_json()}

    def _known(self, name: str) -> Deployment:
        deployment = self.ledger.roster.wanted.get(name)
        if deployment is None:
            broken = next((one for one in self.ledger.roster.broken if one.name == name), None)
            if broken is not None:
                raise Conflict(f"{name} is held: {broken.file} cannot be used", "sparkd config check")
            known = ", ".join(self.ledger.roster.wanted) or "none"
            raise NotFound(f"there is no deployment {name}", f"known: {known}")
        return deployment

    # --------------------------------------------------------------------------------------------------------- history

    async def history(self, deployment: str | None, limit: int, after_id: int) -> Sequence[Event]:
        return await self.journal.history(deployment, limit, after_id)

    def outages(self, name: str | None) -> Mapping[str, Any]:
        return outage_list.listing(self.journal.outages(), dict(self.ledger.states), clock.now(), name)

    def why(self, name: str) -> Mapping[str, Any]:
        policy = self._known(name).policy
        state = self.ledger.states[name]
        return {
            "schema": 1,
            "cause": self.showing.cause(name),
            "also": memory_alerts.also(state),
            "sentence": state.sentence,
            "reason": state.reason,
            "rule": rule(state.reason, policy),
            "pending": config_changes.as_json(self.ledger.pending(name)),
        }

    # ---------------------------------------------------------------------------------------------------------- checks

    def checks(self, name: str) -> Mapping[str, Any]:
        self._known(name)
        checked = self.checker.current(name, self.ledger.states[name])
        if checked is None:
            raise NotFound(f"the checks of {name} have not run yet, as it is now", f"sparkd ctl check {name} runs them")
        judged_as_it_runs = self.ledger.judged(name) == self.ledger.running(name)
        pending = self.ledger.pending(name) if judged_as_it_runs else Pending()
        said = config_changes.as_json(pending) if pending != Pending() else None
        return {**report(name, checked, clock.wall() - (clock.now() - checked.at)), "pending": said}

    async def check(self, name: str) -> Mapping[str, Any]:
        self._known(name)
        if not await self.loop.check_now(name):
            self._known(name)
            raise Conflict(f"{name} cannot be checked before the first look at its nodes", "ask again in a moment")
        return self.checks(name)

    # ------------------------------------------------------------------------------------------- drift, clean-up, logs

    def drifts(self, name: str) -> drift_answers.Drifts:
        self._known(name)
        return drift_answers.Drifts(name, self.drift_watch, self.loop)

    async def cleanup(self, name: str, clean: bool) -> Mapping[str, Any]:
        try:
            return {"schema": 1, "nodes": await cleanup_preview.would_clean(self.loop, self._known(name), clean)}
        except HostError as gone:
            raise Conflict(str(gone), "ask again in a moment") from None

    def captures(self, name: str) -> Path:
        return self.saved / name

    def logs(self, name: str, tail: int, follow: bool) -> AsyncIterator[Mapping[str, Any]]:
        self._known(name)
        return rank_logs.RankLogs(self.ledger.running(name), self.loop).lines(tail, follow)
