"""A journal that was damaged, emptied, deleted or written by another version, and events that no disk takes."""

from __future__ import annotations

import math
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from journals import journal

from sparkd.base import guarded
from sparkd.journal import UNREAD, Event, JournalError, store
from sparkd.journal.worker import NotAnswered, Worker
from sparkd.model.decision import Intent, State

STOPPED = Intent(wanted="stopped", by="milo")


def event(**fields: Any) -> Event:
    return Event(**{"at": 1_800_000_000.0, "kind": "started", "deployment": "ds4", "sentence": "it started", **fields})


async def filled(folder: Path) -> str:
    """Two intents, a state and an event; returns the owner id."""
    async with journal(folder) as one:
        await one.save_intent("ds4", STOPPED)
        await one.save_intent("qwen", Intent(wanted="up"))
        await one.save_state("ds4", State(generation=7))
        await one.record(event())
        return await one.owner()


def changed(folder: Path, *statements: str) -> None:
    with closing(sqlite3.connect(folder / "journal.db", isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


# ------------------------------------------------------------------------------------------------ what people wanted


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def halved(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def to_rubbish(path: Path) -> None:
    path.write_bytes(b"rubbish" * 1000)


def deleted(path: Path) -> None:
    path.unlink()


def without_intents(path: Path) -> None:
    changed(path.parent, "DELETE FROM intents")


@pytest.mark.parametrize("harm", [emptied, halved, to_rubbish, deleted, without_intents])
async def test_a_stop_outlives_the_journal(tmp_path: Path, harm: Callable[[Path], None]) -> None:
    """Rule 8: without it, `autostart` would start what a person stopped."""
    owner = await filled(tmp_path)
    harm(tmp_path / "journal.db")
    async with journal(tmp_path) as one:
        assert (await one.load_intents())["ds4"] == STOPPED
        assert await one.owner() == owner
        told = [found.sentence for found in await one.history() if found.kind == "journal"]
        damaged = (
            "2 intents could still be read" if harm in (emptied, halved, to_rubbish) else "2 intents are back from"
        )
        assert len(told) == 1, "people must be able to see where their wishes come from"
        assert damaged in told[0]
        await one.save_intent("qwen", STOPPED)
    (tmp_path / "journal.db").unlink()
    async with journal(tmp_path) as two:
        assert await two.load_intents() == {"ds4": STOPPED, "qwen": STOPPED}


async def test_an_intent_that_was_refused_is_in_no_spare(tmp_path: Path) -> None:
    await filled(tmp_path)
    async with journal(tmp_path) as one:
        (tmp_path / "intents.json.new").mkdir()  # so that the spare cannot be written
        await one.save_intent("ds4", Intent(wanted="up"))
    assert not (tmp_path / "intents.json").exists(), "an old wish must not come back"


# ------------------------------------------------------------------------------------------------- another version


async def test_columns_that_a_newer_sparkd_added_do_not_matter(tmp_path: Path) -> None:
    await filled(tmp_path)
    changed(tmp_path, *(f"ALTER TABLE {table} ADD COLUMN more TEXT" for table in ("intents", "states", "meta")))
    async with journal(tmp_path) as one:
        assert (await one.load_intents())["ds4"] == STOPPED
        assert (await one.load_states())["ds4"].generation == 7
        await one.save_intent("ds4", Intent(wanted="up"))


async def test_a_newer_schema_is_left_alone_and_named(tmp_path: Path) -> None:
    await filled(tmp_path)
    changed(tmp_path, "PRAGMA user_version = 2", "DROP TABLE intents")
    before = (tmp_path / "journal.db").read_bytes()
    async with journal(tmp_path) as one:
        with pytest.raises(JournalError, match=r"newer sparkd \(schema 2\)"):
            await one.load_intents()
        assert (await one.record(event())).id
        assert one.read_only
    assert (tmp_path / "journal.db").read_bytes() == before


# ------------------------------------------------------------------------------------------------- rows that are none


async def test_a_flipped_bit_costs_one_row(tmp_path: Path) -> None:
    await filled(tmp_path)
    changed(
        tmp_path,
        "UPDATE states SET json = CAST(x'ff00' AS TEXT)",
        "UPDATE intents SET json = x'ff' WHERE name = 'qwen'",
        "UPDATE events SET data = '{', at = 'x'",
    )
    for name in ("intents.json", "states.json"):
        (tmp_path / name).unlink()
    async with journal(tmp_path) as one:
        assert await one.load_intents() == {"ds4": STOPPED, "qwen": UNREAD}
        assert await one.load_states() == {}
        assert "cannot be read" in (await one.history())[0].sentence


@pytest.mark.parametrize(
    "odd",
    [
        {"sentence": "half a \ud800 character"},
        {"deployment": "\udcff"},
        {"sentence": "x" * 60_000_000},
        {"generation": 2**70},
        {"at": math.nan},
        {"at": math.inf},
        {"data": {("a", 1): 2, "b": math.nan, "c": "\ud800"}},
    ],
    ids=["half character", "raw byte", "too long", "too large", "no time", "endless", "data"],
)
async def test_no_event_blocks_those_that_come_after_it(tmp_path: Path, odd: dict[str, Any]) -> None:
    """An engine's error text comes out of JSON, and may hold what no disk takes."""
    async with journal(tmp_path) as one:
        await one.record(event(**odd))
        await one.record(event(sentence="the next one"))
        assert not one.read_only
        await one.save_intent("ds4", STOPPED)
        assert len(await one.history("\ud800")) <= 1, "a name that no file holds can be asked for"
    async with journal(tmp_path) as two:
        assert [found.sentence for found in await two.history()][-1] == "the next one"
        assert len(await two.history()) == 2


async def test_the_thread_outlives_a_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    told, released = list[str](), threading.Event()
    monkeypatch.setattr(guarded.log, "exception", lambda text, **fields: told.append(text), raising=False)

    def bug() -> None:
        raise ValueError("a bug")

    one = Worker(lambda: None, bug)
    try:
        assert await one.call(lambda job: 1, 5.0) == 1
        one.poke()
        assert await one.call(lambda job: 2, 5.0) == 2
        with pytest.raises(NotAnswered):
            await one.call(lambda job: released.wait(20), 0.01, undo=bug)
        released.set()
        assert await one.call(lambda job: 3, 5.0) == 3
    finally:
        one.stop(5.0)
    assert told


async def test_a_start_without_room_for_temporary_files_reads_all_that_was_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They lie on the same disk as the journal, mostly, and that one is full."""

    def none() -> str:
        raise FileNotFoundError("No usable temporary directory found")

    await filled(tmp_path)
    monkeypatch.setattr("tempfile.gettempdir", none)
    rows, events = store.read_copy(tmp_path / "journal.db")
    assert set(rows.intents) == {"ds4", "qwen"}
    assert len(events) == 1
