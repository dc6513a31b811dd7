"""Giving memory back right before a start: shared memory nobody uses, then the page cache."""

from __future__ import annotations

from typing import Any

from sparkd import facts
from sparkd.act.hands import ActionFailed, Hands, at_once
from sparkd.facts import shm
from sparkd.model.decision import CleanNodes

SHM_AGE_S = 60
"""A segment younger than this may belong to an engine that is just being started (DESIGN 5)."""


async def clean(hands: Hands, action: CleanNodes) -> dict[str, Any]:
    """Per node: segments unlinked and the figures before and after. Raises ActionFailed; a failed cleanup is reported and the
    start goes on, because the memory check of the engine itself decides."""
    found: dict[str, Any] = {}

    async def one(node: str) -> None:
        if node in hands.starting:
            found[node] = {"skipped": "another engine is starting there"}
            return
        unlinked = await _unlink(hands, node)
        dropped: dict[str, Any] = {}
        if action.drop_caches and hands.cluster.cleanup.drop_caches:
            dropped = dict(await hands.clients[node].call("drop_caches", {"mode": 3}, deadline_s=60.0))
        found[node] = {"unlinked": unlinked, "dropped": dropped}

    await at_once(action.nodes, one, lambda node, error: ActionFailed(str(error), "cleanup", node))
    return found


async def _unlink(hands: Hands, node: str) -> list[str]:
    client = hands.clients[node]
    probed = await client.probe({"shm": None}, deadline_s=5.0)
    text = probed.texts.get("shm")
    if text is None:
        raise ActionFailed("shared memory could not be listed", "cleanup", node)
    try:
        unused = [segment.name for segment in shm.parse(text) if segment.holders == 0]
    except facts.FactError as error:
        raise ActionFailed(f"shared memory listing unreadable: {error}", "cleanup", node) from error
    if not unused:
        return []
    answer = await client.call("unlink_shm", {"names": unused, "min_age_s": SHM_AGE_S}, deadline_s=10.0)
    return sorted(name for name, result in answer.items() if result == "unlinked")
