"""A rank that waits for another one which cannot come: the engine itself says nothing for as long as torch waits, 30 minutes.

Only what each look has shown for a whole minute counts, and only where it is proof: a rank that is late, reads, computes or waits
for its own reasons is left alone (a first boot may be 10 minutes late on one node).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from sparkd.decide import movement
from sparkd.decide.case import Case, names
from sparkd.decide.classify import Kind
from sparkd.decide.failing import fail
from sparkd.decide.group import young
from sparkd.decide.stages import overdue
from sparkd.engines.recognised import is_engine
from sparkd.model.decision import Cause, Decision, FailureClass
from sparkd.model.launch import Launch
from sparkd.model.machine import Process
from sparkd.model.snapshot import Container, NodeView, Unknown
from sparkd.model.start_times import UNSEEN_S, limit_s, longest_s

PROVEN_S = 60.0
"""Two ranks of a healthy start meet within 12 s of each other (evidence 07); a look is made every 5 s."""
TOLD_S = 30.0
"""What each look has shown for so long is said."""


@dataclass(frozen=True, slots=True)
class Sight:
    """One rank whose container runs, and what its processes show."""

    rank: int
    view: NodeView
    container: Container
    processes: tuple[Process, ...]
    """Of the engine alone. A zombie is none: it does nothing any more."""
    meeting: str | None

    @property
    def name(self) -> str:
        return f"rank {self.rank} on {self.view.name}"

    @property
    def stopped(self) -> bool:
        return self.container.state == "paused" or any(one.state == "T" for one in self.processes)


@dataclass(frozen=True, slots=True)
class Doubt:
    """Why a rank cannot come, in a sentence."""

    signature: str
    peer: Sight
    text: str
    limit_s: float = PROVEN_S
    not_yet: bool = False
    """Soon after a node's boot this is *not yet* so, and ends nothing (rule 7)."""
    since: float | None = None
    """It holds since then at the earliest."""

    @property
    def key(self) -> str:
        return f"{self.signature}:{self.peer.rank}"


KINDS = {
    "engine-gone": "has no engine process any more",
    "peer-stopped": "is stopped while others wait for it",
    "peer-stale": "belongs to an earlier start",
    "peer-unreachable": "cannot reach the head",
    "peer-absent": "never started its engine",
}
"""Signature -> the failure in a few words. Each of them may go away with another start."""


def sights(case: Case) -> dict[int, Sight]:
    """Those of this generation whose processes could be read. Of another generation nothing counts (rule 4)."""
    found = {}
    for rank, container in case.group.ranks.items():
        view = case.group.views[case.node_of(rank)]
        if isinstance(view.processes, Unknown) or not container.alive:
            continue
        own = [one for one in view.processes if one.owner == container.id and one.state != "Z"]
        engine = tuple(one for one in own if is_engine(one.title.split(" ")) or case.engine.meeting([one.title]))
        meeting = case.engine.meeting([one.title for one in engine])
        found[rank] = Sight(rank, view, container, engine, meeting)
    return found


def followed(case: Case) -> Case:
    """With the ranks that have shown their engine, and since when each doubt is there. Without a whole view there is none."""
    seen, launch = sights(case), case.state.launch
    lived = tuple(sorted({*launch.lived, *(rank for rank, one in seen.items() if one.processes)}))
    launch = replace(launch, lived=lived)
    before = dict(launch.doubts)
    doubts = {one.key: before.get(one.key, case.now) for one in found(case, seen, launch)}
    return replace(case, state=replace(case.state, launch=replace(launch, doubts=tuple(doubts.items()))))


def found(case: Case, seen: dict[int, Sight], launch: Launch) -> Iterator[Doubt]:
    """What speaks against each rank, the most certain first; nothing while some rank cannot be seen."""
    if set(seen) != set(case.ranks):
        return
    waiting = [one for one in seen.values() if one.meeting == "waits"]
    for row in ROWS:
        for peer in seen.values():
            others = [one for one in waiting if one is not peer]
            doubt = row(case, launch, peer, others)
            if doubt is not None:
                yield doubt


def _waits(others: list[Sight]) -> str:
    return f"{names(one.name for one in others)} {'waits' if len(others) == 1 else 'wait'} for it"


def _gone(case: Case, launch: Launch, peer: Sight, others: list[Sight]) -> Doubt | None:
    """It died silently: what it was started by runs on, and does nothing. A script that works on may start it once more."""
    if peer.processes or peer.rank not in launch.lived:
        return None
    waits = f", and {_waits(others)}" if others else ""
    text = f"{peer.name} has no engine process any more, although it counts as running{waits}"
    return Doubt("engine-gone", peer, text, since=movement.moved_at(launch, peer.rank))


