"""Facts that end a generation at the next look: a node rebooted, a rank is gone, a worker is a widow."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from sparkd.decide import classify
from sparkd.decide.case import Case, decide, duration, names
from sparkd.decide.classify import Kind
from sparkd.decide.failing import fail
from sparkd.decide.group import rebooted, shutting_down
from sparkd.model.decision import Cause, Decision, Failure, FailureClass, Phase, State
from sparkd.model.machine import Boot
from sparkd.model.snapshot import Unknown


def loss(case: Case, owed: Iterable[int]) -> Decision | None:
    """The end of this generation, or None. `owed` are the ranks that must be there."""
    return reboot(case) or _lost_rank(case, frozenset(owed)) or _widowed(case)


def reboot(case: Case) -> Decision | None:
    """A node of the group booted since the start: no failure of anything, the group starts anew (DESIGN rule 6)."""
    nodes = rebooted(case.state, case.group)
    if not nodes:
        return None
    what = f"{names(nodes)} rebooted"
    text = f"{what}; starting the group anew"
    state = case.enter(Phase.PRECHECK, cause=Cause.BOOT, failure=_as_failure(case, what, nodes), stage=None)
    decision = decide(state, text, "rebooted", events=[("rebooted", text)])
    return replace(decision, lost_at=_booted_at(case, nodes))


def _as_failure(case: Case, what: str, nodes: Iterable[str]) -> Failure:
    """What `why` names from now on. It is counted nowhere: neither for the pause nor for the budget."""
    boots = {node: boot for node in nodes if isinstance(boot := case.group.views[node].boot, Boot)}
    evidence = tuple(f"{node} has been up for {duration(boot.up_s)}" for node, boot in boots.items())
    return Failure(
        case.state.generation,
        FailureClass.TRANSIENT,
        "rebooted",
        what,
        case.now,
        case.snapshot.wall,
        evidence=evidence,
    )


def _booted_at(case: Case, nodes: Iterable[str]) -> float:
    """When the group ended at the latest: the node was down before it booted."""
    uptimes = [boot.up_s for node in nodes if isinstance(boot := case.group.views[node].boot, Boot)]
    started = case.state.started_at if case.state.started_at is not None else case.now
    return max(case.now - max(uptimes), min(started, case.now))


def lost_ranks(case: Case, owed: frozenset[int]) -> list[int]:
    """Ranks of this generation that ended or are missing, the most telling first.

    Other generations never get here (kubernetes-sigs/lws#804). A rank that exits 0 mostly follows another one's
    death; of equals the one that ended first tells more (evidence 13b, 13c).
    """

    def telling(rank: int) -> tuple[bool, str, int]:
        container = case.group.ranks.get(rank)
        return (container is not None and container.exit_code == 0, container.finished_at if container else "", rank)

    # On a node that a person declared lost nothing is there, whether it had got so far or not.
    expected = owed | {rank for rank in case.ranks if case.node_of(rank) in case.group.lost}
    return sorted((rank for rank in case.ranks if _ended(case, rank, rank in expected)), key=telling)


def proven_gone(case: Case, state: State) -> list[int]:
    """Those of a group that served that are seen to be gone, while another node may be unread and nothing is done about it."""
    if case.group.newest > state.generation:
        return []  # what runs is younger than what the journal knows of
    return [rank for rank in lost_ranks(case, frozenset(case.ranks)) if case.node_of(rank) not in case.group.unread]


def _ended(case: Case, rank: int, owed: bool) -> bool:
    container = case.group.ranks.get(rank)
    if container is None:
        return owed
    # Created and never started is what a sparkd leaves that dies in between; of a rank that had run it is an end.
    return not container.alive and (owed or container.state != "created")


def _lost_rank(case: Case, owed: frozenset[int]) -> Decision | None:
    gone = lost_ranks(case, owed)
    if not gone:
        return None
    stopping = shutting_down(case.group)
    if stopping:
        return decide(
            case.state, f"waiting: {names(stopping)} is shutting down and took the group along", "node-stopping"
        )
    rank = gone[0]
    node, container = case.node_of(rank), case.group.ranks.get(rank)
    if node in case.group.lost:
        kind = Kind(FailureClass.TRANSIENT, "node-lost", "its node was declared lost")
        return fail(case, kind, f"{node} was declared lost, and rank {rank} with it", rank=rank)
    if container is None or container.state == "created":
        kind = Kind(FailureClass.TRANSIENT, "rank-removed", "was removed by somebody")
        return fail(case, kind, f"rank {rank} on {node} was removed by somebody", rank=rank)
    kind = classify.of_exit(container)
    text = f"rank {rank} on {node} {kind.text}"
    return fail(case, kind, text, rank=rank, exit_code=container.exit_code, fact=f"exit:{container.exit_code}")


def _widowed(case: Case) -> Decision | None:
    """A headless worker never notices that its head is gone: its socket to the master is in CLOSE-WAIT (evidence 03).

    Ports are the host's: only a socket of this rank's own processes speaks for this generation.
    """
    for rank in case.deployment.workers:
        container, view = case.group.ranks.get(rank), case.group.views[case.node_of(rank)]
        if container is None or isinstance(view.sockets, Unknown) or isinstance(view.processes, Unknown):
            continue
        own = {process.pid for process in view.processes if process.owner == container.id}
        if case.engine.widowed([socket for socket in view.sockets if socket.pid in own], case.deployment):
            text = f"rank {rank} on {view.name} lost its head: its socket to the master is in CLOSE-WAIT"
            return _widow(case, rank, text)
    return None


def _widow(case: Case, rank: int, text: str) -> Decision:
    """A look takes a while: a head that ran when it was read may be why its worker is a widow a moment later. How the head
    ended tells more (its 12 MiB were used up, say), so it is looked at once more."""
    head, since = case.group.ranks.get(0), case.state.watch.widow_since
    if head is not None and head.alive and since is None:
        watch = replace(case.state.watch, widow_since=case.now)
        return decide(replace(case.state, watch=watch), f"{text}; looking once more how the head is", "widow-seen")
    return fail(case, Kind(FailureClass.TRANSIENT, "widowed", "lost its head"), text, rank=rank, since=since)
