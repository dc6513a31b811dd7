"""Ranks without Docker for tests: Python one-liners as rank specs, and waiting for what becomes of them."""

from __future__ import annotations

import inspect
import json
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio

from sparkd.model.config import ContainerSpec, LogLimit
from sparkd.model.rank import (
    LABEL_DEPLOYMENT,
    LABEL_GENERATION,
    LABEL_OWNER,
    LABEL_RANK,
    LABEL_SPEC,
    RankSpec,
    container_name,
)
from sparkd.model.snapshot import Container
from sparkd.runtimes.shim import ShimRuntime

SLEEP = "import time; print('up', flush=True); time.sleep(1000)"


def rank(
    code: str = SLEEP, *, number: int = 0, log: LogLimit | None = None, env: dict[str, str] | None = None
) -> RankSpec:
    """A rank that runs `code` with this Python."""
    return command(sys.executable, "-S", "-c", code, number=number, log=log, env=env)


def command(*argv: str, number: int = 0, log: LogLimit | None = None, env: dict[str, str] | None = None) -> RankSpec:
    labels = {
        LABEL_OWNER: "owner-1",
        LABEL_DEPLOYMENT: "demo",
        LABEL_GENERATION: "7",
        LABEL_RANK: str(number),
        LABEL_SPEC: "0" * 64,
    }
    return RankSpec(
        deployment="demo",
        rank=number,
        node="spark1",
        argv=argv,
        env=env or {},
        container=ContainerSpec(log=log or LogLimit()),
        name=container_name("demo", number),
        labels=labels,
        runtime="process",
    )


async def until(what: str, condition: Callable[[], Any | Awaitable[Any]], deadline_s: float = 15.0) -> Any:
    """The first truthy answer of `condition()`; fails with `what` when there is none in time."""
    with anyio.move_on_after(deadline_s):
        while True:
            answer = condition()
            if inspect.isawaitable(answer):
                answer = await answer
            if answer:
                return answer
            await anyio.sleep(0.02)
    raise AssertionError(f"not within {deadline_s:g} s: {what}")


async def only(runtime: ShimRuntime) -> Container:
    (container,) = await runtime.containers()
    return container


async def ended(runtime: ShimRuntime) -> Container:
    async def look() -> Container | None:
        container = await only(runtime)
        return None if container.alive else container

    found: Container = await until("the rank has ended", look)
    return found


async def says(runtime: ShimRuntime, container_id: str, text: str) -> None:
    async def look() -> bool:
        return text in [line.text for line in await runtime.logs(container_id, 100, None)]

    await until(f"the log holds {text!r}", look)


async def started(runtime: ShimRuntime, code: str = SLEEP, **more: Any) -> Container:
    """A rank that has said `up`."""
    container_id = await runtime.start(rank(code, **more), {})
    await says(runtime, container_id, "up")
    return await only(runtime)


def shim_pid(folder: Path, name: str = "sparkd-demo-0") -> int:
    pid: int = json.loads((folder / name / "record.json").read_text())["shim"]["pid"]
    return pid


def state_of(pid: int) -> str:
    """Empty when there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return ""


def alive(pid: int) -> bool:
    return state_of(pid) not in ("", "Z", "X")


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
