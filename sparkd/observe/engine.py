"""One engine -> EngineView: its own HTTP answers, how far its start has come, and what its logs say when something is wrong."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace

import anyio

from sparkd import http
from sparkd.base import bounded_bytes, clock
from sparkd.base.errors import SparkdError
from sparkd.base.unread import bounded
from sparkd.engines import ENGINES, base_url
from sparkd.model.config import Cluster, Deployment
from sparkd.model.decision import ASK_ENGINE, STARTING, Phase, State
from sparkd.model.log_finding import LogFinding
from sparkd.model.printed import Unread
from sparkd.model.snapshot import Container, EngineMetrics, EngineView, NodeView, Unknown
from sparkd.observe.unknowns import NodeAccess, Unknowns

STAGE_LINES, FINDING_LINES = 60, 200
DEADLINE_S = 3.0
SURVIVED_PERIODS = 2
"""Tokens that are seen to have moved can have done so a period ago, just before the engine died."""


@dataclass(slots=True)
class EngineLook:
    cluster: Cluster
    access: Mapping[str, NodeAccess]
    unknowns: Unknowns

    async def look(self, deployment: Deployment, state: State, views: Mapping[str, NodeView]) -> EngineView | None:
        """None while no head of the current generation runs.

        One that served is asked also while its node cannot be read: tokens that move are all there is to know then.
        """
        head, node = _container(views, deployment, state, 0), deployment.nodes[0]
        hidden = state.phase is Phase.SERVE and views[node].unread_for(deployment.runtime) is not None
        if state.phase not in ASK_ENGINE or not (hidden if head is None else head.alive):
            return None
        base = base_url(deployment, self.cluster.nodes)
        health = await self._health(base, deployment)
        starts = head is not None and state.phase in STARTING
        stage, log = await self._stage(deployment, head, views, health) if head and starts else (None, None)
        return EngineView(
            health=health,
            metrics=await self._metrics(base, deployment) if health == 200 else None,
            stage=stage,
            log=log,
            log_findings=await self._findings(deployment, state, views)
            if state.phase is Phase.SERVE and state.watch.suspicious
            else (),
        )

    async def _health(self, base: str, deployment: Deployment) -> int | None | Unknown:
        node = deployment.nodes[0]
        try:
            status = await http.health(base, ENGINES[deployment.engine].health_path, DEADLINE_S)
        except SparkdError as error:
            return self.unknowns.unknown(node, f"health:{base}", str(error), "timeout")
        self.unknowns.known(node, f"health:{base}")
        return status

    async def _metrics(self, base: str, deployment: Deployment) -> EngineMetrics | None | Unknown:
        engine, key = ENGINES[deployment.engine], f"metrics:{base}"
        try:
            text = await http.metrics_text(base, engine.metrics_path, DEADLINE_S)
        except SparkdError as error:
            return self.unknowns.unknown(deployment.nodes[0], key, str(error), "timeout")
        read = await bounded_bytes.parsed(lambda page: bounded("metrics page", engine.metrics, page), text)
        if isinstance(read, Unread):
            return self.unknowns.unknown(deployment.nodes[0], key, read.why, "unreadable")
        self.unknowns.known(deployment.nodes[0], key)
        return read

    async def _stage(
        self, deployment: Deployment, head: Container, views: Mapping[str, NodeView], health: int | None | Unknown
    ) -> tuple[str | None, int | None]:
        """How far its start has come, and what stands for the last lines of its log."""
        processes = views[deployment.nodes[0]].processes
        titles = [] if isinstance(processes, Unknown) else [one.title for one in processes if one.owner == head.id]
        lines = await self._log(deployment.nodes[0], head, STAGE_LINES)
        status = health if isinstance(health, int) else None
        read = ENGINES[deployment.engine].stage
        stage = await bounded_bytes.parsed(lambda said: bounded("the log of rank 0", read, titles, said, status), lines)
        log = zlib.crc32("\n".join(lines).encode("utf-8", "replace")) if lines else None
        return None if isinstance(stage, Unread) else stage, log

    async def _findings(
        self, deployment: Deployment, state: State, views: Mapping[str, NodeView]
    ) -> tuple[LogFinding, ...]:
        """Log patterns on every rank: the traceback of a wedge is often in the worker's log only (evidence 12)."""
        found: dict[int, list[LogFinding]] = {}

        async def read(rank: int, node: str, container: Container) -> None:
            lines = await self._log(node, container, FINDING_LINES, self._since(state, views[node]))
            search = ENGINES[deployment.engine].findings
            findings = await bounded_bytes.parsed(lambda said: bounded(f"the log of rank {rank}", search, said), lines)
            found[rank] = [replace(one, rank=rank) for one in (() if isinstance(findings, Unread) else findings)]

        async with anyio.create_task_group() as group:  # at once: eight mute logs would make the loop late
            for rank, node in enumerate(deployment.nodes):
                container = _container(views, deployment, state, rank)
                if container is not None:
                    group.start_soon(read, rank, node, container)
        return tuple(one for rank in sorted(found) for one in found[rank])

    def _since(self, state: State, view: NodeView) -> float | None:
        """When the log begins to tell of now, by its node's own clock: what was printed before tokens moved was survived."""
        moved = state.watch.tokens_at
        if moved is None or isinstance(view.boot, Unknown) or not view.boot.now:
            return None
        return view.boot.now - (clock.now() - moved) - SURVIVED_PERIODS * self.cluster.policy.period

    async def _log(self, node: str, container: Container, lines: int, since: float | None = None) -> list[str]:
        runtime = self.access[node].runtimes[container.runtime]
        try:
            with anyio.fail_after(DEADLINE_S):
                return [line.text for line in await runtime.logs(container.id, lines, since)]
        except (SparkdError, TimeoutError):
            return []  # a log that cannot be read is no evidence; the next look asks again


def _container(views: Mapping[str, NodeView], deployment: Deployment, state: State, rank: int) -> Container | None:
    for container in views[deployment.nodes[rank]].ranks:
        if (container.deployment, container.rank, container.generation) == (deployment.name, rank, state.generation):
            return container
    return None
