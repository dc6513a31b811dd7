from __future__ import annotations

import os
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path

import aiodocker
import anyio
import pytest

from sparkd.runtimes.docker import DockerRuntime

from .dockerd import Dockerd, missing


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def dockerd() -> Iterator[Dockerd]:
    if why := missing():
        if os.environ.get("SPARKD_NO_SKIP") == "1":
            pytest.fail(why)
        pytest.skip(why)
    # Not tmp_path: a Unix socket's path must stay under 108 bytes.
    with tempfile.TemporaryDirectory(prefix="sd-") as folder:
        daemon = Dockerd(Path(folder))
        try:
            daemon.start()
            anyio.run(daemon.import_image)
            yield daemon
        finally:
            daemon.close()


@pytest.fixture
async def docker(dockerd: Dockerd) -> AsyncIterator[aiodocker.Docker]:
    """The plain API, to arrange and to look behind the runtime's back. Every container goes at the end of the test."""
    client = aiodocker.Docker(f"unix://{dockerd.socket}")
    try:
        yield client
        for container in await client.containers.list(all=True):
            with suppress(aiodocker.DockerError):  # a create that was given up is undone by Docker itself, meanwhile
                await container.delete(force=True)
    finally:
        await client.close()


@pytest.fixture
async def runtime(dockerd: Dockerd, docker: aiodocker.Docker) -> AsyncIterator[DockerRuntime]:
    runtime = DockerRuntime("spark1", lambda: dockerd.socket)
    yield runtime
    await runtime.aclose()
