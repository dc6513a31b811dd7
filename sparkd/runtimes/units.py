"""Rank specs -> transient units of a node's systemd, through its node service; and what is there -> Container values.

Nothing is held open: systemd keeps the ranks, so they outlive sparkd, the node service and the connection between them.
A rank's id is the invocation id of its unit, which every start has anew; its name is fixed, and fences a double start.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any

import anyio

from sparkd.base import bounded_bytes
from sparkd.base.errors import DockerError, NodeRefused
from sparkd.facts import FactError
from sparkd.facts.ranks import RANKS
from sparkd.hosts.client import NodeClient
from sparkd.model.rank import RankSpec
from sparkd.model.size import parse_size
from sparkd.model.snapshot import Container
from sparkd.render import unit_labels
from sparkd.runtimes.logs import LogLine

LOOK_S = 4.0
START_S = 60.0
"""systemd-run takes 30 ms; reading a program from a cold disk takes longer."""
STOP_MARGIN_S = 15.0
"""After SIGKILL, as for Docker: longer than this is state D."""
REMOVE_S = 30.0
LOGS_S = 15.0
LONGEST_S = 300.0
"""The node service accepts no longer deadline."""
FOLLOW_S = 1.0


class UnitRuntime:
    """The ranks of one node's systemd. Methods raise HostError kinds: NodeRefused with the node's code for a refusal."""

    def __init__(self, node_name: str, client: NodeClient) -> None:
        self._node, self._client = node_name, client
        self._names: dict[str, str] = {}
        """Id -> name of every rank that was listed or started."""

    async def aclose(self) -> None:
        """The client belongs to the node."""

    # ------------------------------------------------------------------------------------------------------------- look

    async def containers(self) -> tuple[Container, ...]:
        probed = await self._client.probe({RANKS.name: None}, LOOK_S)
        if (error := probed.errors.get(RANKS.name)) is not None:
            raise NodeRefused(self._node, error.why, error.code)
        try:
            found = await bounded_bytes.parsed(RANKS.parse, probed.texts[RANKS.name])
        except FactError as error:
            raise DockerError(self._node, f"unreadable ranks: {error}") from None
        self._names = {one.id: one.name for one in found}
        return found

    async def inspect(self, container_id: str) -> dict[str, Any]:
        target = await self._target(container_id)
        return dict(await self._client.call("inspect_rank", target, LOOK_S)) if target else {}

    async def image(self, ref: str) -> str | None:
        """There are no images here."""
        return None

    # -------------------------------------------------------------------------------------------------------------- act

    async def start(self, spec: RankSpec, secrets: Mapping[str, str]) -> str:
        answer = await self._client.call("start_rank", request(spec, secrets), START_S)
        self._names[answer["id"]] = spec.name
        return str(answer["id"])

    async def stop(self, container_id: str, grace_s: float) -> None:
        """SIGTERM, SIGKILL after the grace that the rank was started with; `grace_s` only says how long to wait here."""
        limit_s = min(grace_s + STOP_MARGIN_S, LONGEST_S)
        await self._end("stop_rank", container_id, limit_s)

    async def remove(self, container_id: str) -> None:
        await self._end("remove_rank", container_id, REMOVE_S)

    async def _end(self, verb: str, container_id: str, limit_s: float) -> None:
        target = await self._target(container_id)
        if target:
            await self._client.call(verb, target, limit_s)

    async def _target(self, container_id: str) -> dict[str, str]:
        """Name and id, as the verbs want them; empty when there is no such rank."""
        if container_id not in self._names:
            await self.containers()
        name = self._names.get(container_id)
        return {"name": name, "id": container_id} if name is not None else {}

    # ------------------------------------------------------------------------------------------------------------- logs

    async def logs(self, container_id: str, tail: int, since: float | None) -> tuple[LogLine, ...]:
        lines, _ = await self._read({"id": container_id, "tail": max(tail, 1), "since": since})
        return lines[-tail:] if tail else ()

    async def beginning(self, container_id: str, most: int, since: float | None) -> tuple[LogLine, ...]:
        found, _ = await self._read({"id": container_id, "first": most})
        return found

    async def follow(self, container_id: str, tail: int) -> AsyncGenerator[LogLine, None]:
        """Asks once a second while a client follows; the journal keeps what comes in between."""
        lines, cursor = await self._read({"id": container_id, "tail": max(tail, 1)})
        for line in lines[-tail:] if tail else ():
            yield line
        runs = True
        while runs:
            await anyio.sleep(FOLLOW_S)
            runs = any(one.id == container_id and one.alive for one in await self.containers())
            after = {"after": cursor} if cursor else {"tail": tail or 1}
            lines, cursor = await self._read({"id": container_id, **after})
            for line in lines:
                yield line

    async def _read(self, args: Mapping[str, Any]) -> tuple[tuple[LogLine, ...], str]:
        answer = await self._client.call("rank_log", args, LOGS_S)
        return tuple(LogLine(at, stream, text) for at, stream, text in answer["lines"]), answer["cursor"]

    # ----------------------------------------------------------------------------------------------------------- events

    async def events(self, wake: Callable[[], None]) -> None:
        """Never calls `wake`: the node service passes no events of systemd on. The next look sees what ended."""
        await anyio.sleep_forever()


def request(spec: RankSpec, secrets: Mapping[str, str]) -> dict[str, Any]:
    """The arguments of `start_rank`. Identity goes twice: into the environment, and into fields of the unit's log."""
    limits = spec.container
    return {
        "name": spec.name,
        "argv": list(spec.argv),
        "env": dict(spec.env),
        "secrets": dict(secrets),
        "labels": unit_labels(spec),
        "user": spec.user,
        "workdir": limits.workdir or "/",
        "grace_s": spec.stop_grace_s,
        "memory_bytes": parse_size(limits.memory) if limits.memory is not None else None,
        "limits": dict(limits.ulimits),
    }
