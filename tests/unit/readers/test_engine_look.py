"""What is asked of an engine when its node cannot be read, and how far back a log tells of now."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from sparkd.base import clock
from sparkd.model.config import Cluster, Deployment, Node
from sparkd.model.decision import Phase, State, Watch
from sparkd.model.log_finding import FindingKind, LogFinding
from sparkd.model.machine import Boot, DockerUnit
from sparkd.model.snapshot import Container, EngineMetrics, NodeView, Unknown, blind
from sparkd.observe.engine import SURVIVED_PERIODS, EngineLook
from sparkd.observe.unknowns import NodeAccess, Unknowns
from sparkd.runtimes.logs import LogLine

from .test_boundary import TOKENS, serving

CLUSTER = Cluster(cluster="c", nodes={name: Node(name=name, address="local") for name in ("a", "b")})
RANK = Container("id", "sparkd-d-0", "d", 0, 1, "us", "spec", "running")
AWAY = Unknown("unreachable", 0.0, "unreachable")


@dataclass
class Logs:
    """A runtime that only has logs, and remembers from when on it was asked for them."""

    lines: list[LogLine] = field(default_factory=list)
    since: list[float | None] = field(default_factory=list)

    async def logs(self, container_id: str, tail: int, since: float | None) -> tuple[LogLine, ...]:
        self.since.append(since)
        return tuple(line for line in self.lines if since is None or line.at >= since)


def view(name: str, *ranks: Container, now: float = 0.0) -> NodeView:
    return replace(
        blind(name, AWAY),
        boot=Boot(f"{name}-boot", 1, 100.0, now=now),
        docker=DockerUnit(running=True, pid=1),
        containers=ranks,
    )


async def looked(page: str, state: State, logs: Any, *views: NodeView) -> Any:
    with serving(page) as base:
        port = int(base.rpartition(":")[2])
        deployment = Deployment(name="d", engine="vllm", nodes=("a", "b"), port=port)
        access = {name: NodeAccess(client=None, docker=logs) for name in ("a", "b")}  # type: ignore[arg-type]
        return await EngineLook(CLUSTER, access, Unknowns()).look(deployment, state, {one.name: one for one in views})


SERVING = State(phase=Phase.SERVE, generation=1)


async def test_an_engine_that_served_is_asked_also_while_its_node_cannot_be_read() -> None:
    found = await looked(f"{TOKENS} 7\n", SERVING, Logs(), blind("a", AWAY), view("b"))
    assert (found.health, found.metrics.generation_tokens) == (200, 7.0)
    assert isinstance(found.metrics, EngineMetrics)


@pytest.mark.parametrize("phase", [Phase.START_HEAD, Phase.WARMUP, Phase.STOPPED])
async def test_one_that_never_answered_is_not(phase: Phase) -> None:
    """Whatever answers on its port then may be the one before."""
    state = replace(SERVING, phase=phase)
    assert await looked(f"{TOKENS} 7\n", state, Logs(), blind("a", AWAY), view("b")) is None


async def test_where_its_rank_is_seen_to_be_gone_nothing_is_asked() -> None:
    assert await looked(f"{TOKENS} 7\n", SERVING, Logs(), view("a"), view("b")) is None


async def test_a_start_shows_its_stage_and_whether_its_log_goes_on() -> None:
    logs = Logs([LogLine(1.0, "stdout", "Starting to load model /m"), LogLine(2.0, "stdout", "shard 1 of 9")])
    starts = replace(SERVING, phase=Phase.START_HEAD)
    first = await looked("", starts, logs, view("a", RANK), view("b"))
    same = await looked("", starts, logs, view("a", RANK), view("b"))
    logs.lines.append(LogLine(3.0, "stdout", "shard 2 of 9"))
    moved = await looked("", starts, logs, view("a", RANK), view("b"))
    assert first.stage == "ready", "it answers 200"
    assert first.log == same.log != moved.log
    silent = await looked("", starts, Logs(), view("a", RANK), view("b"))
    assert silent.log is None
    assert (await looked("", SERVING, logs, view("a", RANK), view("b"))).log is None, "nobody asks while it serves"


async def test_what_was_printed_before_tokens_last_moved_was_survived() -> None:
    """A line of hours ago made the first late canary a verdict after thirty seconds. Clocks of nodes differ."""
    at = 1_000_000.0  # of the node, whatever ours says
    dead = "EngineDeadError: EngineCore encountered an issue."
    logs = Logs([LogLine(at - 3600, "stderr", dead)])
    watch = Watch(tokens_at=clock.now() - 100, canary_failing_since=clock.now() - 5)
    state = replace(SERVING, watch=watch)
    found = await looked(f"{TOKENS} 7\n", state, logs, view("a", RANK, now=at), view("b"))
    assert found.log_findings == ()
    [since] = logs.since
    assert since == pytest.approx(at - 100 - SURVIVED_PERIODS * CLUSTER.policy.period, abs=5)
    logs.lines.append(LogLine(at - 90, "stderr", dead))
    found = await looked(f"{TOKENS} 7\n", state, logs, view("a", RANK, now=at), view("b"))
    assert found.log_findings == (LogFinding("engine-dead", FindingKind.FAULT),)
    never_moved = replace(SERVING, watch=replace(watch, tokens_at=None))
    logs.lines = logs.lines[:1]
    found = await looked(f"{TOKENS} 7\n", never_moved, logs, view("a", RANK, now=at), view("b"))
    assert found.log_findings == (LogFinding("engine-dead", FindingKind.FAULT),)
