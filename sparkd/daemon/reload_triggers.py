"""Reloads without a waiting client: at SIGHUP, and when files have changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import anyio
import structlog
from anyio.abc import ObjectReceiveStream, TaskGroup

from sparkd import api
from sparkd.fleet import load_config

log = structlog.get_logger("sparkd")


class Reloads(Protocol):
    async def reload(self, by: str, message: str) -> Mapping[str, Any]:
        """Raises one of the API's refusals; then nothing has changed."""


async def on_signals(asked: ObjectReceiveStream[None], service: Reloads) -> None:
    """One after another: a hundred signals in a second are a reload under way and one after it, not minutes of them."""
    async for _ in asked:
        await _reload(service, "SIGHUP")


async def _reload(service: Reloads, by: str) -> None:
    """Read the configuration again without a waiting client: the result is logged and shown."""
    try:
        answer = await service.reload(by, "")
    except api.Refusal as error:
        log.error("reload refused: the configuration stays as it was", by=by, why=str(error))
    else:
        log.info("reloaded", by=by, what=answer["sentence"])


@dataclass(slots=True)
class ChangedFiles:
    """After every cycle, where `reload.watch` says so: reload when the files are others than before, and have stayed so for
    one cycle: an editor or a copy may be in the middle of it."""

    path: Path
    service: Reloads
    group: TaskGroup
    loaded: frozenset[object] | None = None
    last: frozenset[object] | None = None

    async def look(self) -> None:
        now = await anyio.to_thread.run_sync(load_config.signature, self.path)
        if self.loaded is None:
            self.loaded = now
        elif now != self.loaded and now == self.last:
            self.loaded = now
            self.group.start_soon(_reload, self.service, "a changed file")
        self.last = now
