"""The journal on a disk that works, a damaged file, and two processes."""

from __future__ import annotations

import json
import select
import shutil
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from journals import journal

from sparkd.journal import AlreadyOwned, Event, Journal, JournalError, as_json
from sparkd.journal.moment import Moment
from sparkd.model.decision import Intent, Phase, State
from sparkd.model.launch import Launch

FIRST_BOOT = Moment("first", 1000.0, 1_800_000_000.0)


def event(kind: str = "started", deployment: str = "ds4", **more: Any) -> Event:
    return Event(at=1_800_000_000.25, kind=kind, deployment=deployment, sentence=f"it {kind}", **more)


async def test_what_is_saved_is_there_again(tmp_path: Path) -> None:
    state, intent = State(phase=Phase.SERVE, generation=14), Intent(wanted="up", by="milo")
    async with journal(tmp_path) as one:
        owner = await one.owner()
        await one.save_state("ds4", state)
        await one.save_intent("ds4", intent)
        await one.remember("status", {"a": 1})
    async with journal(tmp_path) as two:
        assert await two.load_states() == {"ds4": state}
        assert await two.load_intents() == {"ds4": intent}
        assert two.recall("status") == {"a": 1}
        assert two.recall("other") is None
        assert await two.owner() == owner
        assert not two.read_only


async def test_a_state_of_another_boot_is_moved_to_this_boots_clock(tmp_path: Path) -> None:
    async with journal(tmp_path, moment=lambda: FIRST_BOOT) as one:
        await one.save_state("ds4", State(since=990.0, retry_at=1030.0))
    later = Moment("second", 5.0, FIRST_BOOT.wall + 60)
    async with journal(tmp_path, moment=lambda: later) as two:
        state = (await two.load_states())["ds4"]
        assert state == State(since=5.0 - 70, retry_at=5.0 - 30, launch=Launch(gapped=True)), "nobody looked meanwhile"


async def test_history_is_in_order_and_can_be_followed(tmp_path: Path) -> None:
    async with journal(tmp_path) as one:
        for number in range(5):
            await one.record(event(reason=f"r{number}", deployment="ds4" if number % 2 else "qwen"))
    async with journal(tmp_path) as two:
        added = await two.record(event("failed", generation=3, cls="transient", data={"rank": 1}))
        assert added.id == 6
        assert [one.id for one in await two.history()] == [1, 2, 3, 4, 5, 6]
        assert [one.id for one in await two.history(limit=2)] == [5, 6]
        assert [one.id for one in await two.history(after_id=2, limit=2)] == [3, 4]
        assert [one.id for one in await two.history("ds4")] == [2, 4, 6]
        assert (await two.history())[-1] == added


def test_an_event_as_json_has_every_field_of_the_interface() -> None:
    shown = as_json(event("failed", generation=3, cls="transient", signature="rank-gone", by="milo", message="why"))
    assert shown | {"id": 0, "data": {}, "schema": 1, "reason": None} == shown
    assert shown["at"] == "2027-01-15T08:00:00.250Z"
    assert {key: shown[key] for key in ("deployment", "generation", "kind", "class", "signature", "by", "message")} == {
        "deployment": "ds4",
        "generation": 3,
        "kind": "failed",
        "class": "transient",
        "signature": "rank-gone",
        "by": "milo",
        "message": "why",
    }


async def test_stage_times_come_from_the_starts_that_ended_serving(tmp_path: Path) -> None:
    async with journal(tmp_path) as one:
        await one.record(event("serving", data={"stages": {"ranks": 1.0, "load": 200}}))
        await one.record(event("failed", data={"stages": {"ranks": 9.0}}))
        await one.record(event("serving", deployment="qwen", data={"stages": {"ranks": 7.0}}))
        await one.record(event("serving", data={"seconds": 3}))
        assert await one.stage_times("ds4") == [{"ranks": 1.0, "load": 200.0}]


async def test_the_number_of_events_is_bounded(tmp_path: Path) -> None:
    async with journal(tmp_path, max_events=100) as one:
        for _ in range(450):
            await one.record(event())
    async with journal(tmp_path) as two:
        ids = [found.id for found in await two.history(limit=1000)]
    assert ids[-1] == 450
    assert 100 <= len(ids) <= 300


async def test_the_file_is_bounded_whatever_is_recorded(tmp_path: Path) -> None:
    limit = 4 * 1024 * 1024
    async with journal(tmp_path, max_bytes=limit) as one:
        for _ in range(900):
            await one.record(event(data={"log": "x" * 8000, "more": ["y"] * 100}))
        assert not one.read_only
    files = sum(found.stat().st_size for found in tmp_path.iterdir())
    assert files <= limit + 5 * 1024 * 1024


async def test_details_that_are_too_long_are_dropped_not_the_event(tmp_path: Path) -> None:
    async with journal(tmp_path) as one:
        await one.record(event(data={"log": "x" * 100_000}))
    async with journal(tmp_path) as two:
        assert set((await two.history())[0].data) == {"dropped_bytes"}


