"""Rank specs -> containers on one node, through its Docker socket; and what is there -> Container values.

Every call has a deadline: dockerd can accept and never answer (moby/moby#28889), and a stop can hang for ever on a
process in state D (moby/moby#22802). Whether Docker may be dialled at all is for the owner of `socket` to say.
"""

from __future__ import annotations

import json
import math
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping
from pathlib import Path
from typing import Any

import aiodocker
import aiohttp
import anyio
import structlog
from aiodocker.containers import DockerContainer

from sparkd.base.bounded_bytes import Steps
from sparkd.base.errors import DockerError, HostError
from sparkd.model.rank import LABEL_DEPLOYMENT, RankSpec
from sparkd.model.snapshot import Container
from sparkd.render import create_body
from sparkd.runtimes import containers
from sparkd.runtimes.connection import Connection, find, find_image, listed, stream, understood
from sparkd.runtimes.docker_refusals import reason
from sparkd.runtimes.logs import LogLine, lines

__all__ = ["DockerRuntime", "LogLine", "reason"]

log = structlog.get_logger()

LOOK_S = 4.0
START_S = 60.0
"""Create and start: 0.5 s on a quiet node; the NVIDIA hook and a disk busy with weights take longer."""
STOP_MARGIN_S = 15.0
"""After SIGKILL. Docker itself gives up waiting for the exit after 10 s."""
ROUNDING_S = 1e-6
"""Docker counts nanoseconds; a float of today's Unix time is right to 0.2 microseconds, and may be after its own line."""
REMOVE_S = 60.0
POLL_S = 0.2
LOGS_S = 15.0
MAX_LOG_LINES, MAX_LOG_CHARS = 10_000, 1 << 20
FIRST_PAUSE_S, MAX_PAUSE_S = 1.0, 15.0
"""Between two event streams."""
EVENTS = {"type": ["container"], "label": [LABEL_DEPLOYMENT], "event": ["start", "die", "oom", "destroy"]}


