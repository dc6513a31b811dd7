"""Two people ask at the same time: each of them is answered, and what each of them asked is wanted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from sparkd.api import Conflict, Operation
from sparkd.daemon.wishes import Wishes
from sparkd.fleet.ledger import Ledger
from sparkd.journal import Journal
from sparkd.model.config import Cluster, Config, Deployment, Node
from sparkd.model.decision import Intent, State
from sparkd.model.machine import Boot, DockerUnit
from sparkd.model.snapshot import Snapshot, Unknown, blind
from sparkd.reporting.metrics import Counters

DS4 = Deployment(name="ds4", engine="vllm", nodes=("spark1",), model="/m")


def ledger(tmp_path: Path) -> Ledger:
    cluster = Cluster(cluster="c", nodes={"spark1": Node(name="spark1", address="local")})
    made = Ledger(Config(cluster=cluster, deployments=(DS4,)), Journal(tmp_path), Counters())
    made.states["ds4"], made.intents["ds4"] = State(), Intent(wanted="up", lost=frozenset({"spark1"}))
    return made


async def asked(book: Ledger, *verbs: str) -> Intent:
    async def want(name: str, intent: Intent, verb: str) -> None:
        await anyio.sleep(0.01)
        book.intents[name] = intent

    wishes = Wishes(book, want)
    async with anyio.create_task_group() as group:
        for verb in verbs:
            group.start_soon(wishes.operate, DS4, verb, Operation())
    return book.intents["ds4"]


async def test_of_wishes_at_the_same_time_none_is_lost(tmp_path: Path) -> None:
    intent = await asked(ledger(tmp_path), "stop", "pause")
    assert (intent.wanted, intent.paused) == ("stopped", True)


async def test_a_wish_is_judged_by_what_the_one_before_it_has_made_of_it(tmp_path: Path) -> None:
    with pytest.RaisesGroup(pytest.RaisesExc(Conflict, match="it is paused")):
        await asked(ledger(tmp_path), "pause", "stop")


async def test_four_restarts_are_four(tmp_path: Path) -> None:
    assert (await asked(ledger(tmp_path), *["restart"] * 4)).restart == 4


async def test_a_node_that_is_back_waits_for_a_wish_that_is_being_written(tmp_path: Path) -> None:
    book = ledger(tmp_path)
    there = replace(
        blind("spark1", Unknown("away", 0.0)), boot=Boot("b", 1, 1.0), docker=DockerUnit(True), containers=()
    )
    look = Snapshot(1.0, 1.0, {"spark1": there})
    async with book.wishing:
        assert await book.found_again(look) == {}
    assert book.intents["ds4"].lost == {"spark1"}
    await book.journal.open()
    assert await book.found_again(look) == {"ds4": {"spark1"}}
    await book.journal.aclose()