# ----------------------------------------------------------------------------------------------------- damaged files


async def fill(folder: Path) -> str:
    async with journal(folder) as one:
        owner = await one.owner()
        await one.save_intent("ds4", Intent(wanted="stopped", by="milo"))
        await one.save_state("ds4", State(phase=Phase.STOPPED, generation=9))
        for number in range(300):
            await one.record(event(reason=f"r{number}", data={"text": "z" * 500}))
    return owner


async def test_rubbish_in_place_of_the_file_is_moved_aside_and_named(tmp_path: Path) -> None:
    owner = await fill(tmp_path)
    (tmp_path / "journal.db").write_bytes(b"this was never a database, " * 1000)
    async with journal(tmp_path) as one:
        assert (await one.load_states())["ds4"].generation == 9, "its spare lies beside it"
        assert await one.owner() == owner
        [note] = await one.history()
        await one.save_state("ds4", State(generation=1))
        assert not one.read_only
    assert note.reason == "journal-corrupt"
    aside = Path(note.data["moved_to"])
    assert aside.read_bytes().startswith(b"this was never")
    assert aside.name in note.sentence


async def test_intents_survive_damage_elsewhere_in_the_file(tmp_path: Path) -> None:
    """Losing an intent would start what a person stopped."""
    owner = await fill(tmp_path)
    path = tmp_path / "journal.db"
    with closing(sqlite3.connect(path)) as connection:
        [(page,)] = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'events'")
    whole = bytearray(path.read_bytes())
    whole[(page - 1) * 4096 : page * 4096] = b"\xff" * 4096
    path.write_bytes(whole)
    async with journal(tmp_path) as one:
        assert (await one.load_intents())["ds4"] == Intent(wanted="stopped", by="milo")
        assert (await one.load_states())["ds4"].generation == 9
        assert await one.owner() == owner
        assert [found.reason for found in await one.history()] == ["journal-corrupt"]


async def test_a_file_damaged_while_running_is_replaced_with_all_that_is_known(tmp_path: Path) -> None:
    async with journal(tmp_path) as one:
        owner = await one.owner()
        await one.save_intent("ds4", Intent(wanted="up"))
        await one.save_state("ds4", State(generation=3))
        for suffix in ("", "-wal", "-shm"):
            (tmp_path / f"journal.db{suffix}").unlink(missing_ok=True)
        (tmp_path / "journal.db").write_bytes(b"rubbish" * 4096)
        await one.record(event())
        assert not one.read_only
    async with journal(tmp_path) as two:
        assert await two.owner() == owner
        assert (await two.load_intents())["ds4"].wanted == "up"
        assert (await two.load_states())["ds4"].generation == 3
        assert {found.reason for found in await two.history()} >= {"journal-corrupt"}


