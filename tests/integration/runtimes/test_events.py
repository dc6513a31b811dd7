"""Docker's event stream as a hint to look: heard soon, never dialled on its own, ended at once."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiodocker
import anyio
import pytest
from anyio.abc import SocketStream

from sparkd.runtimes import docker as module
from sparkd.runtimes.docker import DockerRuntime

from ..waiting import until
from .dockerd import IMAGE, Dockerd
from .ranks import rank

pytestmark = pytest.mark.lab


class Wakes:
    count = 0

    def __call__(self) -> None:
        self.count += 1


@pytest.fixture
def short_folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="sd-"))
    yield folder
    shutil.rmtree(folder)


@asynccontextmanager
async def listening(runtime: DockerRuntime, wakes: Wakes) -> AsyncIterator[None]:
    async with anyio.create_task_group() as group:
        group.start_soon(runtime.events, wakes)
        yield
        with anyio.fail_after(1):
            group.cancel_scope.cancel()


async def subscribed(runtime: DockerRuntime, docker: aiodocker.Docker, wakes: Wakes) -> None:
    """Lists, as the daemon does, until an event arrives for a container made for this."""

    async def heard() -> bool:
        await runtime.containers()
        before = wakes.count
        created = await runtime.start(rank(deployment="probe"), {})
        await docker.containers.container(created).delete(force=True)
        with anyio.move_on_after(0.5):
            while wakes.count == before:
                await anyio.sleep(0.01)
        return wakes.count > before

    await until("the event stream is open", heard)


async def test_start_and_death_wake(runtime: DockerRuntime, docker: aiodocker.Docker) -> None:
    wakes = Wakes()
    async with listening(runtime, wakes):
        await subscribed(runtime, docker, wakes)
        before = wakes.count
        created = await runtime.start(rank(), {})
        await until("start wakes", lambda: wakes.count > before, 2.0)
        before = wakes.count
        await docker.containers.container(created).kill()
        await until("die wakes", lambda: wakes.count > before, 2.0)


async def test_other_containers_do_not_wake(runtime: DockerRuntime, docker: aiodocker.Docker) -> None:
    wakes = Wakes()
    async with listening(runtime, wakes):
        await subscribed(runtime, docker, wakes)
        body: dict[str, Any] = {"Image": IMAGE, "Cmd": ["true"], "HostConfig": {"NetworkMode": "host"}}
        other = await docker.containers.create(body, name="unrelated")
        before = wakes.count
        await other.start()
        await other.wait()
        await other.delete()
        created = await runtime.start(rank(), {})
        await until("ours wakes", lambda: wakes.count > before)
        assert wakes.count == before + 1, "only the start of ours"
        await docker.containers.container(created).delete(force=True)


@pytest.mark.slow
async def test_docker_restarted_is_heard_and_subscribed_again(
    runtime: DockerRuntime, docker: aiodocker.Docker, dockerd: Dockerd
) -> None:
    wakes = Wakes()
    async with listening(runtime, wakes):
        await subscribed(runtime, docker, wakes)
        before = wakes.count
        await anyio.to_thread.run_sync(dockerd.stop)
        await until("the end of the stream wakes", lambda: wakes.count > before)
        await anyio.to_thread.run_sync(dockerd.start)
        await subscribed(runtime, docker, wakes)


async def test_the_event_stream_alone_never_dials(short_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A person stops docker.service, docker.socket goes on listening: whoever connects wakes Docker again."""
    monkeypatch.setattr(module, "FIRST_PAUSE_S", 0.0)
    dialled = Wakes()

    async def hang_up(stream: SocketStream) -> None:
        dialled()
        await stream.aclose()

    path = short_folder / "docker.sock"
    async with await anyio.create_unix_listener(path) as listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, hang_up)
        runtime, wakes = DockerRuntime("spark1", lambda: path), Wakes()
        async with listening(runtime, wakes):
            await anyio.wait_all_tasks_blocked()
            assert dialled.count == 0
            runtime._listed.set()  # as a successful list does
            await until("it subscribes, in vain", lambda: wakes.count == 1)
            after_one = dialled.count
            await anyio.wait_all_tasks_blocked()
            assert (dialled.count, wakes.count) == (after_one, 1)
        await runtime.aclose()
        group.cancel_scope.cancel()
