"""Giving memory back right before a start: shared memory nobody uses, caches that were asked for, swap, the page cache."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import partial
from typing import Any, TypeVar

import anyio

from sparkd.act.hands import ActionFailed, Hands, at_once
from sparkd.base import bounded_bytes
from sparkd.base.errors import SparkdError
from sparkd.engines.caches import folders
from sparkd.facts import Fact, FactError
from sparkd.facts.caches import CACHES
from sparkd.facts.engines import ENGINES
from sparkd.facts.memory import MEMINFO
from sparkd.facts.shm import SHM
from sparkd.hosts.client import NodeClient
from sparkd.model.action import CleanNodes
from sparkd.model.config import Deployment
from sparkd.model.failure_code import FailureCode
from sparkd.model.machine import EngineProcess
from sparkd.model.size import spoken

SHM_AGE_S = 60
"""A segment younger than this may belong to an engine that is just being started (DESIGN 5)."""
MAX_NAMES = 4000
LOOK_S, UNLINK_S, DROP_S = 5.0, 10.0, 60.0
CACHES_S = 180.0
"""A compile cache holds some ten thousand small files."""
SWAP_S = 240.0
"""16 GiB come back from an NVMe in half a minute, and from a busy one later."""

T = TypeVar("T")
Step = Callable[[Hands, str, CleanNodes], Awaitable[Mapping[str, Any]]]


def limit_s(action: CleanNodes) -> float:
    return LOOK_S * 3 + UNLINK_S + DROP_S + (CACHES_S if action.clean else 0.0) + (SWAP_S if action.swapoff else 0.0)


async def clean(hands: Hands, action: CleanNodes) -> dict[str, Any]:
    """Node -> what each step did, with figures before and after; a step that failed is told under `failed`.

    The start goes on after a failed step: whether there is enough memory now, the gate measures.
    """
    found: dict[str, Any] = {}

    async def one(node: str) -> None:
        if node in hands.starting:
            found[node] = {"skipped": "another engine is starting there"}
            return
        done: dict[str, Any] = {}
        before = await _memory(hands.clients[node])
        for name, step in STEPS.items():
            try:
                done |= await step(hands, node, action)
            except SparkdError as error:
                done.setdefault("failed", {})[name] = getattr(error, "why", "") or str(error)
        after = await _memory(hands.clients[node])
        found[node] = {**done, "before": before, "after": after, "freed": after["free"] - before["free"]}

    await at_once(action.nodes, one, lambda node, error: ActionFailed(str(error), FailureCode.CLEANUP, node))
    return {node: found[node] for node in action.nodes}


def words(value: Mapping[str, Any]) -> str:
    """For history: what came free where, and what did not work."""
    return "; ".join(f"{node}: {_of_node(done)}" for node, done in value.items())


def _of_node(done: Mapping[str, Any]) -> str:
    if "skipped" in done:
        return f"left alone, {done['skipped']}"
    said = [f"{spoken(done['before']['free'])} free before, {spoken(done['after']['free'])} after"]
    if done.get("unlinked"):
        said.append(
            f"{len(done['unlinked'])} segments of shared memory ({spoken(sum(done['unlinked'].values()))}) unlinked"
        )
    if done.get("emptied"):
        said.append(f"{spoken(sum(done['emptied'].values()))} of caches removed")
    if done.get("swap", {}).get("before"):
        said.append(f"{spoken(done['swap']['before'])} taken back from swap")
    said += [f"{step} failed: {why}" for step, why in done.get("failed", {}).items()]
    return ", ".join(said)


async def _memory(client: NodeClient) -> dict[str, int]:
    seen = await _read(client, MEMINFO)
    return {"free": seen.free, "available": seen.available, "page_cache": seen.page_cache, "shm": seen.shm}


async def _unlink(hands: Hands, node: str, action: CleanNodes) -> Mapping[str, Any]:
    """Segments that no process holds; whether that is still so, the node looks again before each."""
    client = hands.clients[node]
    segments = await _read(client, SHM)
    unused = {one.name: one.size_bytes for one in segments if not one.holders}
    if not unused:
        return {"unlinked": {}}
    answer: dict[str, Any] = {}
    for names in batched([*unused]):
        answer |= await client.call("unlink_shm", {"names": names, "min_age_s": SHM_AGE_S}, UNLINK_S)
    return {"unlinked": {name: unused[name] for name, result in sorted(answer.items()) if result == "unlinked"}}


def batched(names: list[str]) -> Iterator[list[str]]:
    """In parts that the node service takes: it refuses lists of more than 4096."""
    yield from (names[at : at + MAX_NAMES] for at in range(0, len(names), MAX_NAMES))


async def _empty(hands: Hands, node: str, action: CleanNodes) -> Mapping[str, Any]:
    paths = folders(hands.deployment)
    if not action.clean or not paths:
        return {}
    return {"emptied": dict(await hands.clients[node].call("empty_caches", {"paths": list(paths)}, CACHES_S))}


async def _swapoff(hands: Hands, node: str, action: CleanNodes) -> Mapping[str, Any]:
    if not action.swapoff:
        return {}
    return {"swap": dict(await hands.clients[node].call("swapoff", {}, SWAP_S))}


async def _drop(hands: Hands, node: str, action: CleanNodes) -> Mapping[str, Any]:
    if not (action.drop_caches and hands.cluster.cleanup.drop_caches):
        return {}
    return {"dropped": dict(await hands.clients[node].call("drop_caches", {"mode": 3}, DROP_S))}


STEPS: Mapping[str, Step] = {
    "unlinking shared memory": _unlink,
    "emptying caches": _empty,
    "swapoff": _swapoff,
    "dropping caches": _drop,
}
"""In this order: what the first ones free is in the page cache too, and what comes back from swap needs the room."""


async def _read(client: NodeClient, fact: Fact[T]) -> T:
    return await _parsed(fact, (await client.probe({fact.name: None}, LOOK_S)).texts)


async def _parsed(fact: Fact[T], texts: Mapping[str, str]) -> T:
    text = texts.get(fact.name)
    if text is None:
        raise ActionFailed(f"{fact.name} could not be read", FailureCode.CLEANUP)
    try:
        return await bounded_bytes.parsed(fact.parse, text)
    except FactError as error:
        raise ActionFailed(f"{fact.name} cannot be understood: {error}", FailureCode.CLEANUP) from error


# ------------------------------------------------------------------------------------------------------------- a dry run


Ends = Callable[[str, tuple[EngineProcess, ...]], Mapping[str, int]]
"""(node, the engine processes there) -> what of them a start would end first, each with its bytes."""


async def preview(clients: Mapping[str, NodeClient], deployment: Deployment, clean: bool, ends: Ends) -> dict[str, Any]:
    """Node -> what a start would take away there, with sizes in bytes; `why` where it cannot be told. Changes nothing."""
    found: dict[str, Any] = {}

    async def one(node: str) -> None:
        try:
            found[node] = await _would(clients[node], folders(deployment) if clean else (), partial(ends, node))
        except SparkdError as error:
            found[node] = {"why": getattr(error, "why", "") or str(error)}

    async with anyio.create_task_group() as group:
        for node in deployment.nodes:
            group.start_soon(one, node)
    return {node: found[node] for node in deployment.nodes}


async def _would(
    client: NodeClient, paths: tuple[str, ...], ends: Callable[[tuple[EngineProcess, ...]], Mapping[str, int]]
) -> dict[str, Any]:
    asked: dict[str, Any] = {fact.name: None for fact in (MEMINFO, SHM, ENGINES)}
    if paths:
        asked[CACHES.name] = {"paths": list(paths)}
    texts = (await client.probe(asked, LOOK_S)).texts
    seen = await _parsed(MEMINFO, texts)
    segments = await _parsed(SHM, texts)
    unused = {one.name: one.size_bytes for one in segments if not one.holders}
    sizes = await _parsed(CACHES, texts) if paths else ()
    return {
        "page_cache": seen.page_cache,
        "swap_used": seen.swap_used,
        "shm": unused,
        "caches": {one.path: one.bytes for one in sizes},
        "ends": dict(ends(await _parsed(ENGINES, texts))),
    }
