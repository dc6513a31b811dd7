"""A verb that is one file of the tests, asked of a running daemon: intent, history, conflict, and the wait for its end."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

import sparkd.verbs
from sparkd.model.decision import Phase

from ..waiting import until
from .test_reloading import World, running

FOLDER = Path(__file__).parents[2] / "unit" / "verbs" / "made_up"
CLIENT = f"import sparkd.verbs; sparkd.verbs.__path__.append({str(FOLDER)!r});"
CLIENT += "from sparkd.__main__ import main; main()"


@pytest.fixture(autouse=True)
def found(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(sparkd.verbs, "__path__", [*sparkd.verbs.__path__, str(FOLDER)])
    sparkd.verbs.verbs.cache_clear()
    yield
    sparkd.verbs.verbs.cache_clear()
    sys.modules.pop("sparkd.verbs.refresh", None)


async def ctl(world: World, *words: str) -> tuple[int, str, str]:
    environment = {**os.environ, "SPARKD_SOCKET": str(world.folder / "run" / "sparkd.sock"), "COLUMNS": "200"}
    with anyio.fail_after(60):
        argv = [sys.executable, "-c", CLIENT, "ctl", *words]
        done = await anyio.run_process(argv, env=environment, check=False, stdin=subprocess.DEVNULL)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


async def test_its_wish_is_kept_told_and_waited_for() -> None:
    async with running() as world, anyio.create_task_group() as group:
        supervisor = world.supervisor
        world.started("ds4")
        said: list[tuple[int, str, str]] = []

        async def asked() -> None:
            said.append(await ctl(world, "refresh", "ds4", "--yes", "--wait", "-m", "stale as bread"))

        group.start_soon(asked)
        await until("it is written down", lambda: supervisor.intents["ds4"].restart == 1)
        intent = supervisor.intents["ds4"]
        assert (intent.wanted, intent.clean, intent.message, bool(intent.by)) == ("up", 1, "stale as bread", True)
        await supervisor.cycle()
        event = next(one for one in await world.journal.history("ds4") if one.kind == "restart-asked")
        assert (event.message, event.by) == ("stale as bread", intent.by)
        assert not said, "it waits"
        state = supervisor.states["ds4"]
        supervisor.states["ds4"] = replace(state, phase=Phase.SERVE, generation=4, restart_done=1)
        await until("the client has seen it", lambda: bool(said))
        assert (said[0][0], "[refresh: " in said[0][1]) == (0, True), said
        _, shown, _ = await ctl(world, "history", "ds4")
        assert "stale as bread" in shown


async def test_its_conflict_is_answered_in_its_words() -> None:
    async with running() as world:
        world.started("ds4")
        world.supervisor.intents["ds4"] = replace(world.supervisor.intents["ds4"], paused=True)
        code, _, err = await ctl(world, "refresh", "ds4", "--yes")
        assert (code, "ds4: it is paused, and stays stale" in err, "sparkd ctl resume ds4" in err) == (1, True, True), (
            err
        )
        assert world.supervisor.intents["ds4"].restart == 0
