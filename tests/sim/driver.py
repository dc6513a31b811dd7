"""The loop of the daemon around `step`, in virtual time, with sparkd's death anywhere; and what must always hold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from sparkd.decide.machine import step
from sparkd.decide.standing import woken
from sparkd.model.action import (
    INTERRUPTIBLE,
    Action,
    CaptureEvidence,
    CleanNodes,
    KillProcesses,
    RemoveRanks,
    SendCanary,
    StartRanks,
    StopRanks,
)
from sparkd.model.config import Policy
from sparkd.model.decision import Decision, Intent, Phase, State
from sparkd.model.failure_code import FailureCode
from sparkd.model.outage import Outage
from sparkd.model.snapshot import Canary, Outcome, Snapshot, Unknown

from .cluster import OWNER, SimCluster, SimNode
from .hands import DeedError, SimHands
from .sight import Sight

CHAIN = 8
"""Decisions on one snapshot while each only changes the phase, as in the daemon."""
TOLD_AFTER_S = 200.0
"""By then a deployment that answers, and can be looked at, has been seen to answer: requests are 120 s apart at the most."""
CHANGES = (StopRanks, RemoveRanks, KillProcesses, CleanNodes, StartRanks)


class Killed(Exception):
    """sparkd died here."""


@dataclass(slots=True)
class Driver:
    cluster: SimCluster
    policy: Policy
    state: State = field(default_factory=State)
    persisted: State = field(default_factory=State)
    intent: Intent = field(default_factory=Intent)
    deed: tuple[Action, float, float] | None = None
    """(action, when it began, when it ends)"""
    outcome: Outcome | None = None
    decision: Decision | None = None
    fault: str = ""
    """What happens to the next action that changes something: refused | half | timeout | late."""
    steps: int = 0
    highest: int = 0
    """The highest generation begun or seen on a label, since the journal was lost."""
    automatic: list[float] = field(default_factory=list)
    """When automatic starts created a container."""
    events: list[tuple[str, str]] = field(default_factory=list)
    outages: list[Outage] = field(default_factory=list)
    """The records of those that ended, as they were persisted together with the state."""
    answers_since: float | None = None
    """Since when it has really answered, with sparkd there and every node to be read."""
    point: Callable[[str], None] = lambda name: None
    """Called at each moment at which sparkd may die; raises Killed to make it so."""
    doing: Action | None = None
    """The action that is being performed."""
    late_s: float = 8.0
    docker_goes_on: bool = False
    """When sparkd dies within a start, Docker finishes what it had been asked for."""
    late: list[tuple[float, StartRanks]] = field(default_factory=list)
    """Starts that Docker will finish, at what time, although sparkd has given them up."""
    sight: Sight = field(default_factory=Sight)

    # ----------------------------------------------------------------------------------------------------------- time

    def cycle(self, seconds: float | None = None) -> None:
        """One period: time passes, what was under way ends, sparkd looks and decides, or dies."""
        self.cluster.pass_time(self.policy.period if seconds is None else seconds)
        self._late_starts()
        try:
            self._end_deed()
            self._decide()
        except Killed:
            if self.docker_goes_on and isinstance(self.doing, StartRanks):
                self.late.append((self.cluster.now + self.late_s, self.doing))
            self.reborn()
        self.check_cluster()
        self.check_outage()

    def stand_still(self, seconds: float, misses: bool) -> None:
        """sparkd is stopped (SIGSTOP) and goes on: the cluster did. `misses`: a canary on its way is reported as failed."""
        for _ in range(int(seconds // self.policy.period)):
            self.cluster.pass_time(self.policy.period)
        if misses and self.deed is not None and isinstance(self.deed[0], SendCanary):
            canary = Canary(self.deed[0].generation, self.deed[1], self.cluster.now, False, "not finished in time")
            self.outcome, self.deed = Outcome(self.deed[0], True, self.cluster.now, value=canary), None
        self.cycle(0.0)

    def cycles(self, count: int) -> None:
        for _ in range(count):
            self.cycle()

    def until(self, reached: Callable[[], bool], limit: int) -> bool:
        """Cycle until it is reached. Long waits pass in longer steps, as nothing else happens meanwhile."""
        for _ in range(limit):
            if reached():
                return True
            waits = self.state.phase in (Phase.BACKOFF, Phase.HELD) and self.deed is None
            self.cycle(30.0 if waits else None)
        return reached()

    def lose_journal(self) -> None:
        self.persisted, self.highest, self.automatic, self.outages = State(), 0, [], []
        self.reborn()

    def reborn(self) -> None:
        """sparkd died and is there again, with what had been persisted."""
        self.deed, self.doing, self.outcome, self.answers_since = None, None, None, None
        self.sight = Sight(blind_until=self.cluster.now)
        self.state = self.persisted = woken(self.persisted, self.cluster.now)

    # ------------------------------------------------------------------------------------------------------------ act

    def _late_starts(self) -> None:
        """Docker got round to it after everybody had given up."""
        hands, due = SimHands(self.cluster), [one for one in self.late if one[0] <= self.cluster.now]
        self.late = [one for one in self.late if one not in due]
        for _, action in due:
            for deed in hands.deeds(action, late=True):
                try:
                    deed()
                except DeedError:
                    continue

    def _end_deed(self) -> None:
        if self.deed is None or self.cluster.now < self.deed[2]:
            return
        action, began, _ = self.deed
        self.deed = None
        self.doing = action
        self.outcome = self._perform(action, began)
        self.point("after the action")
        self.doing = None

    def _perform(self, action: Action, began: float) -> Outcome:
        hands, now = SimHands(self.cluster), self.cluster.now
        fault, self.fault = (self.fault, "") if isinstance(action, CHANGES) else ("", self.fault)
        deeds = hands.deeds(action)
        for number, deed in enumerate(deeds):
            if fault in ("refused", "timeout", "late") or (fault == "half" and number >= len(deeds) // 2):
                break
            self.point(f"inside {type(action).__name__}")
            try:
                deed()
            except DeedError:
                break
            self._count_start(action)
        if fault:
            if fault == "late" and isinstance(action, StartRanks):
                self.late.append((now + self.late_s, action))
            return Outcome(
                action, False, now, f"injected: {fault}", FailureCode.read("timeout" if fault == "late" else fault)
            )
        return hands.complete(action, began) if not isinstance(action, StartRanks) else self._started(action)

    def _started(self, action: StartRanks) -> Outcome:
        """The deeds above did what they could; whoever is missing was refused."""
        now, nodes = self.cluster.now, self.cluster.deployment.nodes
        for rank in action.ranks:
            node, one = self.cluster.nodes[nodes[rank]], self.cluster.rank(rank)
            if one is None or one.generation != action.generation or not one.runs:
                present = any(other.rank == rank for other in node.containers)
                code = FailureCode.NAME_TAKEN if present else _missing(node)
                return Outcome(action, False, now, "refused", code, nodes[rank])
        return Outcome(action, True, now)

    def _decide(self) -> None:
        if self.deed is not None and not isinstance(self.deed[0], INTERRUPTIBLE):
            return
        looked = self.cluster.look(self.state)
        outcomes = {self.cluster.deployment.name: self.outcome} if self.outcome is not None else {}
        self._found_again(looked)
        self.highest = max([self.highest, *_labels(looked)])
        busy = {self.cluster.deployment.name: self.deed[0]} if self.deed is not None else {}
        snapshot = replace(looked, outcomes=outcomes, busy=busy)
        self.sight.look(snapshot, self.outcome, self.cluster.now, self.policy.period)
        self.outcome = None
        for _ in range(CHAIN):
            before = self.state
            decision = step(self.cluster.deployment, before, snapshot, self.intent, self.policy, self.cluster.now)
            self.steps += 1
            self.check_decision(before, decision, snapshot)
            snapshot = replace(snapshot, outcomes={})
            self.point("before persisting")
            self.state = self.persisted = decision.state
            if decision.state.last_outage not in (None, before.last_outage):
                self.check_record(decision.state.last_outage)
            self.highest = max(self.highest, decision.state.generation)
            self.decision = decision
            self.events += decision.events
            self.point("after persisting")
            if decision.actions or decision.state.phase is before.phase:
                break
        self._act(decision)

    def _found_again(self, snapshot: Snapshot) -> None:
        found = {name for name in self.intent.lost if snapshot.nodes[name].unread is None}
        self.intent = replace(self.intent, lost=self.intent.lost - found)

    def _act(self, decision: Decision) -> None:
        action = decision.actions[0] if decision.actions else None
        if self.deed is not None:
            going_on = type(self.deed[0]) is type(action)
            if not going_on and (action is not None or decision.state.phase not in (Phase.WARMUP, Phase.SERVE)):
                self.deed = None
            return
        if action is not None:
            began = self.cluster.now
            if isinstance(action, StartRanks):
                strangers = [one for _, one in self.cluster.running() if one.generation != action.generation]
                assert all(one.late for one in strangers), f"{strangers} live while {action.generation} starts"
            self.deed = (action, began, began + SimHands(self.cluster).takes_s(action))

    # ---------------------------------------------------------------------------------------------------- what must hold

    def check_decision(self, before: State, decision: Decision, snapshot: Snapshot) -> None:
        state, action = decision.state, decision.actions[0] if decision.actions else None
        if self.intent.paused:
            assert not decision.actions, "acted while paused"
        left = before.phase is Phase.SERVE and state.phase not in (Phase.SERVE, Phase.PAUSED, Phase.STOPPED)
        if left or any(kind == "failed" for kind, _ in decision.events):
            assert state.outage is not None, "an outage without a record"
        assert state.generation >= before.generation, "a generation went back"
        if before.phase is Phase.SERVE and state.failure is not None and state.failure != before.failure:
            self.sight.check(state.failure.signature, self.policy)
        if decision.reason == "begin":
            assert state.generation > self.highest, "a generation was used twice"
            assert not any(node.memory_taken for node in self.cluster.nodes.values()), "begun without memory"
            assert not any(True for _ in self.cluster.ours()), "begun before all was gone"
            assert not any(node.strays for node in self.cluster.nodes.values()), "begun before all processes were gone"
        if decision.reason in ("released", "not-yet"):
            self.automatic = [] if decision.reason == "released" else self.automatic[:-1]
        recent = [start for start in state.starts if self.cluster.now - start < self.policy.budget.per]
        assert len(recent) <= self.policy.budget.starts, "more automatic starts than the budget allows"
        if action is not None:
            self._check_action(action, snapshot)

    def _check_action(self, action: Action, snapshot: Snapshot) -> None:
        unread = {name for name, view in snapshot.nodes.items() if view.unread is not None}
        # A canary goes to the engine, not to its node.
        targets = set() if isinstance(action, SendCanary) else set(_nodes(action, self.cluster.deployment.nodes))
        assert not targets & unread, f"{action} on a node that is unread"
        if isinstance(action, CHANGES):
            assert not unread - self.intent.lost, f"{action} while a node of the group is unread"
        if isinstance(action, StopRanks | RemoveRanks | CaptureEvidence):
            ours = {one.id for _, one in self.cluster.ours()}
            assert {one.container for one in action.targets} <= ours, "a container that is not ours"
        if isinstance(action, StartRanks):
            assert self.intent.wanted == "up", "a start that nobody wants"
            assert not unread, "a start while a node is lost"
            assert action.generation == self.persisted.generation, "started before it was numbered"

    def _count_start(self, action: Action) -> None:
        """A container came to be: if the start was automatic, it has to be within the budget."""
        started_at = self.state.started_at
        if not isinstance(action, StartRanks) or started_at is None or started_at in self.automatic:
            return
        if started_at in self.state.starts:
            self.automatic.append(started_at)
            recent = [start for start in self.automatic if started_at - start < self.policy.budget.per]
            assert len(recent) <= self.policy.budget.starts, "more automatic starts than the budget allows"

    def check_record(self, outage: Outage) -> None:
        """An outage has ended: once, after it began, and after the one before."""
        assert outage.ended is not None
        assert outage.began <= outage.ended <= self.cluster.now, f"ended before it began, or later than now: {outage}"
        assert 0 <= outage.unread_s <= outage.ended - outage.began, f"unread for longer than it lasted: {outage}"
        last = self.outages[-1].ended if self.outages else None
        assert last is None or outage.began >= last, f"{outage} overlaps {self.outages[-1]}"
        self.outages.append(outage)

    def check_outage(self) -> None:
        """The one that goes on: it began after the last, and there is none while requests are answered."""
        now, outage, last = self.cluster.now, self.state.outage, self.state.last_outage
        readable = not any(node.unread for node in self.cluster.nodes.values()) and self.state.phase is Phase.SERVE
        answers = readable and self.cluster.answers(self.state.generation)
        self.answers_since = (now if self.answers_since is None else self.answers_since) if answers else None
        if outage is None:
            return
        assert outage.began <= now, f"begins in the future: {outage}"
        assert last is None or last.ended is None or outage.began >= last.ended, f"{outage} overlaps {last}"
        assert self.state.phase is not Phase.STOPPED, "an outage of what nobody wants"
        lasts = outage.code != "nonsense" and self.answers_since is not None and now - self.answers_since > TOLD_AFTER_S
        assert not lasts, f"it answers since {self.answers_since}, but: {outage}"

    def check_cluster(self) -> None:
        running = [one for _, one in self.cluster.running() if not one.late]
        assert len({one.generation for one in running}) <= 1, f"two generations run: {running}"
        ranks = [one.rank for _, one in self.cluster.running()]
        assert len(ranks) == len(set(ranks)), f"a rank runs twice: {running}"


def _labels(snapshot: Snapshot) -> list[int]:
    readable = [view.containers for view in snapshot.nodes.values() if view.unread is None]
    return [
        one.generation for listed in readable if not isinstance(listed, Unknown) for one in listed if one.owner == OWNER
    ]


def _nodes(action: Action, nodes: tuple[str, ...]) -> list[str]:
    match action:
        case StopRanks() | RemoveRanks() | CaptureEvidence() | KillProcesses():
            return [one.node for one in action.targets]
        case CleanNodes():
            return list(action.nodes)
        case StartRanks():
            return [nodes[rank] for rank in action.ranks]
        case _:
            return [nodes[0]]


def _missing(node: SimNode) -> FailureCode:
    if not node.image:
        return FailureCode.IMAGE_MISSING
    return FailureCode.OTHER if node.mount else FailureCode.MOUNT_MISSING


__all__ = ["OWNER", "Driver", "Killed"]