async def test_a_state_folder_taken_away_is_made_again(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    async with journal(folder) as one:
        await one.save_intent("ds4", Intent(wanted="up"))
        folder.rename(tmp_path / "elsewhere")
        await one.save_state("ds4", State(generation=3))
    async with journal(folder) as two:
        assert (await two.load_intents())["ds4"].wanted == "up"
        assert (await two.load_states())["ds4"].generation == 3


async def test_a_row_that_cannot_be_read_is_told_in_history(tmp_path: Path) -> None:
    async with journal(tmp_path) as one:
        await one.save_state("ds4", State(generation=3))
        await one.save_state("qwen", State(generation=4))
    with closing(sqlite3.connect(tmp_path / "journal.db")) as connection:
        connection.execute("UPDATE states SET json = '[1,' WHERE name = 'ds4'")
        connection.commit()
    (tmp_path / "states.json").unlink()
    async with journal(tmp_path) as two:
        assert set(await two.load_states()) == {"qwen"}
        assert [(note.deployment, note.reason) for note in await two.history()] == [("ds4", "state-unreadable")]


async def test_a_journal_of_the_version_before_loads(tmp_path: Path) -> None:
    async with journal(tmp_path, moment=lambda: FIRST_BOOT) as one:
        await one.save_state("ds4", State(generation=3, phase=Phase.SERVE))
    with closing(sqlite3.connect(tmp_path / "journal.db")) as connection:
        [(text,)] = connection.execute("SELECT json FROM states")
        row = json.loads(text)
        del row["state"]["digest"], row["state"]["watch"]["stuck_since"]
        row["state"]["gone_since_0_1"] = {"x": [1, 2]}
        connection.execute("UPDATE states SET json = ?, number = NULL, sum = NULL", (json.dumps(row),))
        connection.commit()
    async with journal(tmp_path, moment=lambda: FIRST_BOOT) as two:
        assert (await two.load_states())["ds4"] == State(generation=3, phase=Phase.SERVE)


async def test_nothing_is_given_out_before_the_file_was_read(tmp_path: Path) -> None:
    one = Journal(tmp_path)
    for call in (one.load_states, one.load_intents, one.owner):
        with pytest.raises(JournalError, match="could not be read"):
            await call()


# ------------------------------------------------------------------------------------------------------ two processes

WRITER = """
import sys, anyio
from pathlib import Path
from sparkd.journal import Event, Journal
from sparkd.model.launch import Launch
from sparkd.model.decision import Intent, State

async def main():
    journal = Journal(Path(sys.argv[1]))
    await journal.open()
    number = 0
    while True:
        number += 1
        await journal.save_state("ds4", State(generation=number))
        await journal.save_intent("ds4", Intent(restart=number))
        await journal.record(Event(at=0.0, kind="started", deployment="ds4", generation=number, sentence="x" * 300))
        print(number, flush=True)

anyio.run(main)
"""

HOLDER = """
import sys
from pathlib import Path
from sparkd.journal import Journal
journal = Journal(Path(sys.argv[1]))
journal.lock()
print("locked", flush=True)
sys.stdin.read()
"""


def child(script: str, folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", script, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def line_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    assert select.select([process.stdout], [], [], 30)[0], "the child said nothing for 30 s"
    return process.stdout.readline()


@pytest.mark.parametrize("enough", [1, 7, 40])
async def test_what_was_acknowledged_before_a_kill_is_there(tmp_path: Path, enough: int) -> None:
    with child(WRITER, tmp_path) as process:
        said = 0
        while said < enough:
            said = int(line_of(process))
        process.send_signal(signal.SIGKILL)
        assert process.stdout is not None
        said = max([said, *(int(line) for line in process.stdout.read().splitlines() if line)])
    async with journal(tmp_path) as one:
        assert (await one.load_states())["ds4"].generation >= said
        assert (await one.load_intents())["ds4"].restart >= said
        assert (await one.history(limit=1))[0].generation >= said
        assert not any(found.reason == "journal-corrupt" for found in await one.history(limit=1000))


def test_a_second_sparkd_on_the_same_state_is_told_who_has_it(tmp_path: Path) -> None:
    with child(HOLDER, tmp_path) as process:
        assert line_of(process) == "locked\n"
        second = Journal(tmp_path)
        with pytest.raises(AlreadyOwned) as caught:
            second.lock()
        assert caught.value.pid == process.pid
        process.kill()
        process.wait(30)
        second.lock()  # however the first one ended, its lock is gone


async def test_a_state_folder_made_anew_is_locked_again(tmp_path: Path) -> None:
    """After `rm -rf state` a second sparkd got past the lock, and both had ranks to start."""
    folder = tmp_path / "state"
    one = Journal(folder)
    one.lock()
    await one.open()
    shutil.rmtree(folder)
    await one.save_intent("ds4", Intent(wanted="stopped"))
    with pytest.raises(AlreadyOwned):
        Journal(folder).lock()
    await one.aclose()
    Journal(folder).lock()


async def test_a_state_folder_that_another_sparkd_took_meanwhile_is_not_written(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    one = Journal(folder)
    one.lock()
    await one.open()
    shutil.rmtree(folder)
    second = Journal(folder)
    second.lock()
    with pytest.raises(JournalError, match="one state has one sparkd"):
        await one.save_intent("ds4", Intent(wanted="stopped"))
    await one.save_state("ds4", State())
    assert one.read_only
    assert not (folder / "journal.db").exists()
    await one.aclose()
    with pytest.raises(AlreadyOwned):
        Journal(folder).lock()


def test_the_lock_is_not_inherited_by_children(tmp_path: Path) -> None:
    one = Journal(tmp_path)
    one.lock()
    looks = "import os; print([os.path.realpath(f'/proc/self/fd/{fd}') for fd in range(64)])"
    seen = subprocess.run([sys.executable, "-c", looks], close_fds=False, capture_output=True, text=True, check=True)
    assert str(tmp_path) not in seen.stdout


async def test_an_intent_too_late_for_its_verb_is_taken_back(tmp_path: Path) -> None:
    """The verb was refused; the next sparkd must not find that it was obeyed after all."""
    async with journal(tmp_path, deadline_s=0.3) as one:
        await one.save_intent("ds4", Intent(wanted="stopped"))
        await one.save_state("ds4", State())
        with closing(sqlite3.connect(tmp_path / "journal.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")  # a real lock, held by a stranger for longer than the deadline
            with pytest.raises(JournalError, match="cannot be written"):
                await one.save_intent("ds4", Intent(wanted="up"))
            other.execute("ROLLBACK")
        await one.save_intent("qwen", Intent(wanted="up"))
    async with journal(tmp_path) as two:
        assert await two.load_intents() == {"ds4": Intent(wanted="stopped"), "qwen": Intent(wanted="up")}


def test_events_do_not_change_once_they_have_an_id() -> None:
    assert replace(event(), id=3).id == 3
