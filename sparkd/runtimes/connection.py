"""A path to a Docker socket -> an aiodocker client for one call, under a deadline, with every error as one of ours."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiodocker
import aiohttp
import anyio

from sparkd.errors import DockerError, DockerMute
from sparkd.runtimes.refusals import Refused

CONNECT_S = 4.0
TIMEOUT = aiohttp.ClientTimeout(total=90.0, sock_connect=CONNECT_S)
"""aiodocker's default is none at all. The deadline that counts is around each call; this is the net below it."""
ENDLESS = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S)


class Connection:
    """One node's Docker. `socket()` gives the path to dial, or raises: then nothing is dialled."""

    def __init__(self, node: str, socket: Callable[[], Path]) -> None:
        self._node, self._socket = node, socket
        self._docker: aiodocker.Docker | None = None
        self._dialled: tuple[Path, int, int] | None = None

    @asynccontextmanager
    async def call(self, what: str, deadline_s: float) -> AsyncIterator[aiodocker.Docker]:
        """Raises DockerMute, DockerRefused, DockerError without a connection, and what `socket` raises."""
        try:
            with anyio.fail_after(deadline_s):
                yield await self._client()
        except TimeoutError:
            raise DockerMute(self._node, f"{what} did not end in {deadline_s:g} s") from None
        except aiodocker.DockerError as error:
            raise await self._refusal(error) from None
        except (aiohttp.ClientError, OSError, EOFError, ValueError) as error:
            raise DockerError(self._node, f"{what}: the connection broke: {error!r}") from None

    async def aclose(self) -> None:
        docker, self._docker = self._docker, None
        if docker is not None:
            await docker.close()

    async def _client(self) -> aiodocker.Docker:
        """A new one for every new socket, so that nothing of an earlier connection (or API version) is believed."""
        path = self._socket()
        try:
            status = path.stat()
        except OSError as error:
            raise DockerError(self._node, f"{path}: {error.strerror}") from None
        dialled = (path, status.st_ino, status.st_ctime_ns)
        if self._docker is None or self._dialled != dialled:
            await self.aclose()
            self._docker, self._dialled = aiodocker.Docker(f"unix://{path}", timeout=TIMEOUT), dialled
        return self._docker

    async def _refusal(self, error: aiodocker.DockerError) -> DockerError:
        if error.status == 900:  # aiodocker's own number for no connection
            cause = error.__context__
            why = cause.strerror if isinstance(cause, aiohttp.ClientOSError) else cause or error.message
            return DockerError(self._node, f"no connection: {why}")
        if "client version" in error.message:
            await self.aclose()  # another Docker was installed: agree on the API version again
        return Refused(self._node, error.message, error.status)


async def find(docker: aiodocker.Docker, ref: str) -> dict[str, Any] | None:
    """Inspect by id or name; None when there is no such container (any more)."""
    try:
        return await docker.containers.container(ref).show()
    except aiodocker.DockerError as error:
        if error.status == 404:
            return None
        raise


async def stream(docker: aiodocker.Docker, path: str, params: Mapping[str, str]) -> aiohttp.ClientResponse:
    """An answer that is read as it comes; the caller closes it. aiodocker's readers hide breaks, times and streams."""
    if docker.api_version == "auto":
        await docker.version()
    url = f"{docker.docker_host}/{docker.api_version}/{path}"
    response = await docker.session.get(url, params=params, timeout=ENDLESS)
    if response.status < 400:
        return response
    try:
        raise aiodocker.DockerError(response.status, str((await response.json())["message"]))
    finally:
        response.close()
