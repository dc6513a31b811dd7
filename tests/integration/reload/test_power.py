"""A power hook from the file to the program, through the real configuration, daemon, API and client; and what is left in history."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sparkd.fleet.upkeep import UpkeepLedger

from .test_reloading import World, running

pytestmark = pytest.mark.slow

CYCLE = ("nodes", "power-cycle", "spark2")


def plugged(world: World, script: str) -> Path:
    """A hook for spark2, and the file that it leaves a line in."""
    hook, marks = world.folder / "hook.sh", world.folder / "marks"
    hook.write_text(f'#!/bin/sh\necho "$SPARKD_NODE $1" >> {marks}\n{script}\n')
    hook.chmod(0o755)
    power = f"power: {{command: [{hook}, outlet 3]}}"
    world.cluster(lambda text: text.replace("data_address: 10.0.0.2", f"data_address: 10.0.0.2, {power}"))
    return marks


async def test_a_power_cycle_by_hand_is_done_once_told_and_remembered() -> None:
    async with running() as world:
        code, _, err = await world.ctl(*CYCLE, "-y")
        assert code == 1
        assert "spark2 has no power hook" in err
        assert "nodes: {spark2: {power: …}}" in err
        marks = plugged(world, "echo off; echo on")
        before = dict(world.connections.access)
        answer = await world.reload()
        assert "nodes.spark2.power.command" in [one["key"] for one in answer["cluster"]]
        assert world.connections.access == before, "how it is reached has not changed"
        code, out, _ = await world.ctl(*CYCLE, "--dry-run")
        assert (code, marks.exists()) == (0, False)
        assert f"would power-cycle spark2: run {world.folder}/hook.sh outlet 3." in out

        code, out, err = await world.ctl(*CYCLE, "-y", "-m", "no SSH", "--json")
        assert code == 0, err
        done = json.loads(out)
        assert (done["ok"], done["text"], done["message"]) == (True, "exit code 0: off on", "no SSH")
        assert marks.read_text() == "spark2 outlet 3\n"
        code, out, err = await world.ctl(*CYCLE, "-y")
        assert (code, marks.read_text()) == (1, "spark2 outlet 3\n")
        assert "was taken less than 6 h ago" in err
        assert "--force" in err

        _, out, _ = await world.ctl("nodes")
        assert "(no SSH): exit code 0: off on" in out
        (event,) = [one for one in await world.journal.history() if one.kind == "power-cycle"]
        assert (event.message, event.by, event.data) == ("no SSH", done["by"], {"node": "spark2", "ok": True})
        later = UpkeepLedger(world.journal, lambda: world.supervisor.cluster.nodes)
        later.load()
        (kept,) = later.of("spark2").uses
        assert (kept.ok, kept.message) == (True, "no SSH"), "a sparkd that is started again knows of it"


async def test_a_hook_that_fails_is_a_failure_of_the_command_and_may_be_forced_again() -> None:
    async with running() as world:
        marks = plugged(world, "echo no such outlet >&2; exit 3")
        await world.reload()
        code, out, _ = await world.ctl(*CYCLE, "-y")
        assert (code, "NOT taken and given back: exit code 3: no such outlet" in out) == (1, True)
        code, out, _ = await world.ctl(*CYCLE, "-y", "--force")
        assert (code, marks.read_text()) == (1, "spark2 outlet 3\n" * 2)


async def test_nothing_is_done_that_cannot_be_written_down() -> None:
    async with running() as world:
        marks = plugged(world, "")
        await world.reload()
        world.journal._disk.trouble = "disk full"
        code, _, err = await world.ctl(*CYCLE, "-y")
        assert (code, marks.exists()) == (1, False)
        assert "cannot be written down, so it is not done" in err
        code, _, err = await world.ctl("maintenance", "spark2", "-y")
        assert code == 1
        assert "so nothing is done" in err
        _, out, _ = await world.ctl("nodes", "--json")
        assert [one["maintenance"] for one in json.loads(out)["nodes"]] == [None, None]
