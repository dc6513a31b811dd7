"""The running engines of one deployment -> what they say of themselves, in their start-up logs and on their pages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

import anyio

from sparkd import http
from sparkd.background.engine_port import EnginePort
from sparkd.base import bounded_bytes, clock
from sparkd.base.errors import SparkdError
from sparkd.base.unread import bounded
from sparkd.checks.shared.scene import Scene
from sparkd.comparing.mains import Process, processes
from sparkd.drift.said import GIVEN, IN_USE, REST
from sparkd.engines import ENGINES, Engine, base_url
from sparkd.model.config import Deployment
from sparkd.model.printed import Unread, document
from sparkd.model.snapshot import Unknown
from sparkd.observe.unknowns import NodeAccess

FIRST_LINES = 600
"""vLLM prints its arguments within the first twenty, and their effect before the weights."""
READ_S = 3.0

Words = dict[str, dict[str, Any]]
"""GIVEN and IN_USE -> name -> value, or Unread; REST -> what else of it could not be read."""


@dataclass(slots=True)
class EngineWords:
    access: Mapping[str, NodeAccess]
    engines: EnginePort

    async def read(self, scene: Scene) -> dict[tuple[str, str], Words | Unknown]:
        """(node, owner of the main process) -> its words, or why they could not be read. Never raises."""
        found: dict[tuple[str, str], Words | Unknown] = {}
        if scene.deployment.engine not in ENGINES:
            return found

        async def one(process: Process) -> None:
            found[process.node, process.owner] = await self._of(scene, process)

        async with anyio.create_task_group() as group:
            for process in processes(scene):
                group.start_soon(one, process)
        return found

    async def _of(self, scene: Scene, process: Process) -> Words | Unknown:
        engine, pages, rest = ENGINES[scene.deployment.engine], dict[str, Any](), dict[str, Any]()
        async with anyio.create_task_group() as group:
            if process.rank == 0:
                group.start_soon(self._pages, scene, pages, rest)
            lines = await self._log(scene.deployment, process)
        name = f"log of rank {process.rank}"
        log = (
            lines
            if isinstance(lines, Unknown)
            else await bounded_bytes.parsed(lambda said: bounded(name, _words, engine, said), lines)
        )
        if isinstance(log, Unknown | Unread):
            if not pages:
                return Unknown(log.why, clock.now())
            rest["its log"] = Unread(log.why)
            return {IN_USE: pages, REST: rest}
        words = {**log, IN_USE: {**log[IN_USE], **pages}}
        return {**words, REST: rest} if rest else words

    async def _log(self, deployment: Deployment, process: Process) -> list[str] | Unknown:
        if process.container is None:
            return []
        runtime = self.access[process.node].runtimes[deployment.runtime]
        try:
            with anyio.fail_after(READ_S):
                found = await runtime.beginning(process.container, FIRST_LINES, _unix(process.started))
        except SparkdError as error:
            return Unknown(str(error), clock.now())
        except TimeoutError:
            return Unknown(f"no answer in {READ_S:g} s", clock.now())
        return [line.text for line in found]

    async def _pages(self, scene: Scene, into: dict[str, Any], rest: dict[str, Any]) -> None:
        """Each page on its own: most engines do not have all of them, and a late one costs itself alone. `rest`: those that
        say something that cannot be read."""
        deployment, engine = scene.deployment, ENGINES[scene.deployment.engine]
        token = await self.engines.key(deployment.name)

        async def page(path: str) -> None:
            try:
                status, text = await http.page(base_url(deployment, scene.cluster.nodes), path, READ_S / 2, token)
            except SparkdError:
                return  # not up yet, or frozen: the loop judges that, not this reader
            read = await bounded_bytes.parsed(partial(_page, engine, path), text) if status == 200 else {}
            if isinstance(read, Unread):
                rest[f"its page {path}"] = read
            else:
                into.update(read)

        async with anyio.create_task_group() as group:
            for path in engine.pages:
                group.start_soon(page, path)


def _words(engine: Engine, lines: list[str]) -> Words:
    arguments = engine.arguments(lines)
    return {**({} if arguments is None else {GIVEN: arguments}), IN_USE: engine.in_use(lines)}


def _page(engine: Engine, path: str, text: str) -> dict[str, Any] | Unread:
    return bounded(f"page {path}", lambda: engine.page(path, document(text)))


def _unix(started: str) -> float | None:
    """Docker's time of a start; an older life of the same container has its lines before it."""
    try:
        return datetime.fromisoformat(started).timestamp()
    except (ValueError, OverflowError):
        return None
