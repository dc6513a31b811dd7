"""One rank of a deployment as the status shows it: its state in a word, and how old that knowledge is. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sparkd.engines import ENGINES
from sparkd.model.config import BrokenDeployment, Deployment
from sparkd.model.decision import Phase, State
from sparkd.model.snapshot import Container, NodeView, Unknown
from sparkd.model.view import ClusterView
from sparkd.model.words import rfc3339

Json = dict[str, Any]

BRINGING_UP = (Phase.START_WORKERS, Phase.START_HEAD, Phase.WARMUP)
CONTAINER_WORDS = {"paused": "frozen", "created": "created", "restarting": "starting", "removing": "stopping"}
NOT_LOOKED = Unknown(why="not looked at yet", since=0.0, code="unreadable")


def seen(view: ClusterView) -> Mapping[str, NodeView]:
    return view.snapshot.nodes if view.snapshot is not None else {}


def moment(view: ClusterView, at: float | None) -> str | None:
    """A time on the daemon's clock as wall time, counted back from now: a stepped wall clock cannot bend it (F35)."""
    return None if at is None else rfc3339(view.wall - (view.at - at))


def rank_status(
    view: ClusterView, deployment: Deployment | BrokenDeployment, state: State, rank: int, node_name: str
) -> Json:
    """One row of `ranks`. `evidence_age_s` is the age of what is shown; for an unknown rank, of the last look that read it."""
    node = seen(view).get(node_name)
    runtime = deployment.runtime if isinstance(deployment, Deployment) else "docker"
    unread = node.unread_for(runtime) if node is not None else NOT_LOOKED
    row: Json = {
        "rank": rank,
        "node": node_name,
        "state": "unknown",
        "generation": state.generation or None,
        "container": None,
        "evidence_age_s": None,
        "exit_code": None,
        "why": unread.why if unread else None,
        "since": moment(view, unread.since) if unread and unread.since else None,
        "rss_bytes": None,
    }
    if node is None or view.snapshot is None:
        return row
    if unread is not None:
        return row | {"evidence_age_s": round(max(0.0, view.at - unread.since), 1)}
    row["evidence_age_s"] = round(max(0.0, view.at - view.snapshot.at), 1)
    ours = [c for c in node.ranks if c.deployment == deployment.name and c.rank == rank]
    if not ours:
        return row | {"state": "absent"}
    container = max(ours, key=lambda c: (c.generation == state.generation, c.generation, c.alive))
    return row | {
        "state": _rank_state(container, state, node, deployment),
        "generation": container.generation,
        "container": container.id[:12],
        "exit_code": container.exit_code if container.state in ("exited", "dead") else None,
        "rss_bytes": _rss(node, container),
    }


def _rank_state(container: Container, state: State, node: NodeView, deployment: Deployment | BrokenDeployment) -> str:
    if container.state in ("exited", "dead"):
        return "exited"
    if container.generation != state.generation:
        return "stale"
    if container.state != "running":
        return CONTAINER_WORDS.get(container.state, container.state)
    if isinstance(deployment, Deployment) and _widowed(node, deployment, container.rank):
        return "widowed"
    return "starting" if state.phase in BRINGING_UP else "up"


def _widowed(node: NodeView, deployment: Deployment, rank: int) -> bool:
    """A worker whose head is gone; it never notices by itself (vllm#32136)."""
    engine = ENGINES.get(deployment.engine)
    if engine is None or rank == 0 or isinstance(node.sockets, Unknown):
        return False
    return engine.widowed(node.sockets, deployment)


def _rss(node: NodeView, container: Container) -> int | None:
    if isinstance(node.processes, Unknown):
        return None
    return sum(p.rss_bytes for p in node.processes if p.owner == container.id)
