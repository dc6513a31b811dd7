"""Configuration and journal -> what there is to supervise: by which file, as started how, decided what, wanted what."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

import anyio
import structlog

from sparkd.base import clock
from sparkd.decide.standing import woken
from sparkd.fleet.roster import Roster, may_run, roster
from sparkd.fleet.upkeep import UpkeepLedger
from sparkd.journal import UNREAD, Journal, JournalError
from sparkd.model.config import Config, Deployment, as_started
from sparkd.model.decision import ASK_ENGINE, STARTING, Intent, Phase, State, Watch
from sparkd.model.snapshot import Snapshot
from sparkd.model.view import Pending
from sparkd.reporting.metrics import Counters

log = structlog.get_logger("sparkd")


@dataclass(slots=True)
class Ledger:
    config: Config
    journal: Journal
    counters: Counters
    states: dict[str, State] = field(default_factory=dict)
    intents: dict[str, Intent] = field(default_factory=dict)
    roster: Roster = field(init=False)
    wishing: anyio.Lock = field(default_factory=anyio.Lock)
    """Held from the reading of what is wanted to the writing of something else."""
    upkeep: UpkeepLedger = field(init=False)
    """What is known of nodes: planned work, and uses of their power hooks."""

    def __post_init__(self) -> None:
        self.upkeep = UpkeepLedger(self.journal, lambda: self.config.cluster.nodes)
        self.roster = roster(self.config, {})

    async def load(self) -> None:
        """Bring back what was decided and wanted before; every deployment begins by looking (rule 5)."""
        self.upkeep.load()
        states = await self._remembered()
        kept = {name: state.started for name, state in states.items() if state.started is not None}
        self.roster = roster(self.config, kept)
        await self._welcome(states)
        if self.journal.intents_lost:
            await self._nobody_knows()

    async def _nobody_knows(self) -> None:
        """A deployment of which nothing is written may have been stopped by a person as well (rule 8)."""
        written = await self.journal.load_intents()
        for name in self.intents.keys() - written.keys():
            await self._intends(name, replace(UNREAD, wanted=self.intents[name].wanted))

    async def found_again(self, seen: Snapshot) -> dict[str, frozenset[str]]:
        """Deployment -> its nodes that were declared lost and can be read again: they are lost no more, and what runs there
        is a stale generation (rule 1)."""
        back: dict[str, frozenset[str]] = {}
        if self.wishing.locked():
            return back  # a person's wish is being written; the next look finds them as well
        for name, intent in list(self.intents.items()):
            runtime = self.roster.wanted[name].runtime if name in self.roster.wanted else "docker"
            views = {node: seen.nodes[node] for node in intent.lost if node in seen.nodes}
            if found := frozenset(node for node, view in views.items() if view.unread_for(runtime) is None):
                await self._intends(name, replace(intent, lost=intent.lost - found))
                back[name] = found
        return back

    async def _intends(self, name: str, intent: Intent) -> None:
        """Keeps a change that sparkd itself makes to an intent. A full disk must not stop supervision: a restarted sparkd finds
        out again."""
        self.intents[name] = intent
        try:
            await self.journal.save_intent(name, intent)
        except JournalError as error:
            log.warning("not written down", deployment=name, why=str(error))

    async def reload(self, config: Config, busy: Collection[str]) -> list[str]:
        """Go on with another configuration. What may be running stays, whatever became of its file; returns what went."""
        kept = {name: one for name, one in self.roster.wanted.items() if self._may_run(name, busy)}
        self.config, self.roster = config, roster(config, kept)
        gone = [name for name in self.states if name not in self.roster.wanted]
        for name in gone:
            del self.states[name], self.intents[name]
        await self._welcome(await self._remembered())
        return gone

    async def _remembered(self) -> dict[str, State]:
        states = await self.journal.load_states()
        return {name: _woken(state, self.config.cluster.nodes) for name, state in states.items()}

    async def _welcome(self, states: Mapping[str, State]) -> None:
        """New deployments begin with the state and the intent that the journal has of them."""
        intents = await self.journal.load_intents()
        for name, deployment in self.roster.wanted.items():
            if name not in self.states:
                self.states[name] = state = states.get(name) or _woken(State(), ())
                # Started and never stopped: an `autostart` that was taken back since must not stop it.
                up = deployment.autostart or state.started is not None
                self.intents[name] = intents.get(name) or Intent(wanted="up" if up else "stopped")
                down = sum(out.down_s(0.0) for of, out in self.journal.outages() if of == name and not out.asked)
                self.counters.know(name, down)

    # ---------------------------------------------------------------------------------------------------------- running

    def running(self, name: str) -> Deployment:
        """The deployment as it was started, as long as anything of it may run."""
        return as_started(self.states[name].started, self.roster.wanted[name])

    def judged(self, name: str) -> Deployment:
        """What the checks look at: while ranks may run, what they were started with; else what the next start goes by."""
        return self.running(name) if self.states[name].phase in ASK_ENGINE else self.roster.wanted[name]

    def pending(self, name: str) -> Pending:
        """What its file says by now, beside what may be running."""
        return self.roster.pending(name, self.states[name])

    def looked_for(self) -> list[Deployment]:
        """Every deployment as it runs; and as its changed file says, where a start by that file may be near."""
        running = {name: self.running(name) for name in self.roster.wanted}
        others = (one for name, one in self.roster.wanted.items() if one is not running[name])
        return [*running.values(), *(one for one in others if self.states[one.name].phase not in ASK_ENGINE)]

    def starting_nodes(self, besides: str) -> frozenset[str]:
        """Nodes on which an engine of another deployment is between start and ready."""
        others = (name for name, state in self.states.items() if name != besides and state.phase in STARTING)
        return frozenset(node for name in others for node in self.running(name).nodes)

    def nodes_in_use(self) -> dict[str, str]:
        """Node -> a deployment that was started there and has not been stopped since."""
        started = [(name, state.started) for name, state in self.states.items() if state.started is not None]
        return {node: name for name, deployment in started for node in deployment.nodes}

    def _may_run(self, name: str, busy: Collection[str]) -> bool:
        return may_run(self.states[name]) or name in busy

    def stopped_without_a_file(self, busy: Collection[str]) -> list[str]:
        """Without a usable file a deployment goes on as it is, until nothing of it runs. `busy` have an action under way."""
        return [name for name in self.roster.fileless if not self._may_run(name, busy)]

    def drop(self, name: str) -> None:
        """Nothing of it runs, and there is no usable file by which it could be started."""
        self.roster = self.roster.without(name)
        del self.states[name], self.intents[name]


def _woken(state: State, nodes: Collection[str]) -> State:
    """The same, for this configuration: nodes that are not configured cannot be looked at."""
    started = state.started if state.started is not None and set(state.started.nodes) <= set(nodes) else None
    return woken(replace(state, started=started), clock.now())


def durable(state: State) -> State:
    """What is worth a write: everything but the clocks of health, the words, and when a hold is looked at again."""
    retry_at = None if state.phase is Phase.HELD else state.retry_at
    launch = state.launch.durable()
    return replace(state, watch=Watch(), launch=launch, looked_at=None, sentence="", reason="", retry_at=retry_at)
