"""The loop: look, decide, act on one thing per deployment, look again.

Everything it knows of a deployment is in `State` and `Intent`; the state is persisted before anything is done with it. Actions
run beside the loop, at most one per deployment; the loop never waits for one and never for a node longer than its deadline.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import anyio
import structlog
from anyio.abc import TaskGroup

from sparkd.act.asked import AskedEngines
from sparkd.act.hands import Hands
from sparkd.background.checks_runner import Checker
from sparkd.background.drift_watch import DriftWatch, drift_watch
from sparkd.background.parser_interview import Asking
from sparkd.base import clock
from sparkd.base.guarded import guarded
from sparkd.decide.evidence import late
from sparkd.decide.machine import step
from sparkd.fleet.ledger import Ledger
from sparkd.journal import Journal
from sparkd.loop import reboots
from sparkd.loop.actions import InFlight
from sparkd.loop.events import Chronicle
from sparkd.model.config import Cluster, Config, Deployment
from sparkd.model.decision import Decision, Intent, State
from sparkd.model.snapshot import Outcome, Snapshot
from sparkd.observe import NodeAccess, Observer
from sparkd.observe.survey import Surveyor
from sparkd.reporting.metrics import Counters

log = structlog.get_logger("sparkd")

CHAIN = 8
"""Decisions made on one snapshot while each only changes the phase; a plan never needs more."""
CHECKED_AGAIN = 3
"""Runs of the checks for a person who asked, in case each one sees its generation end meanwhile."""
READABLE_S = 5.0
"""For a node to be connected, before it is checked as it is: an SSH connection takes 0.2 s."""
GAP_S = 0.1
"""Between two looks at the least, however much Docker has to say."""


@dataclass(slots=True)
class Supervisor:
    ledger: Ledger
    journal: Journal
    access: Mapping[str, NodeAccess]
    owner: str
    captures: Path
    counters: Counters
    published: Callable[[], Awaitable[None]] = field(init=False)
    """Called after every cycle, when all that is shown is consistent."""
    states: dict[str, State] = field(init=False)
    intents: dict[str, Intent] = field(init=False)
    """Both are the ledger's own."""
    decisions: dict[str, Decision] = field(default_factory=dict)
    snapshot: Snapshot | None = None
    last_loop: float = 0.0
    between_looks: anyio.Lock = field(default_factory=anyio.Lock)
    """Held while the loop looks and decides, and by every task that changes the configuration."""
    chronicle: Chronicle = field(init=False)
    checker: Checker = field(init=False)
    drift_watch: DriftWatch = field(init=False)
    in_flight: InFlight = field(init=False)
    _observer: Observer = field(init=False)
    _group: TaskGroup | None = None
    _wake: anyio.Event = field(default_factory=anyio.Event)
    _stood_still: bool = False
    """sparkd itself did not run for a while during the last look."""
    _looked: anyio.Event = field(default_factory=anyio.Event)
    """Set, and replaced by another, when a look has ended."""

    def __post_init__(self) -> None:
        journal = self.journal
        self.chronicle = Chronicle(journal, self.counters)
        state, surveyor = self.captures.parent, Surveyor(self.access, self.owner)
        asking = Asking(self.access, self.owner, state)
        self.drift_watch = drift_watch(
            surveyor, asking, self.owner, self.ledger, state, AskedEngines(self._hands), self._record, journal
        )
        self.checker = Checker(surveyor, asking, self.owner, self.wake, self.drift_watch.before_start)
        self._observer = Observer(self.cluster, self.access, self.owner, self.wake, self.ledger.upkeep.standing)
        self.in_flight = InFlight(self._hands, self._ended, self.wake)
        self.states, self.intents = self.ledger.states, self.ledger.intents

    @property
    def cluster(self) -> Cluster:
        return self.ledger.config.cluster

    @property
    def deployments(self) -> Mapping[str, Deployment]:
        """What the next start of each goes by; what runs is `ledger.running`."""
        return self.ledger.roster.wanted

    async def reload(self, config: Config) -> None:
        """Go on with another configuration; the caller holds `between_looks`."""
        for name in await self.ledger.reload(config, self.in_flight):
            self._forget(name)
        self._observer.configure(config.cluster)
        self.wake()

    async def _forget_stopped(self) -> None:
        """Without a usable file a deployment goes on until it is stopped, and no longer."""
        for name in self.ledger.stopped_without_a_file(self.in_flight):
            await self._record(name, "removed", "it has no usable file and nothing of it runs: removed", "removed")
            self.ledger.drop(name)
            self._forget(name)

    def _forget(self, name: str) -> None:
        self.decisions.pop(name, None)
        self.in_flight.forget(name)
        self.chronicle.forget(name)
        self.drift_watch.forget(name)

    # ------------------------------------------------------------------------------------------------------------ start

    async def want(self, name: str, intent: Intent, verb: str) -> None:
        """Write down what a person wants and look at once. Raises JournalError when it cannot be written (rule 8)."""
        await self.journal.save_intent(name, intent)
        self.intents[name] = intent
        log.info(f"{verb} asked", deployment=name, by=intent.by, message=intent.message)
        self.wake()

    @asynccontextmanager
    async def background(self, work: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
        """Run `work` beside a generator that others drive, which must not hold a task group of its own."""
        scope = anyio.CancelScope()

        async def bounded() -> None:
            with scope:
                await guarded(work, "work beside the loop")

        if self._group is not None:
            self._group.start_soon(bounded)
        try:
            yield
        finally:
            scope.cancel()

    async def _record(self, name: str, kind: str, sentence: str, reason: str) -> None:
        await self.chronicle.happened(name, self.states[name], self.intents[name], kind, sentence, reason)

    def wake(self) -> None:
        """Look now instead of at the next period: an action ended, Docker said something, a person wants something."""
        self._wake.set()

    # ------------------------------------------------------------------------------------------------------------- loop

    async def run(self) -> None:
        """Look, decide and act for ever. A cycle that fails is logged with its trace and the next one is made: an engine that
        serves needs no sparkd, a dead one does."""
        async with anyio.create_task_group() as self._group:
            planned = clock.now()
            while True:
                again = await guarded(self._published_cycle, "cycle") or False
                planned = await self._pause(planned, again)

    async def _published_cycle(self) -> bool:
        started = clock.now()
        async with self.between_looks:
            again = await self.cycle()
        self.counters.loop(clock.now() - started)
        self.last_loop = clock.now()
        # What is decided holds also where it cannot be shown.
        await guarded(self.published, "publishing")
        return again

    async def _pause(self, planned: float, again: bool) -> float:
        """Wait for the next planned time, or less when woken. Returns the new planned time."""
        period = self.cluster.policy.period
        await anyio.sleep(GAP_S)
        planned = max(planned + period, clock.now())
        if not again:
            with anyio.move_on_after(planned - clock.now()):
                await self._wake.wait()
        self._wake = anyio.Event()
        return min(planned, clock.now())

    async def cycle(self) -> bool:
        """One look and one decision per deployment. True when another look is needed at once."""
        began = clock.now()
        looked = await self._observer.look(self.ledger.looked_for(), self.states)
        stood_still = late(began, looked, self.cluster.policy, clock.now())
        if stood_still and not self._stood_still:
            # It shows how things were before. But a machine that is that slow every time is supervised all the same.
            self._stood_still = True
            return True
        self._stood_still = stood_still
        for name, nodes in (await self.ledger.found_again(looked)).items():
            await self._record(name, "found", f"{', '.join(sorted(nodes))} is back", "node-found")
        ended, busy = self.in_flight.outcomes(began), self.in_flight.actions()
        found = {name: self.checker.current(name, state) for name, state in self.states.items()}
        checks = {name: one for name, one in found.items() if one is not None}
        self.snapshot = replace(looked, outcomes=ended, busy=busy, checks=checks)
        self._looked.set()
        self._looked = anyio.Event()
        again = False
        for name in self.deployments:
            again |= await self._decide(name, self.snapshot)
        self._check(self.snapshot)
        self._observer.memory.follow(self._group)
        self.drift_watch.look(self._group, self.snapshot)
        if self.checker.boots:  # the checks have read them anew, every few minutes
            booted, self.checker.boots = self.checker.boots, {}
            await reboots.tell(self.journal, self.snapshot.nodes, booted, self.deployments.values(), self._record)
        await self._forget_stopped()
        return again

    def _check(self, seen: Snapshot) -> None:
        """Start the checks that are due; nothing waits for them but a start."""
        for name in self.deployments:
            deployment = self.ledger.judged(name)
            due = self.checker.due(name, self.states[name], self.cluster.policy.hold_recheck)
            # While a node cannot be asked nothing starts, and a run would only say so.
            if due and self._group is not None and seen.readable(deployment.nodes, deployment.runtime):
                self.checker.start(self._group, self.cluster, deployment, self.states[name], seen)
        if self._group is not None:
            self.checker.asking.follow(self._group, self.deployments.values(), self.states, seen.nodes)

    async def check_now(self, name: str) -> bool:
        """Run the checks of one deployment. False before the first look at its nodes."""
        self.checker.asking.again()
        await self.readable_soon(self.ledger.judged(name))
        for _ in range(CHECKED_AGAIN):
            seen, state = self.snapshot, self.states.get(name)  # a reload may have taken it away
            if seen is None or state is None:
                return False
            deployment = self.ledger.judged(name)
            if not set(deployment.nodes) <= seen.nodes.keys():
                return False
            await self.checker.run(self.cluster, deployment, state, seen)
            if (now := self.states.get(name)) is None or self.checker.current(name, now) is not None:
                break  # else another generation began meanwhile, of which this says nothing
        return True

    async def readable_soon(self, deployment: Deployment) -> None:
        """Right after sparkd's own start a node may not be connected yet: that is worth a moment, and no finding."""
        with anyio.move_on_after(READABLE_S):
            while self.snapshot is None or not self.snapshot.readable(deployment.nodes, deployment.runtime):
                self.wake()
                await self._looked.wait()

    async def _decide(self, name: str, snapshot: Snapshot) -> bool:
        if self.in_flight.binds(name):
            return False
        if self.in_flight.unseen(name, snapshot.outcomes):
            return True  # an action ended during this look: what was seen may be older than what was done
        moved = False
        for _ in range(CHAIN):
            before = self.states[name]
            deployment = self.deployments[name]
            policy = replace(deployment.policy, period=self.cluster.policy.period)  # there is one loop
            decision = step(deployment, before, snapshot, self.intents[name], policy, clock.now())
            if name in snapshot.outcomes:  # shown once; one that ends meanwhile waits for the next look
                self.in_flight.forget(name)
                snapshot = replace(snapshot, outcomes={})
            await self._adopt_decision(name, before, decision)
            moved |= decision.state.phase is not before.phase
            if decision.actions or decision.state.phase is before.phase:
                break
        if self._group is not None:
            self.in_flight.follow(self._group, name, decision)
        return moved and name not in self.in_flight

    async def _adopt_decision(self, name: str, before: State, decision: Decision) -> None:
        self.states[name], self.decisions[name] = decision.state, decision
        await self.chronicle.decided(name, before, decision.state)
        for kind, sentence in decision.events:
            await self._record(name, kind, sentence, decision.reason)
        if decision.state.phase is not before.phase:
            self.counters.phase(name, before.phase.value, clock.now() - before.since)
        if decision.reason != before.reason:
            state = decision.state
            about = {"phase": state.phase.value, "reason": decision.reason, "generation": state.generation}
            log.info(decision.sentence, deployment=name, **about)

    # ---------------------------------------------------------------------------------------------------------- actions

    async def _ended(self, name: str, started_at: float, outcome: Outcome) -> None:
        await self.chronicle.ended(name, self.states[name], self.intents[name], started_at, outcome)

    def _hands(self, name: str) -> Hands:
        return Hands(
            cluster=self.cluster,
            deployment=self.ledger.running(name),
            owner=self.owner,
            runtimes={node: access.runtimes for node, access in self.access.items()},
            clients={node: access.client for node, access in self.access.items()},
            captures=self.captures,
            starting=self.ledger.starting_nodes(besides=name),
        )
