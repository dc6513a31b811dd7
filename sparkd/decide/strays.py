"""Who has a port or outlived its container, and whether sparkd may end it. Never by its title (rule 3).

A process is proven ours by the container or unit of its control group, or by the mark that it or a parent in that
group was started with. Of everybody else's, `remove_strays: holders` allows to end engine processes that hold one of
our ports, and those alone that no container and no unit will bring back.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from sparkd.model.action import ProcessTarget
from sparkd.model.machine import Boot, EngineProcess
from sparkd.model.snapshot import Container, NodeView, Unknown

NAME_CHARS = 60
"""For a title in a sentence: a process may call itself anything."""


@dataclass(frozen=True, slots=True)
class Whose:
    """`kind`: ours | container | unit | loose. `where` completes "held by X (pid N) …", `fix` is for its node."""

    process: EngineProcess
    kind: str
    where: str
    fix: str
    rank: Container | None = None
    """Our rank that the process runs in."""

    @property
    def name(self) -> str:
        return f"{self.process.title.split(' ')[0][:NAME_CHARS]} (pid {self.process.pid})"

    @property
    def words(self) -> str:
        return f"{self.name}{self.where}"


def engines(view: NodeView) -> tuple[EngineProcess, ...]:
    """None are known where they could not be read; zombies hold nothing."""
    return () if isinstance(view.engines, Unknown) else tuple(one for one in view.engines if one.state != "Z")


def whose(process: EngineProcess, view: NodeView, owner: str) -> Whose:
    """`owner`: this sparkd's id."""
    rank = next((one for one in view.ranks if one.owner == owner and process.owner in one.owners), None)
    if rank is not None:
        of_rank = f" of rank {rank.rank} of {rank.deployment}"
        return Whose(process, "ours", of_rank, f"sparkd ctl stop {rank.deployment}", rank)
    if process.mark is not None and process.mark[0] == owner:
        _, deployment, generation = process.mark
        return Whose(process, "ours", f" of generation {generation} of {deployment}", f"kill -9 {process.pid}")
    if process.container is not None:
        short = process.container[:12]
        fix = f"docker ps --filter id={short} says whose it is; docker stop {short} (sparkd ends only its own)"
        return Whose(process, "container", f" in container {short}, which is not sparkd's", fix)
    if process.unit is not None:
        manager, _, unit = process.unit.rpartition("/")
        user = f"as the user of {manager}: systemctl --user" if manager else "systemctl"
        return Whose(process, "unit", f" of {unit}", f"{user} disable --now {unit} (it would bring the process back)")
    fix = f"kill {process.pid}, or allow it to sparkd with `cleanup: {{remove_strays: holders}}`"
    return Whose(process, "loose", "", fix)


def remedy(found: Whose, view: NodeView, deployment: str, allowed: str) -> str:
    """What a person can do about it while `deployment` is looked at; nothing where sparkd ends it itself."""
    if found.rank is not None:
        return "" if goes_by_itself(found.rank, view, deployment) else found.fix
    mark = found.process.mark
    if found.kind != "ours" or mark is None or mark[1] != deployment:
        return found.fix
    return f"{found.fix}, or allow it to sparkd with `cleanup: {{remove_strays: own}}`" if allowed == "never" else ""


def goes_by_itself(rank: Container, view: NodeView, deployment: str) -> bool:
    """A rank of ours that is in the way of `deployment`: its own go before a start, and a generation before the one that runs
    goes at once. To stop the deployment for it would stop what serves."""
    return rank.deployment == deployment or any(
        (one.owner, one.deployment) == (rank.owner, rank.deployment) and one.generation > rank.generation
        for one in view.ranks
    )


def holder(view: NodeView, pid: int | None, port: int, owner: str) -> Whose | None:
    """The engine process behind a listening socket, None when it is no engine's."""
    for process in engines(view):
        if process.pid == pid or (pid is None and port in process.ports):
            return whose(process, view, owner)
    return None


def may_end(found: Whose, deployment: str, allowed: str) -> bool:
    """May sparkd end this holder of a port of `deployment`? `allowed` is `cleanup.remove_strays`."""
    if found.kind == "ours":
        mark = found.process.mark
        return allowed != "never" and mark is not None and mark[1] == deployment
    return found.kind == "loose" and allowed == "holders"


def target(process: EngineProcess, view: NodeView) -> ProcessTarget | None:
    """The process by its identity, None while the node's boot is unknown."""
    if not isinstance(view.boot, Boot):
        return None
    identity = (view.boot.boot_id, view.boot.pid1_ticks, process.pid, process.start_ticks)
    return ProcessTarget(view.name, *identity, process.title)


def orphans(deployment: str, view: NodeView, owner: str) -> Mapping[int, EngineProcess]:
    """pid -> engine processes marked as this deployment's whose container or unit is known to be gone."""
    kept, found = view.rank_owners, {}
    for one in engines(view):
        unseen = one.container is not None and isinstance(view.containers, Unknown)
        marked = one.mark is not None and one.mark[:2] == (owner, deployment)
        if marked and not unseen and one.owner not in kept:
            found[one.pid] = one
    return found


def ended_first(deployment: str, ports: Collection[int], view: NodeView, owner: str, allowed: str) -> Mapping[str, int]:
    """What a start would end on this node -> its bytes: ranks that are still there, and engine processes beside them."""
    running, found = engines(view), dict[str, int]()
    for rank in view.ranks:
        if (rank.owner, rank.deployment) == (owner, deployment) and rank.alive:
            whole = sum(one.rss_bytes for one in running if one.owner in rank.owners)
            found[f"{rank.name} of generation {rank.generation}"] = whole
    left = orphans(deployment, view, owner).values() if allowed != "never" else ()
    holders = (whose(one, view, owner) for one in running if not {*ports}.isdisjoint(one.ports))
    beside = {*left, *(one.process for one in holders if may_end(one, deployment, allowed))}
    for one in sorted(beside, key=lambda one: one.pid):
        if one.owner not in view.rank_owners:  # those go with their rank
            found[whose(one, view, owner).words] = one.rss_bytes
    return found