class DockerRuntime:
    """Docker on one node. `socket()` gives the path to dial, or raises DockerStopped or HostError: then nobody dials.

    All methods raise DockerError kinds, and what `socket` raises.
    """

    def __init__(self, node_name: str, socket: Callable[[], Path]) -> None:
        self._node = node_name
        self._connection = Connection(node_name, socket)
        self._seen: dict[str, tuple[str, Container]] = {}
        self._listed = anyio.Event()
        self._last_event: str | None = None

    async def aclose(self) -> None:
        await self._connection.aclose()

    # ------------------------------------------------------------------------------------------------------------- look

    async def containers(self) -> tuple[Container, ...]:
        """Everything labelled by a sparkd or named like a rank, of any owner, running or not."""
        seen: dict[str, tuple[str, Container]] = {}
        async with self._connection.call("listing containers", LOOK_S) as docker:
            for entry in await listed(docker, "containers/json", {"all": "1"}):
                if containers.ours(entry["Labels"], entry["Names"]):
                    await self._look_at(docker, entry, seen)
        self._seen = seen
        self._listed.set()
        return tuple(container for _, container in seen.values())

    async def _look_at(
        self, docker: aiodocker.Docker, entry: Mapping[str, Any], seen: dict[str, tuple[str, Container]]
    ) -> None:
        """Asks only where Docker's own words changed: `Up 2 hours` begins anew with every start."""
        key, container_id = f"{entry['State']} {entry['Status']} {entry['Names']}", str(entry["Id"])
        before, container = self._seen.get(container_id, ("", None))
        if container is not None and before == key and container.state in ("running", "exited"):
            seen[container_id] = key, container
        elif (inspected := await find(docker, container_id)) is not None:
            seen[container_id] = key, containers.container(inspected)

    async def inspect(self, container_id: str) -> dict[str, Any]:
        async with self._connection.call("inspecting a container", LOOK_S) as docker:
            return await docker.containers.container(container_id).show()

    async def image(self, ref: str) -> str | None:
        """The id of the image that `ref` names on this node, None without one."""
        async with self._connection.call("looking for an image", LOOK_S) as docker:
            found = await find_image(docker, ref)
            return None if found is None else str(found["Id"])

    # -------------------------------------------------------------------------------------------------------------- act

    async def start(self, spec: RankSpec, secrets: Mapping[str, str]) -> str:
        """Creates and starts a rank -> its container id. A refused start leaves nothing; `reason(error)` says why.

        After DockerMute the container may exist, and run: look before doing anything else.
        """
        async with self._connection.call(f"starting {spec.name}", START_S) as docker:
            container = await docker.containers.create(create_body(spec, secrets), name=spec.name)
            try:
                await container.start()
            except aiodocker.DockerError as error:
                if error.status < 900:
                    await self._discard(container)
                raise
            return container.id

    async def _discard(self, container: DockerContainer) -> None:
        with anyio.move_on_after(LOOK_S, shield=True):
            try:
                await container.delete(force=True, v=True)
            except aiodocker.DockerError as error:
                log.warning("a failed start left its container", node=self._node, id=container.id, why=error.message)

    async def stop(self, container_id: str, grace_s: float) -> None:
        """SIGTERM, after `grace_s` SIGKILL; returns when it runs no more, also when it did not run or is gone.

        Raises DockerMute when it still runs 15 s after SIGKILL (state D, GPU off the bus).
        """
        deadline_s = grace_s + STOP_MARGIN_S
        async with self._connection.call(f"stopping container {container_id[:12]}", deadline_s) as docker:
            container, timeout = docker.containers.container(container_id), aiohttp.ClientTimeout(total=deadline_s)
            try:
                await container.stop(t=math.ceil(grace_s), timeout=timeout)
            except aiodocker.DockerError as error:
                # Killed, but Docker saw no exit within its own 10 s. That is no answer yet, so wait on.
                if error.status != 404 and "did not receive an exit event" not in error.message:
                    raise
            while containers.runs(await find(docker, container_id)):
                await container.wait(condition="not-running", timeout=timeout)

    async def remove(self, container_id: str) -> None:
        """Removes a container that does not run; returns when its name is free (moby/moby#37698), also when it was."""
        async with self._connection.call(f"removing container {container_id[:12]}", REMOVE_S) as docker:
            found = await find(docker, container_id)
            if found is None:
                return
            try:
                await docker.containers.container(container_id).delete(v=True)
            except aiodocker.DockerError as error:
                if error.status != 404 and "already in progress" not in error.message:
                    raise
            # By name: Docker forgets the id first, and a start in between meets a name conflict (hashicorp/nomad#2084).
            while True:
                left = await find(docker, found["Name"].lstrip("/"))
                if left is None or left["Id"] != found["Id"]:
                    return
                await anyio.sleep(POLL_S)

    # ------------------------------------------------------------------------------------------------------------- logs

    async def logs(self, container_id: str, tail: int, since: float | None) -> tuple[LogLine, ...]:
        """The last `tail` lines, at most 1 Mi characters of them; `since` is Unix time in seconds."""
        kept, size = deque[LogLine](), 0
        parameters = {"tail": str(min(tail, MAX_LOG_LINES)), **_since(since)}
        async with self._connection.call("reading a log", LOGS_S) as docker:
            response = await self._open_log(docker, container_id, parameters)
            try:
                async for line in lines(response.content):
                    if since is not None and line.at < since:
                        continue
                    kept.append(line)
                    size += len(line.text)
                    while size > MAX_LOG_CHARS or len(kept) > MAX_LOG_LINES:
                        size -= len(kept.popleft().text)
            finally:
                response.close()
        return tuple(kept)

    async def beginning(self, container_id: str, most: int, since: float | None) -> tuple[LogLine, ...]:
        """The first lines since then, at most 1 Mi characters; Docker is hung up on when there are enough."""
        kept, size = list[LogLine](), 0
        async with self._connection.call("reading a log", LOGS_S) as docker:
            response = await self._open_log(docker, container_id, {"tail": "all", **_since(since)})
            try:
                async for line in lines(response.content):
                    size += len(line.text)
                    if size > MAX_LOG_CHARS or len(kept) >= most:
                        break
                    kept.append(line)
            finally:
                response.close()
        return tuple(kept)

    async def follow(self, container_id: str, tail: int) -> AsyncGenerator[LogLine, None]:
        """The last `tail` lines and then each new one, until the container ends. Use `aclosing` to stop early."""
        parameters = {"tail": str(min(tail, MAX_LOG_LINES)), "follow": "1"}
        async with self._connection.call("reading a log", LOGS_S) as docker:
            response = await self._open_log(docker, container_id, parameters)
        try:
            with understood(self._node, "following a log"):
                async for line in lines(response.content):
                    yield line
        finally:
            response.close()

    async def _open_log(
        self, docker: aiodocker.Docker, container_id: str, parameters: Mapping[str, str]
    ) -> aiohttp.ClientResponse:
        shown = {"stdout": "1", "stderr": "1", "timestamps": "1"}
        return await stream(docker, f"containers/{container_id}/logs", {**shown, **parameters})

    # ----------------------------------------------------------------------------------------------------------- events

    async def events(self, wake: Callable[[], None]) -> None:
        """Calls `wake` when a rank starts, ends or goes, and when the stream itself ends; runs until cancelled.

        Dials only after `containers` succeeded once more: its caller has just asked the node whether Docker runs.
        Dialling again at the end of a stream would wake the Docker that a person is stopping.
        """
        pause_s = FIRST_PAUSE_S
        while True:
            self._listed = anyio.Event()
            await self._listed.wait()
            began = anyio.current_time()
            try:
                await self._hear(wake)
            except (DockerError, HostError) as error:
                log.debug("event stream", node=self._node, why=error.why)  # only a hint: looking is what tells people
            wake()
            pause_s = min(pause_s * 2, MAX_PAUSE_S) if anyio.current_time() - began < MAX_PAUSE_S else FIRST_PAUSE_S
            await anyio.sleep(pause_s)

    async def _hear(self, wake: Callable[[], None]) -> None:
        """One stream, from the last event heard on: what happened meanwhile comes too, and that one once more."""
        since = {} if self._last_event is None else {"since": self._last_event}
        async with self._connection.call("subscribing to events", LOOK_S) as docker:
            response = await stream(docker, "events", {"filters": json.dumps(EVENTS), **since})
        try:
            with understood(self._node, "hearing events"):
                steps = Steps()
                while line := await response.content.readline():
                    await steps.step()
                    nanoseconds = int(json.loads(line)["timeNano"])
                    self._last_event = f"{nanoseconds // 10**9}.{nanoseconds % 10**9:09}"
                    wake()
        finally:
            response.close()


def _since(since: float | None) -> dict[str, str]:
    return {} if since is None else {"since": f"{since - ROUNDING_S:.9f}"}
