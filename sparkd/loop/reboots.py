"""What the checks read about each node's last boot -> one event in the history of everything that runs there."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Protocol

from sparkd.facts.boots import Boots
from sparkd.model.config import Deployment
from sparkd.model.machine import Boot
from sparkd.model.snapshot import NodeView

NOTE = "boots"


class Notes(Protocol):
    """What the journal keeps across restarts of sparkd."""

    def recall(self, key: str) -> Mapping[str, Any] | None: ...

    async def remember(self, key: str, value: Mapping[str, Any]) -> None: ...


async def tell(
    notes: Notes,
    views: Mapping[str, NodeView],
    read: Mapping[str, tuple[str, Boots]],
    deployments: Iterable[Deployment],
    record: Callable[[str, str, str, str], Awaitable[None]],
) -> None:
    """`read`: node -> (boot identity at that time, what was read). A node seen for the first time has not rebooted."""
    known = notes.recall(NOTE) or {}
    now = {name: view.boot.identity for name, view in views.items() if isinstance(view.boot, Boot)}
    fresh = {name: id for name, id in now.items() if known.get(name) != id and read.get(name, ("",))[0] == id}
    if not fresh:
        return
    await notes.remember(NOTE, {**known, **fresh})
    for name in fresh.keys() & known.keys():
        boots = read[name][1]
        with_ = f", with another {' and '.join(boots.changes)}" if boots.changes else ""
        for deployment in deployments:
            if name in deployment.nodes:
                await record(deployment.name, "node-boot", f"{name} rebooted: {boots.why}{with_}", "node-boot")
