"""SIGHUP again and again: what is read is the newest, and no more often than it takes."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from typing import Any, cast

import anyio

from sparkd.daemon.run import _until_told_to_end
from sparkd.daemon.service import Service


class Slow:
    """A service whose reloads end when they are let go."""

    def __init__(self) -> None:
        self.begun, self.ended, self.go = 0, 0, anyio.Event()

    async def reload(self, by: str, message: str) -> Mapping[str, Any]:
        self.begun += 1
        await self.go.wait()
        self.ended += 1
        return {"sentence": f"{by}{message}"}


async def until(what: str, holds: Any) -> None:
    with anyio.fail_after(20):
        while not holds():
            await anyio.sleep(0.01)
    assert holds(), what


async def turns() -> None:
    """More turns of the loop than it takes to hear of all signals that were sent, one a turn."""
    for _ in range(2000):
        await anyio.sleep(0)


async def test_a_storm_of_signals_is_one_reload_under_way_and_one_after_it() -> None:
    service = Slow()
    async with anyio.create_task_group() as group:
        group.start_soon(_until_told_to_end, cast("Service", service))
        await until("it listens", lambda: signal.getsignal(signal.SIGHUP) not in (signal.SIG_DFL, signal.SIG_IGN))
        os.kill(os.getpid(), signal.SIGHUP)
        await until("the first is under way", lambda: service.begun == 1)
        for _ in range(200):
            os.kill(os.getpid(), signal.SIGHUP)
        await turns()
        service.go.set()
        await until("one more follows", lambda: service.ended == 2)
        await turns()
        assert service.begun == 2
        os.kill(os.getpid(), signal.SIGHUP)
        await until("the next signal is a reload of its own", lambda: service.ended == 3)
        os.kill(os.getpid(), signal.SIGTERM)
    assert service.begun == 3
