"""What status, API and exporter are given: all that sparkd knows at one moment; and the ETA learned from starts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from sparkd.model.config import BrokenDeployment, Deployment, Node
from sparkd.model.decision import Decision, Intent, State
from sparkd.model.snapshot import Canary, Snapshot
from sparkd.model.upkeep import Upkeep


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonFacts:
    """sparkd about itself. `since_wall` is Unix time; `loop_age_s` seconds since the loop last finished a look."""

    version: str
    owner: str = ""
    """This sparkd's id, which labels everything it starts."""
    since_wall: float
    loop_age_s: float
    read_only_disk: bool = False
    period_s: float = 5.0
    problems: tuple[str, ...] = ()
    """Why the configuration that was last read was refused; nothing of it counts."""


@dataclass(frozen=True, slots=True)
class Change:
    """One key of the configuration with both values as text; None where it is not set."""

    key: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class Pending:
    """What the file of a deployment that may be running says by now. Empty when nothing but what runs."""

    changes: tuple[Change, ...] = ()
    """What a restart would change."""
    problems: tuple[str, ...] = ()
    """Why the file cannot be used; the deployment goes on as it was started."""
    removed: bool = False
    """There is no file any more; so does it, until it is stopped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterView:
    """Made anew for every question, asked `at` (daemon's clock, CLOCK_BOOTTIME seconds) and `wall` (Unix time).

    Ages are counted from `at`, never from the snapshot's own time: a loop that hangs must show in every age.
    """

    cluster: str
    at: float
    wall: float
    daemon: DaemonFacts
    snapshot: Snapshot | None = None
    """None until the first look is over."""
    nodes: Mapping[str, Node] = field(default_factory=dict)
    deployments: tuple[Deployment | BrokenDeployment, ...] = ()
    """Deployments as they were started, where a rank of them may run; the others as their files say."""
    pending: Mapping[str, Pending] = field(default_factory=dict)
    """Deployment -> what its file says by now, where that is something else."""
    states: Mapping[str, State] = field(default_factory=dict)
    intents: Mapping[str, Intent] = field(default_factory=dict)
    decisions: Mapping[str, Decision] = field(default_factory=dict)
    """Deployment -> the last decision."""
    earlier: Mapping[str, tuple[Mapping[str, float], ...]] = field(default_factory=dict)
    """Deployment -> stage durations (seconds) of earlier starts, newest last; from the journal."""
    node_since: Mapping[str, float] = field(default_factory=dict)
    """Node -> since when it can (or cannot) be asked, daemon's clock; see `node_since`."""
    canaries: Mapping[str, Canary] = field(default_factory=dict)
    """Deployment -> the last real completion (a canary or the warm-up)."""
    upkeep: Mapping[str, Upkeep] = field(default_factory=dict)
    """Node -> planned work on it, and its power hook; known before the first look."""
    drift: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Deployment -> severity -> in how much that what runs differs from what worked; only where it was compared."""


def node_since(before: Snapshot | None, after: Snapshot, since: Mapping[str, float]) -> dict[str, float]:
    """Since when each node can (or cannot) be asked, daemon's clock; `since` is the answer of the last look."""
    known: dict[str, float] = {}
    for name, node in after.nodes.items():
        was = before.nodes.get(name) if before is not None else None
        unread = node.unread
        if unread is not None:
            known[name] = unread.since
        elif was is not None and was.unread is None and name in since:
            known[name] = since[name]
        else:
            known[name] = after.at
    return known


def stage_seconds(stages: Sequence[tuple[str, float]], until: float) -> dict[str, float]:
    """Seconds of each start-up stage, from (name, began at) in order; the last ends at `until`. Seen twice adds up."""
    ends = [began for _, began in stages[1:]] + [until] * bool(stages)
    lasted: dict[str, float] = {}
    for (name, began), ended in zip(stages, ends, strict=True):
        lasted[name] = lasted.get(name, 0.0) + max(0.0, ended - began)
    return lasted


def eta_s(stages: Sequence[tuple[str, float]], now: float, earlier: Sequence[Mapping[str, float]]) -> float | None:
    """Seconds until serving, by the median of each stage in earlier starts; None without any, 0 when it is overdue."""
    names = list(dict.fromkeys(name for start in reversed(earlier) for name in start))
    if not names:
        return None
    usual = {name: median(start[name] for start in earlier if name in start) for name in names}
    if not stages:
        return sum(usual.values())
    current, began = stages[-1]
    if current not in usual:
        return max(0.0, sum(usual.values()) - (now - stages[0][1]))
    later = names[names.index(current) + 1 :]
    return max(0.0, usual[current] - (now - began)) + sum(usual[name] for name in later)
