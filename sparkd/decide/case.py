"""What one decision looks at, and the few ways a decision can be said."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from sparkd.decide import budget
from sparkd.decide.group import Group, gather
from sparkd.engines import ENGINES, Engine
from sparkd.model.action import Action
from sparkd.model.config import Deployment, Policy
from sparkd.model.decision import Decision, Intent, Phase, Planned, State
from sparkd.model.snapshot import EngineView, Outcome, Snapshot


@dataclass(frozen=True, slots=True)
class Case:
    """`deployment` is what runs, as it was started; `wanted` is the same by its file, which the next start goes by."""

    deployment: Deployment
    state: State
    snapshot: Snapshot
    intent: Intent
    policy: Policy
    now: float
    group: Group
    engine: Engine
    wanted: Deployment
    late: bool = False
    """sparkd itself stood still before this look (SIGSTOP, a suspended machine): what it knew before is that old."""

    def anew(self) -> Case:
        """The same, looked at as the next start will need it: its file may name other nodes, ports and images."""
        if self.wanted is self.deployment:
            return self
        group = gather(self.wanted, self.state, self.snapshot, self.intent)
        return replace(self, deployment=self.wanted, group=group, engine=ENGINES[self.wanted.engine])

    @property
    def view(self) -> EngineView | None:
        return self.snapshot.engines.get(self.deployment.name)

    @property
    def outcome(self) -> Outcome | None:
        return self.snapshot.outcomes.get(self.deployment.name)

    def outcome_of(self, kind: type[Any]) -> Outcome | None:
        """The action that just ended, if it was of this kind."""
        outcome = self.outcome
        return outcome if outcome is not None and isinstance(outcome.action, kind) else None

    @property
    def ranks(self) -> tuple[int, ...]:
        return tuple(range(len(self.deployment.nodes)))

    def node_of(self, rank: int) -> str:
        return self.deployment.nodes[rank]

    @property
    def stages(self) -> tuple[tuple[Phase, tuple[int, ...]], ...]:
        """The phases that start ranks, in the engine's own order, each with its ranks."""
        stages = {"workers": (Phase.START_WORKERS, self.deployment.workers), "head": (Phase.START_HEAD, (0,))}
        return tuple(stages[name] for name in self.engine.start_order if stages[name][1])

    @property
    def automatic(self) -> bool:
        """Does the start under way, or the next one, count against the budget?"""
        return self.state.cause not in budget.FREE

    def enter(self, phase: Phase, **changes: Any) -> State:
        """The state at the beginning of a phase. Entering one settles what was before a pause or an adoption."""
        fresh: dict[str, Any] = {"since": self.now, "since_wall": self.snapshot.wall, "before": None}
        return replace(self.state, phase=phase, **{**fresh, **changes})


def decide(
    state: State,
    sentence: str,
    reason: str,
    actions: Iterable[Action] = (),
    planned: Planned | None = None,
    events: Iterable[tuple[str, str]] = (),
) -> Decision:
    """A decision whose state carries its own sentence and reason."""
    said = replace(state, sentence=sentence, reason=reason)
    return Decision(said, tuple(actions), sentence, reason, planned, tuple(events))


def names(nodes: Iterable[str]) -> str:
    """`spark1`, `spark1 and spark2`, `spark1, spark2 and spark3`."""
    listed = list(nodes)
    return " and ".join([", ".join(listed[:-1]), listed[-1]] if len(listed) > 1 else listed)


def unread_words(case: Case) -> str:
    return "; ".join(f"{node} is unknown ({why.why})" for node, why in case.group.unread.items())


def waiting_for_unread(case: Case, doing: str) -> Decision | None:
    """While a node of the group cannot be read, nothing is started or stopped on any of them (rule 1)."""
    if not case.group.unread:
        return None
    said = f"{doing}: {unread_words(case)}; nothing is started or stopped until it can be read"
    return decide(case.state, said, "node-unknown")


def duration(seconds: float) -> str:
    """`42 s`, `7 min`, `3 h 5 min`: for sentences."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"
