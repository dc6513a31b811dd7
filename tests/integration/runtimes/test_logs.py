"""Logs of real containers -> lines."""

from __future__ import annotations

import time
from contextlib import aclosing
from typing import Any

import aiodocker
import anyio
import pytest

from sparkd.runtimes.docker import DockerRuntime

from .dockerd import IMAGE
from .ranks import rank, until_state

pytestmark = pytest.mark.lab


async def test_logs_tell_time_stream_and_order(runtime: DockerRuntime) -> None:
    began = time.time()
    script = "echo one; sleep 0.3; echo two >&2; sleep 0.3; echo; sleep 0.3; echo -n end"
    created = await runtime.start(rank("sh", "-c", script), {})
    await until_state(runtime, "exited")
    lines = await runtime.logs(created, 100, None)
    assert [line.text for line in lines] == ["one", "two", "", "end"]
    assert [line.stream for line in lines] == ["stdout", "stderr", "stdout", "stdout"]
    assert all(began - 1 < line.at < time.time() + 1 for line in lines)
    assert [line.text for line in await runtime.logs(created, 2, None)] == ["", "end"]
    assert [line.text for line in await runtime.logs(created, 100, lines[1].at)] == ["two", "", "end"]
    assert [line.text for line in await runtime.beginning(created, 2, None)] == ["one", "two"]
    assert [line.text for line in await runtime.beginning(created, 2, lines[1].at)] == ["two", ""]


async def test_a_line_that_docker_cut_is_one_line(runtime: DockerRuntime) -> None:
    created = await runtime.start(rank("sh", "-c", "yes x | tr -d '\\n' | head -c 50000; echo; echo after"), {})
    await until_state(runtime, "exited")
    long, after = await runtime.logs(created, 100, None)
    assert (long.text, after.text) == ("x" * 50_000, "after")


async def test_a_flood_of_log_is_bounded(runtime: DockerRuntime) -> None:
    created = await runtime.start(rank("sh", "-c", "yes $(seq 200 | tr '\\n' ' ') | head -n 6000; echo last"), {})
    await until_state(runtime, "exited")
    lines = await runtime.logs(created, 10_000, None)
    assert lines[-1].text == "last"
    assert 900_000 < sum(len(line.text) for line in lines) <= 1 << 20


async def test_a_container_with_a_terminal(runtime: DockerRuntime, docker: aiodocker.Docker) -> None:
    command = ["sh", "-c", "echo one; echo two"]
    body: dict[str, Any] = {"Image": IMAGE, "Cmd": command, "Tty": True, "HostConfig": {"NetworkMode": "host"}}
    container = await docker.containers.create(body, name="sparkd-tty-0")
    await container.start()
    await container.wait()
    assert [line.text for line in await runtime.logs(container.id, 10, None)] == ["one", "two"]


async def test_follow_ends_with_the_container(runtime: DockerRuntime) -> None:
    created = await runtime.start(rank("sh", "-c", "for i in 1 2 3; do echo $i; sleep 0.2; done"), {})
    with anyio.fail_after(15):
        assert [line.text async for line in runtime.follow(created, 10)] == ["1", "2", "3"]


async def test_follow_can_be_left(runtime: DockerRuntime) -> None:
    created = await runtime.start(rank("sh", "-c", "while :; do echo tick; sleep 0.1; done"), {})
    with anyio.fail_after(15):
        async with aclosing(runtime.follow(created, 1)) as lines:
            async for line in lines:
                assert line.text == "tick"
                break
