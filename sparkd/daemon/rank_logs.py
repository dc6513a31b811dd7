"""A deployment's name -> the lines of all its ranks as one stream, secrets taken out."""

from __future__ import annotations

import heapq
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, Protocol

import anyio

from sparkd.base import clock, files
from sparkd.base.errors import DockerRefused, SparkdError
from sparkd.base.redact import Redactor
from sparkd.model.config import Deployment
from sparkd.model.snapshot import Container, Snapshot
from sparkd.observe import NodeAccess
from sparkd.runtimes.logs import LogLine
from sparkd.runtimes.runtime import Runtime


class Running(Protocol):
    """What is known of the ranks that run, and work beside the loop."""

    @property
    def access(self) -> Mapping[str, NodeAccess]: ...

    @property
    def snapshot(self) -> Snapshot | None: ...

    def background(self, work: Callable[[], Awaitable[None]]) -> AbstractAsyncContextManager[None]: ...


@dataclass(frozen=True, slots=True)
class RankLogs:
    deployment: Deployment
    """The deployment as it was started."""
    running: Running

    async def lines(self, tail: int, follow: bool) -> AsyncIterator[Mapping[str, Any]]:
        """The last `tail` lines of every rank in order of time, then, with `follow`, what comes."""
        name = self.deployment.name
        redact = await files.aside(partial(Redactor.of, self.deployment))
        ranks = self._ranks()
        found: list[tuple[float, int, str, LogLine]] = []
        for node, container in ranks:
            try:
                lines = await self._runtime(node, container).logs(container.id, tail, None)
            except SparkdError as error:
                lines = (LogLine(clock.wall(), "sparkd", _unread(error, name, container.generation)),)
            found += [(line.at, container.rank, node, line) for line in lines]
        for _, rank, node, line in heapq.nlargest(tail, found, key=lambda one: one[0])[::-1]:
            yield _shown(rank, node, line, redact)
        if follow:
            async for shown in self._follow(ranks, redact):
                yield shown

    def _runtime(self, node: str, container: Container) -> Runtime:
        return self.running.access[node].runtimes[container.runtime]

    async def _follow(self, ranks: list[tuple[str, Container]], redact: Redactor) -> AsyncIterator[Mapping[str, Any]]:
        send, receive = anyio.create_memory_object_stream[Mapping[str, Any]](1000)

        async def one(node: str, container: Container) -> None:
            try:
                async with aclosing(self._runtime(node, container).follow(container.id, 0)) as lines:
                    async for line in lines:
                        await send.send(_shown(container.rank, node, line, redact))
            except SparkdError as error:
                line = LogLine(clock.wall(), "sparkd", f"this log ended: {error}")
                await send.send(_shown(container.rank, node, line, redact))

        async def all_of_them() -> None:
            async with send, anyio.create_task_group() as group:
                for node, container in ranks:
                    group.start_soon(one, node, container)

        async with self.running.background(all_of_them), receive:
            async for shown in receive:
                yield shown

    def _ranks(self) -> list[tuple[str, Container]]:
        """The newest container of each rank, running or not."""
        newest: dict[int, tuple[str, Container]] = {}
        nodes = self.running.snapshot.nodes if self.running.snapshot is not None else {}
        for node, view in nodes.items():
            for container in view.ranks if node in self.running.access else ():
                known = newest.get(container.rank)
                ours = container.deployment == self.deployment.name
                if ours and (known is None or container.generation > known[1].generation):
                    newest[container.rank] = (node, container)
        return [newest[rank] for rank in sorted(newest)]


def _shown(rank: int, node: str, line: LogLine, redact: Redactor) -> dict[str, Any]:
    at = datetime.fromtimestamp(line.at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return {"schema": 1, "at": at, "rank": rank, "node": node, "stream": line.stream, "text": redact(line.text)}


def _unread(error: SparkdError, name: str, generation: int) -> str:
    """Right after a teardown the last snapshot still has the rank, and its runtime does not."""
    if isinstance(error, DockerRefused) and error.status == 404:
        return f"this rank is gone, and its log with it; see what was saved: `sparkd ctl logs {name} --generation {generation}`"
    return f"this log cannot be read: {error}"
