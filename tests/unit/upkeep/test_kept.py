"""Planned work and the uses of power hooks: kept in a real journal, over restarts of sparkd and boots of the head; done by the loop."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from sparkd.base import clock
from sparkd.fleet.ledger import Ledger
from sparkd.fleet.upkeep import UpkeepLedger
from sparkd.journal import Event, Journal, JournalError
from sparkd.journal.moment import Moment
from sparkd.loop.upkeep import Upkeeping
from sparkd.model.config import Cluster, Config, Deployment, Node, Policy
from sparkd.model.decision import Intent, Phase, State
from sparkd.model.machine import Boot
from sparkd.model.power import Power, PowerUse
from sparkd.model.snapshot import NodeView, Snapshot, Unknown
from sparkd.model.upkeep import Echo, Maintenance, Upkeep
from sparkd.reporting.metrics import Counters

HOOK = Power(command=("/bin/true",), auto=True)
NODES = {
    "spark1": Node(name="spark1", address="local", data_address="10.0.0.1"),
    "spark2": Node(name="spark2", address="h", data_address="10.0.0.2", power=HOOK),
}
DEMO = Deployment(name="demo", engine="vllm", nodes=("spark1", "spark2"), image="vllm:1", file="demo.yaml")
WORK = Maintenance(1000.0, 4600.0, 1.7e9, "b:1", "milo", "firmware")
USE = PowerUse(1500.0, 1.7e9, "milo", "no SSH")


@asynccontextmanager
async def journal(folder: Path) -> AsyncIterator[Journal]:
    made = Journal(folder)
    await made.open()
    try:
        yield made
    finally:
        await made.aclose()


def kept(of: Journal, boot: str = "head-1", at: float = 2000.0, wall: float = 1.7e9) -> UpkeepLedger:
    ledger = UpkeepLedger(of, lambda: NODES, lambda: Moment(boot, at, wall))
    ledger.load()
    return ledger


async def test_it_outlives_sparkd_and_the_head_whose_clock_begins_anew(tmp_path: Path) -> None:
    async with journal(tmp_path) as first:
        ledger = kept(first)
        await ledger.plan("spark2", WORK)
        await ledger.use("spark2", USE)
        await ledger.used("spark2", replace(USE, ok=True, text="exit code 0"))
    ended = replace(USE, ok=True, text="exit code 0")
    async with journal(tmp_path) as again:
        assert kept(again, at=2100.0).of("spark2") == Upkeep(WORK, (ended,), hook=True, auto=True)
        # Ten minutes later by the wall clock, in another boot of the head that is 60 s old.
        booted = kept(again, "head-2", 60.0, 1.7e9 + 600.0).of("spark2")
        by_s = 60.0 - 600.0 - 2000.0
        moved = replace(WORK, since=1000.0 + by_s, until=4600.0 + by_s)
        assert booted == Upkeep(moved, (replace(ended, at=1500.0 + by_s),), hook=True, auto=True)
        assert kept(again).standing()["spark1"] == Upkeep(), "nothing is known of it"


@pytest.mark.parametrize("row", [{}, {"nodes": 3}, {"boot": "x", "at": "y", "wall": 0, "nodes": {}}])
async def test_a_note_that_cannot_be_read_is_none(tmp_path: Path, row: dict[str, Any]) -> None:
    async with journal(tmp_path) as made:
        await made.remember("upkeep", row)
        assert kept(made).of("spark2").maintenance is None


async def test_what_cannot_be_written_is_not_planned_and_no_power_is_taken(tmp_path: Path) -> None:
    async with journal(tmp_path) as made:
        ledger = kept(made)
        made._disk.trouble = "disk full"
        for wish in (ledger.plan("spark2", WORK), ledger.use("spark2", USE)):
            with pytest.raises(JournalError, match="disk full"):
                await wish
        assert ledger.of("spark2") == Upkeep(hook=True, auto=True)


# --------------------------------------------------------------------------------------------------- what the loop does


@dataclass
class World:
    upkeeping: Upkeeping
    ledger: Ledger
    events: list[Event]
    folder: Path
    seen: list[float] = field(default_factory=list)

    def used(self) -> int:
        marks = self.folder / "marks"
        return len(marks.read_text().splitlines()) if marks.exists() else 0

    async def look(self, after_s: float, *echoes: Echo, gone: bool = True, **spark2: Any) -> None:
        """One look, `after_s` seconds after the first; the clock of the daemon is moved with it."""
        now = BEGAN + after_s
        CLOCK[0] = now
        silent = Unknown("timed out", BEGAN, "unreachable", silent=True)
        well = NodeView("spark1", Boot("s1", 1, 9e4), *[()] * 7)  # type: ignore[arg-type]
        other = NodeView("spark2", *[silent] * 8) if gone else replace(well, name="spark2", **spark2)
        views = {"spark1": well, "spark2": other}
        known = self.ledger.upkeep.standing()
        await self.upkeeping.look(
            Snapshot(now, 1.7e9 + after_s, views, echoes={"spark2": echoes} if gone else {}, upkeep=known)
        )
        await anyio.wait_all_tasks_blocked()


BEGAN = 50_000.0
CLOCK = [BEGAN]
LOST = (Echo("spark1", "lan", False), Echo("spark1", "fabric", False))


@asynccontextmanager
async def world(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str = "", **power: Any) -> AsyncIterator[World]:
    CLOCK[0] = BEGAN
    monkeypatch.setattr(clock, "now", lambda: CLOCK[0])
    hook = folder / "hook.sh"
    hook.write_text(f"#!/bin/sh\necho $SPARKD_NODE >> {folder}/marks\n{script}\n")
    hook.chmod(0o755)
    node = replace(NODES["spark2"], power=Power(**{"command": (str(hook),), "auto": True, **power}))
    policy = Policy(period=5.0)
    cluster = Cluster(cluster="desk", nodes={**NODES, "spark2": node}, policy=policy)
    async with journal(folder / "state") as made, anyio.create_task_group() as group:
        ledger = Ledger(Config(cluster=cluster, deployments=(DEMO,)), made, Counters())
        await ledger.load()
        ledger.states["demo"] = State(phase=Phase.PRECHECK)
        ledger.intents["demo"] = Intent(wanted="up")
        events: list[Event] = []

        async def record(event: Event) -> None:
            events.append(event)

        yield World(Upkeeping(ledger, record, lambda: None, group), ledger, events, folder)


async def until_used(at: World, times: int) -> None:
    with anyio.fail_after(30):
        while sum(one.kind == "power-cycle" for one in at.events) < times:
            await anyio.sleep(0.02)


async def quiet(
    at: World, *, until: float, step: float = 5.0, since: float = 0.0, echoes: tuple[Echo, ...] = LOST
) -> None:
    for number in range(int((until - since) / step) + 1):
        await at.look(since + number * step, *echoes)


async def test_f50_a_node_that_all_agree_to_be_gone_has_its_power_taken_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with world(tmp_path, monkeypatch) as at:
        await at.look(-5.0, gone=False, system="running")
        await quiet(at, until=295.0)
        assert at.used() == 0, "not before policy.gone_after"
        await at.look(300.0, *LOST)
        await until_used(at, 1)
        assert at.used() == 1
        await quiet(at, since=305.0, until=1000.0)
        assert at.used() == 1, "at most once in six hours"
        (event,) = at.events
        assert (event.kind, event.by, event.data) == ("power-cycle", "", {"node": "spark2", "ok": True})
        assert event.sentence == (
            "spark2 power-cycled by itself (silent to SSH and to pings on both networks for 300 s): exit code 0"
        )
        # Six hours later it is gone still, or again.
        await quiet(at, since=1000.0, until=1300.0)
        six = 300.0 + 6 * 3600.0
        await quiet(at, since=six, until=six + 300.0)
        await until_used(at, 2)
        assert at.used() == 2


CONTRADICTED: dict[str, tuple[Echo, ...]] = {
    "another node reaches it": (*LOST, Echo("spark3", "fabric", True)),
    "one network only": LOST[:1],
    "our own side is down": (Echo("spark1", "lan", None), LOST[1]),
}


@pytest.mark.parametrize("echoes", CONTRADICTED.values(), ids=CONTRADICTED)
async def test_f50_no_power_is_taken_where_something_contradicts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, echoes: tuple[Echo, ...]
) -> None:
    async with world(tmp_path, monkeypatch) as at:
        await at.look(-5.0, gone=False, system="running")
        await quiet(at, until=900.0, echoes=echoes)
        assert at.used() == 0


async def test_a_node_that_was_shut_down_by_hand_stays_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with world(tmp_path, monkeypatch) as at:
        await at.look(-5.0, gone=False, system="stopping")
        await quiet(at, until=900.0)
        assert at.used() == 0


async def test_a_node_that_this_sparkd_never_saw_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with world(tmp_path, monkeypatch) as at:
        await quiet(at, until=900.0)
        assert at.used() == 0


async def test_time_in_which_sparkd_did_not_look_counts_for_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with world(tmp_path, monkeypatch) as at:
        await at.look(-5.0, gone=False, system="running")
        await at.look(0.0, *LOST)
        await at.look(900.0, *LOST)
        await quiet(at, since=905.0, until=1195.0)
        assert at.used() == 0
        await at.look(1200.0, *LOST)
        await until_used(at, 1)


@pytest.mark.parametrize("spoiled", ["not auto", "maintenance", "nobody wants it", "disk"])
async def test_no_power_is_taken_without_leave(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spoiled: str) -> None:
    async with world(tmp_path, monkeypatch, auto=spoiled != "not auto") as at:
        await at.look(-5.0, gone=False, system="running")
        if spoiled == "maintenance":
            await at.upkeeping.begin("spark2", Maintenance(BEGAN, BEGAN + 9999.0))
        if spoiled == "nobody wants it":
            at.ledger.intents["demo"] = Intent(wanted="stopped")
        if spoiled == "disk":
            at.ledger.journal._disk.trouble = "disk full"
        await quiet(at, until=900.0)
        assert at.used() == 0


async def test_a_hook_that_fails_is_told_and_counts_as_a_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with world(tmp_path, monkeypatch, "echo no such outlet; exit 4") as at:
        use = await at.upkeeping.power_cycle("spark2", at.ledger.config.cluster.nodes["spark2"].power, "milo", "stuck")  # type: ignore[arg-type]
        assert (use.ok, use.text) == (False, "exit code 4: no such outlet")
        assert at.ledger.upkeep.of("spark2").uses == (use,)
        (event,) = at.events
        assert event.sentence == "spark2 could NOT be power-cycled by milo (stuck): exit code 4: no such outlet"
        assert (event.by, event.message, event.data["ok"]) == ("milo", "stuck", False)
        await at.look(-5.0, gone=False, system="running")
        await quiet(at, until=900.0)
        assert at.used() == 1, "nobody knows what it did"


async def test_planned_work_ends_with_the_boot_or_its_time_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with world(tmp_path, monkeypatch) as at:
        for anew, after, why in ((True, 60.0, "it has booted"), (False, 3600.0, "its time is over")):
            await at.upkeeping.begin("spark2", Maintenance(BEGAN, BEGAN + 3600.0, boot="s2:1", by="milo"))
            await at.look(30.0, gone=False, boot=Boot("s2", 1, 9e4), system="running")
            await at.look(40.0, *LOST)
            assert at.ledger.upkeep.of("spark2").maintenance is not None
            boot = Boot("s2b" if anew else "s2", 1, 20.0)
            await at.look(after, gone=False, boot=boot, system="running")
            assert at.ledger.upkeep.of("spark2").maintenance is None
            assert at.events[-1].kind == "maintenance-over"
            assert at.events[-1].sentence == f"the maintenance of spark2 is over: {why}"
        assert [one.kind for one in at.events] == ["maintenance-begun", "maintenance-over"] * 2
        assert at.events[0].by == "milo"
