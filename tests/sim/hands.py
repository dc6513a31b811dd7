"""Actions on the cluster in memory: each a list of small deeds, so that it can be cut, refused or late in between."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sparkd.model.action import (
    Action,
    AskSanity,
    CaptureEvidence,
    CleanNodes,
    KillProcesses,
    RemoveRanks,
    SendCanary,
    StartRanks,
    StopRanks,
    WarmUp,
)
from sparkd.model.failure_code import FailureCode
from sparkd.model.sanity import Said
from sparkd.model.snapshot import Canary, Outcome

from .cluster import SimCluster, SimContainer, SimNode

Deed = Callable[[], None]
TAKES_S: dict[type[Any], float] = {
    StopRanks: 6.0,
    RemoveRanks: 1.0,
    StartRanks: 3.0,
    CleanNodes: 2.0,
    CaptureEvidence: 1.0,
}
"""Seconds an action takes; one that is not here takes none."""


class DeedError(Exception):
    def __init__(self, code: FailureCode, node: str) -> None:
        self.code, self.node = code, node
        super().__init__(code)


@dataclass(frozen=True, slots=True)
class SimHands:
    cluster: SimCluster

    def deeds(self, action: Action, late: bool = False) -> list[Deed]:
        """The single changes that this action makes, in order."""
        match action:
            case StartRanks():
                return [deed for rank in action.ranks for deed in self._start(rank, action.generation, late)]
            case StopRanks():
                return [self._on(one.node, one.container, self._stop) for one in action.targets]
            case RemoveRanks():
                return [self._on(one.node, one.container, self._remove) for one in action.targets]
            case KillProcesses():
                return [self._kill(one.node, one.pid) for one in action.targets]
            case CleanNodes():
                return [self._clean(name) for name in action.nodes]
            case _:
                return []

    def complete(self, action: Action, began: float) -> Outcome:
        """Do all of it and say how it ended."""
        failure: DeedError | None = None
        for deed in self.deeds(action):
            try:
                deed()
            except DeedError as error:
                failure = failure or error
        now = self.cluster.now
        if failure is not None:
            return Outcome(action, False, now, failure.code, failure.code, failure.node)
        if isinstance(action, WarmUp | SendCanary | AskSanity):
            ok = self.cluster.replies(action.generation)
            said = Said(self.cluster.says) if isinstance(action, AskSanity) else None
            return Outcome(action, True, now, value=Canary(action.generation, began, now, ok, said=said))
        return Outcome(action, True, now)

    def takes_s(self, action: Action) -> float:
        if isinstance(action, WarmUp | SendCanary | AskSanity):
            return 1.0 if self.cluster.replies(action.generation) else min(action.timeout_s, 60.0)
        return TAKES_S.get(type(action), 0.0)

    # ---------------------------------------------------------------------------------------------------------- deeds

    def _reach(self, name: str) -> SimNode:
        node = self.cluster.nodes[name]
        if node.unread:
            raise DeedError(FailureCode.OTHER, name)
        return node

    def _clean(self, name: str) -> Deed:
        def deed() -> None:
            self._reach(name)

        return deed

    def _start(self, rank: int, generation: int, late: bool) -> list[Deed]:
        name = self.cluster.deployment.nodes[rank]
        made: list[SimContainer] = []

        def create() -> None:
            node = self._reach(name)
            for present, code in ((node.image, FailureCode.IMAGE_MISSING), (node.mount, FailureCode.MOUNT_MISSING)):
                if not present:
                    raise DeedError(code, name)
            if any(one.rank == rank for one in node.containers):
                raise DeedError(FailureCode.NAME_TAKEN, name)
            serial = self.cluster.next_id()
            made.append(SimContainer(f"c{serial}", rank, generation, pid=serial, late=late))
            node.containers.append(made[0])

        def start() -> None:
            if made and made[0] in self._reach(name).containers:
                made[0].state = "running"

        return [create, start]

    def _on(self, name: str, container: str, do: Callable[[SimNode, SimContainer], None]) -> Deed:
        def deed() -> None:
            node = self._reach(name)
            for one in [one for one in node.containers if one.id == container]:
                do(node, one)

        return deed

    def _stop(self, node: SimNode, one: SimContainer) -> None:
        if node.stuck:
            raise DeedError(FailureCode.TIMEOUT, node.name)
        if one.runs:
            one.end(137)

    def _remove(self, node: SimNode, one: SimContainer) -> None:
        if not one.runs:
            node.containers.remove(one)

    def _kill(self, name: str, pid: int) -> Deed:
        def deed() -> None:
            node = self._reach(name)
            node.strays = [one for one in node.strays if one != pid]

        return deed
