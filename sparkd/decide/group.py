"""The ranks of one deployment as seen in one snapshot: what runs where, of which generation, and what is unread."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sparkd.decide.strays import orphans
from sparkd.model.action import ProcessTarget, Target
from sparkd.model.config import Deployment
from sparkd.model.decision import Intent, State
from sparkd.model.machine import Boot, EngineProcess, Process
from sparkd.model.snapshot import Container, NodeView, Snapshot, Unknown


@dataclass(frozen=True, slots=True)
class Group:
    """`unread` maps nodes that cannot be judged to why; nodes declared lost by a person are in `lost`, not there.

    Containers and processes are those of nodes that could be read: nothing else may become the target of an action.
    """

    unread: Mapping[str, Unknown]
    lost: frozenset[str]
    ours: tuple[tuple[str, Container], ...]
    """(node, container) of this deployment and this owner, any generation, on any node of the cluster."""
    foreign: tuple[tuple[str, Container], ...]
    """Containers that carry a name of this deployment but another owner's label, or none."""
    ranks: Mapping[int, Container]
    """Rank -> container of the current generation."""
    leftovers: tuple[ProcessTarget, ...]
    """Processes of this deployment that belong to no container of it any more."""
    views: Mapping[str, NodeView]
    """The nodes that the deployment's file names."""

    @property
    def alive(self) -> tuple[tuple[str, Container], ...]:
        return tuple((node, container) for node, container in self.ours if container.alive)

    @property
    def stale(self) -> tuple[tuple[str, Container], ...]:
        """Containers of ours that are no rank of the current generation."""
        current = {container.id for container in self.ranks.values()}
        return tuple((node, container) for node, container in self.ours if container.id not in current)

    @property
    def newest(self) -> int:
        """The highest generation on a label of ours, 0 without one."""
        return max((container.generation for _, container in self.ours), default=0)


def gather(deployment: Deployment, state: State, snapshot: Snapshot, intent: Intent) -> Group:
    """Collect the facts about one deployment. A lost node counts as lost only while it really cannot be read."""
    views = {name: snapshot.nodes.get(name) or _unseen(name, snapshot.at) for name in deployment.nodes}
    runtime = deployment.runtime
    # The file may have been edited since: ranks may still run where this generation was started.
    started_on = {name: snapshot.nodes[name] for name, _ in state.boots if name in snapshot.nodes}
    blind = {
        name: why for name, view in {**views, **started_on}.items() if (why := view.unread_for(runtime)) is not None
    }
    found = list(_containers(deployment.name, {**views, **snapshot.nodes}))
    ours = tuple(one for one in found if one[1].owner == snapshot.owner)
    foreign = tuple(one for one in found if one[1].owner != snapshot.owner)
    ranks = {
        container.rank: container
        for name, container in ours
        if container.generation == state.generation and deployment.nodes[container.rank : container.rank + 1] == (name,)
    }
    return Group(
        unread={name: why for name, why in blind.items() if name not in intent.lost},
        lost=frozenset(name for name in views if name in blind and name in intent.lost),
        ours=ours,
        foreign=foreign,
        ranks=ranks,
        leftovers=tuple(_leftovers(deployment, views, {container.id for _, container in found}, snapshot.owner)),
        views=views,
    )


def _unseen(name: str, at: float) -> NodeView:
    why = Unknown("not looked at", at)
    return NodeView(name, why, why, why, why, why, why, why, why, why, why, why, why, why, why)


def _containers(deployment: str, views: Mapping[str, NodeView]) -> Iterator[tuple[str, Container]]:
    for name, view in views.items():
        yield from ((name, container) for container in view.ranks if container.deployment == deployment)


def _leftovers(
    deployment: Deployment, views: Mapping[str, NodeView], containers: set[str], owner: str
) -> Iterator[ProcessTarget]:
    for name, view in views.items():
        if (
            view.unread_for(deployment.runtime) is not None
            or isinstance(view.leftovers, Unknown)
            or not isinstance(view.boot, Boot)
        ):
            continue
        found: dict[int, Process | EngineProcess] = {**orphans(deployment.name, view, owner)}
        found |= {process.pid: process for process in view.leftovers.get(deployment.name, ())}
        for process in found.values():
            # Zombies hold nothing; a process inside a container that is listed goes with its container.
            if process.owner in containers or process.state == "Z":
                continue
            identity = (view.boot.boot_id, view.boot.pid1_ticks)
            yield ProcessTarget(name, *identity, process.pid, process.start_ticks, process.title)


def target(node: str, container: Container) -> Target:
    return Target(node, container.id, container.rank, container.generation, container.runtime)


def boots(group: Group) -> tuple[tuple[str, str], ...]:
    """Node -> boot identity of every node that was read, to tell a reboot later."""
    return tuple((name, view.boot.identity) for name, view in group.views.items() if isinstance(view.boot, Boot))


def rebooted(state: State, group: Group) -> tuple[str, ...]:
    """Nodes that booted since this generation was started."""
    now = dict(boots(group))
    return tuple(node for node, identity in state.boots if node in now and now[node] != identity)


def young(view: NodeView | None, not_yet_s: float) -> bool:
    """Booted so recently that missing things are *not yet* there rather than missing (DESIGN rule 7)."""
    return view is not None and isinstance(view.boot, Boot) and view.boot.uptime_s < not_yet_s


def shutting_down(group: Group) -> tuple[str, ...]:
    return tuple(name for name, view in group.views.items() if view.system == "stopping")