def _stopped(case: Case, launch: Launch, peer: Sight, others: list[Sight]) -> Doubt | None:
    if not others or not peer.stopped:
        return None
    how = "its container is paused" if peer.container.state == "paused" else "a process of it is in state T"
    return Doubt("peer-stopped", peer, f"{peer.name} is stopped ({how}), and {_waits(others)}")


def _stale(case: Case, launch: Launch, peer: Sight, others: list[Sight]) -> Doubt | None:
    """A worker whose head is gone stays, says nothing, and never joins another head (evidence 15)."""
    if not others or peer.meeting != "met":
        return None
    text = f"{peer.name} met its peers in an earlier start and joins no other, and {_waits(others)}"
    return Doubt("peer-stale", peer, text)


def _unreachable(case: Case, launch: Launch, peer: Sight, others: list[Sight]) -> Doubt | None:
    """Both wait, the head listens, and this rank has no connection to it."""
    head = next((one for one in others if one.rank == 0), None)
    if head is None or peer.stopped or head.stopped:
        return None
    if peer.meeting != "waits" or not _listens(case, head) or _connected(case, peer):
        return None
    text = (
        f"{peer.name} has no connection to port {case.deployment.master_port} of {head.name}, and both wait for each "
        "other: a firewall between the nodes, or a wrong `data_address`"
    )
    return Doubt("peer-unreachable", peer, text, not_yet=True)


def _listens(case: Case, head: Sight) -> bool:
    sockets = () if isinstance(head.view.sockets, Unknown) else head.view.sockets
    own, port = {one.pid for one in head.processes}, case.deployment.master_port
    return any(one.state == "LISTEN" and one.local_port == port and one.pid in own for one in sockets)


def _connected(case: Case, peer: Sight) -> bool:
    """Or not to be known: sockets of other processes on that node count as well, which errs on the quiet side."""
    sockets, port = peer.view.sockets, case.deployment.master_port
    if isinstance(sockets, Unknown):
        return True
    return any(one.remote_port == port and one.state not in ("SYN_SENT", "CLOSE") for one in sockets)


def _absent(case: Case, launch: Launch, peer: Sight, others: list[Sight]) -> Doubt | None:
    """It runs something, which is no engine and does nothing. One that computes, reads or asks in a loop is late and no more."""
    moved = movement.moved_at(launch, peer.rank)
    if not others or peer.processes or peer.rank in launch.lived or moved is None:
        return None
    stage = case.state.stage
    longest = longest_s(case.state.learned, launch.profile, launch.warm, stage) if stage is not None else None
    limit = UNSEEN_S if stage is None else limit_s(longest)
    text = f"{peer.name} has not started its engine and does nothing, and {_waits(others)}"
    return Doubt("peer-absent", peer, text, limit, not_yet=True, since=moved)


Row = Callable[[Case, Launch, Sight, list[Sight]], Doubt | None]
ROWS: tuple[Row, ...] = (_gone, _stopped, _stale, _unreachable, _absent)


def _lasting(case: Case) -> Iterator[tuple[Doubt, float]]:
    """Each doubt, and for how long every look has shown it."""
    since = dict(case.state.launch.doubts)
    for doubt in found(case, sights(case), case.state.launch):
        began = max(since.get(doubt.key, case.now), doubt.since if doubt.since is not None else 0.0)
        yield doubt, case.now - began


def ended(case: Case) -> Decision | None:
    """The end of a start that cannot succeed, or None."""
    for doubt, lasted_s in _lasting(case):
        if lasted_s >= doubt.limit_s and not _not_yet(case, doubt):
            kind = Kind(FailureClass.TRANSIENT, doubt.signature, KINDS[doubt.signature])
            rank = doubt.peer.rank
            return fail(case, kind, doubt.text, cause=Cause.WEDGE, rank=rank, evidence=tuple(_evidence(case)))
    return None


def _not_yet(case: Case, doubt: Doubt) -> bool:
    return doubt.not_yet and any(young(view, case.policy.not_yet) for view in case.group.views.values())


def words(case: Case) -> str:
    """What speaks against it so far, one clause each, or nothing."""
    lasting = [doubt for doubt, lasted_s in _lasting(case) if lasted_s >= TOLD_S]
    said = [f"{one.text}{', not yet (a node booted recently)' if _not_yet(case, one) else ''}" for one in lasting]
    return "; ".join(said)


def _evidence(case: Case) -> Iterator[str]:
    """What each rank showed, for `why`."""
    for one in sights(case).values():
        shown = ", ".join(f"{process.title} (pid {process.pid}, {process.state})" for process in one.processes)
        yield f"{one.name}, started {one.container.started_at[:19] or 'some time ago'}: {shown or 'no engine process'}"
    late = overdue(case)
    if late is not None:
        yield f"stage {late.stage} for {late.lasted_s:.0f} s, suspect after {late.limit_s:.0f} s"
