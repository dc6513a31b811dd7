"""A worker's Docker, through the forwarded socket: the same answers, and typed errors when the connection goes."""

from __future__ import annotations

import tempfile
from pathlib import Path

import aiodocker
import pytest

from sparkd.base.errors import DockerError, Unreachable
from sparkd.hosts import Sockets
from sparkd.runtimes.docker import DockerRuntime

from ..hosts.sshd import running, worker
from ..waiting import until
from .dockerd import Dockerd
from .ranks import rank

pytestmark = pytest.mark.lab


async def test_a_workers_docker(dockerd: Dockerd, docker: aiodocker.Docker) -> None:
    with tempfile.TemporaryDirectory(prefix="sd-") as folder:
        async with worker(Path(folder)) as there:
            host = there.host(sockets=Sockets(docker=dockerd.socket))
            runtime = DockerRuntime("spark2", host.docker_socket)
            with pytest.raises(Unreachable, match="not connected yet"):
                await runtime.containers()
            async with running(host):
                await until("it is connected", lambda: host.connection == 1)
                created = await runtime.start(rank("sh", "-c", "echo up; sleep 1000", number=1), {})
                (seen,) = await runtime.containers()
                assert (seen.id, seen.rank, seen.state) == (created, 1, "running")
                await there.down()

                async def lost() -> bool:
                    try:
                        await runtime.containers()
                    except Unreachable:
                        return True
                    except DockerError:
                        return False  # the socket went before the host noticed why
                    return False

                await until("the loss is what the runtime reports", lost)
                await there.up()
                await until("it is connected again", lambda: host.connection == 2)
                assert [one.id for one in await runtime.containers()] == [created]
                assert [line.text for line in await runtime.logs(created, 10, None)] == ["up"]
                await runtime.stop(created, 0.0)
                await runtime.remove(created)
            await runtime.aclose()
