"""A path to a Docker socket -> an aiodocker client for one call, under a deadline, with every error as one of ours."""

from __future__ import annotations

import tarfile
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import aiodocker
import aiohttp
from aiohttp.http_exceptions import HttpProcessingError

from sparkd.base import own_time
from sparkd.base.bounded_bytes import Steps
from sparkd.base.errors import DockerError, DockerMute
from sparkd.runtimes.docker_refusals import Refused

CONNECT_S = 4.0
TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S)
"""The deadline that counts is around each call, in our own running time: aiohttp's would pass while sparkd stood still."""
MAX_ANSWER_BYTES = 4 << 20
"""Two thousand containers, read in 40 ms, in which nothing else runs (`bounds.parsed` says why). Without a limit an answer that
never ends took 900 MB in 2 s."""
CONNECTION = (aiohttp.ClientError, HttpProcessingError, OSError, EOFError)
FOREIGN = (*CONNECTION, ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError)
"""All that reading an answer can raise: whatever listens there may say `3`, `null` or half a million brackets."""


@contextmanager
def understood(node: str, what: str, within: str = "time") -> Iterator[None]:
    """What reading an answer raises, as DockerMute or DockerError: one odd Docker is one node's trouble, never all's."""
    try:
        yield
    except TimeoutError:
        raise DockerMute(node, f"{what} did not end in {within}") from None
    except (*FOREIGN, tarfile.TarError) as error:
        trouble = "the connection broke" if isinstance(error, CONNECTION) else "the answer makes no sense"
        raise DockerError(node, f"{what}: {trouble}: {type(error).__name__}: {error}") from None


class _Bounded(aiohttp.ClientResponse):
    """An answer of at most MAX_ANSWER_BYTES where it is read whole."""

    async def read(self) -> bytes:
        if self._body is None:
            body, steps = bytearray(), Steps()
            while chunk := await self.content.readany():
                await steps.step()
                body += chunk
                if len(body) > MAX_ANSWER_BYTES:
                    self.close()
                    raise aiohttp.ClientPayloadError(f"the answer is longer than {MAX_ANSWER_BYTES} bytes")
            self._body = bytes(body)
        return await super().read()


class Connection:
    """One node's Docker. `socket()` gives the path to dial, or raises: then nothing is dialled."""

    def __init__(self, node: str, socket: Callable[[], Path]) -> None:
        self._node, self._socket = node, socket
        self._docker: aiodocker.Docker | None = None
        self._dialled: tuple[Path, int, int] | None = None

    @asynccontextmanager
    async def call(self, what: str, deadline_s: float) -> AsyncIterator[aiodocker.Docker]:
        """Raises DockerMute, DockerRefused, DockerError without a connection, and what `socket` raises."""
        docker: aiodocker.Docker | None = None
        try:
            with understood(self._node, what, f"{deadline_s:g} s"), own_time.fail_after(deadline_s):
                docker = await self._client()
                yield docker
        except aiodocker.DockerError as error:
            raise await self._refusal(error) from None
        except RuntimeError as error:
            if docker is None or not docker.session.closed:
                raise
            # aiohttp's way to say that `aclose` came in between: a reload has let go of this node
            raise DockerError(self._node, f"{what}: the connection was closed: {error}") from None

    async def aclose(self) -> None:
        docker, self._docker = self._docker, None
        if docker is not None:
            await docker.close()
            await docker.session.close()

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
            connector = aiohttp.UnixConnector(str(path))
            session = aiohttp.ClientSession(connector=connector, timeout=TIMEOUT, response_class=_Bounded)
            self._docker = aiodocker.Docker("unix://localhost", connector, session, TIMEOUT)
            self._dialled = dialled
        return self._docker

    async def _refusal(self, error: aiodocker.DockerError) -> DockerError:
        if error.status == 900:  # aiodocker's own number for no connection
            cause = error.__context__
            why = cause.strerror if isinstance(cause, aiohttp.ClientOSError) else cause or error.message
            return DockerError(self._node, f"no connection: {why}")
        message = str(error.message)
        if "client version" in message:
            await self.aclose()  # another Docker was installed: agree on the API version again
        return Refused(self._node, message, error.status)


async def find(docker: aiodocker.Docker, ref: str) -> dict[str, Any] | None:
    """Inspect by id or name; None when there is no such container (any more)."""
    try:
        found = await docker.containers.container(ref).show()
    except aiodocker.DockerError as error:
        if error.status == 404:
            return None
        raise
    if not isinstance(found, dict):
        raise TypeError(f"no object: {str(found)[:80]!r}")  # `null` must not read as: no such container
    return found


async def find_image(docker: aiodocker.Docker, ref: str) -> dict[str, Any] | None:
    """Inspect of an image; None when it is not there."""
    try:
        return dict(await docker.images.inspect(ref))
    except aiodocker.DockerError as error:
        if error.status == 404:
            return None
        raise


async def address(docker: aiodocker.Docker, path: str) -> str:
    """For what aiodocker has no words for; the API's version is agreed on first."""
    if docker.api_version == "auto":
        await docker.version()
    return f"{docker.docker_host}/{docker.api_version}/{path}"


async def listed(docker: aiodocker.Docker, path: str, params: Mapping[str, str]) -> list[dict[str, Any]]:
    """A list that is one: aiodocker reads `{}` as an empty one, which would mean that nothing is there."""
    async with await stream(docker, path, params) as response:
        found = await response.json()
    if not isinstance(found, list):
        raise TypeError(f"no list: {str(found)[:80]!r}")
    return found


async def stream(docker: aiodocker.Docker, path: str, params: Mapping[str, str]) -> aiohttp.ClientResponse:
    """An answer that is read as it comes; the caller closes it. aiodocker's readers hide breaks, times and streams."""
    response = await docker.session.get(await address(docker, path), params=params, timeout=TIMEOUT)
    if response.status < 400:
        return response
    try:
        raise aiodocker.DockerError(response.status, str((await response.json())["message"]))
    finally:
        response.close()
