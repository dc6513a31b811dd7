"""One row that was cut, flipped, emptied, renamed or lost: it is taken from its spare, and nothing is made up in its place."""

from __future__ import annotations

import json
import os
import random
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from journals import journal

from sparkd.base.json_codec import encode
from sparkd.journal import UNREAD, Event, JournalError
from sparkd.journal.damage import LOST
from sparkd.journal.rows import TABLES
from sparkd.model.decision import Intent, Phase, State
from sparkd.model.outage import Outage

INTENTS = {
    "ds4": Intent(wanted="stopped", by="milo", message="for the night"),
    "qwen": Intent(wanted="up", paused=True, restart=4, by="ana"),
}
STATES = {"ds4": State(phase=Phase.STOPPED, generation=7, highest=7), "qwen": State(phase=Phase.SERVE, generation=12)}
FILES = ("journal.db", "intents.json", "states.json", "owner")


async def written(folder: Path) -> str:
    """A journal as a stopped sparkd leaves it; returns the owner id."""
    async with journal(folder) as one:
        for name in INTENTS:
            await one.save_intent(name, Intent(wanted="up"))
            await one.save_intent(name, INTENTS[name])
            await one.save_state(name, STATES[name])
            await one.record(Event(at=1.8e9, kind="started", deployment=name, sentence="", generation=7))
        await one.remember("status", {"a": 1})
        return await one.owner()


def execute(folder: Path, statement: str, *values: object) -> None:
    with closing(sqlite3.connect(folder / "journal.db", isolation_level=None)) as connection:
        assert connection.execute(statement, values).rowcount, "nothing was damaged"


def cell(folder: Path, table: str, name: str) -> str:
    with closing(sqlite3.connect(folder / "journal.db")) as connection:
        key, value = ("key", "value") if table == "meta" else ("name", "json")
        return str(connection.execute(f"SELECT {value} FROM {table} WHERE {key} = ?", (name,)).fetchone()[0])


async def same_as_before(folder: Path, owner: str) -> list[Event]:
    """Opens it, compares all that counts, and returns what history says of the journal."""
    async with journal(folder) as one:
        assert await one.load_intents() == INTENTS
        assert await one.load_states() == STATES
        assert await one.owner() == owner
        assert not one.read_only
        return [found for found in await one.history() if found.kind == "journal"]


@pytest.mark.parametrize("table", ["intents", "states"])
@pytest.mark.parametrize("name", ["ds4", "qwen"])
async def test_a_row_cut_anywhere_is_taken_from_its_spare(tmp_path: Path, table: str, name: str) -> None:
    owner = await written(tmp_path)
    whole = cell(tmp_path, table, name)
    for length in range(len(whole)) if table == "intents" else {*range(0, len(whole), 61), len(whole) - 1}:
        execute(tmp_path, f"UPDATE {table} SET json = substr(json, 1, ?) WHERE name = ?", length, name)
        told = await same_as_before(tmp_path, owner)
        assert (told[-1].reason, name in told[-1].sentence) == ("journal-restored", True), length
        assert cell(tmp_path, table, name) == whole, "it is whole again, for whoever reads the file next"


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE intents SET json = '{}' WHERE name = 'ds4'",
        "UPDATE intents SET json = 'null' WHERE name = 'ds4'",
        "UPDATE intents SET json = x'ff' WHERE name = 'ds4'",
        "UPDATE intents SET json = 7 WHERE name = 'ds4'",
        """UPDATE intents SET json = replace(json, '"stopped"', '"up"') WHERE name = 'ds4'""",
        """UPDATE intents SET json = replace(json, '"paused": true', '"paused": false') WHERE name = 'qwen'""",
        """UPDATE intents SET json = (SELECT json FROM intents WHERE name = 'qwen') WHERE name = 'ds4'""",
        "UPDATE intents SET sum = NULL WHERE name = 'ds4'",
        "UPDATE intents SET number = 'x' WHERE name = 'ds4'",
        "DELETE FROM intents WHERE name = 'ds4'",
        "DELETE FROM intents",
        "UPDATE states SET json = '{}' WHERE name = 'ds4'",
        """UPDATE states SET json = replace(json, '"generation": 7', '"generation": 1') WHERE name = 'ds4'""",
        "DELETE FROM states",
        "UPDATE meta SET value = '00000000-0000-4000-8000-000000000000' WHERE key = 'owner'",
        "UPDATE meta SET value = '' WHERE key = 'note:status'",
        "DELETE FROM meta",
        "ALTER TABLE intents RENAME COLUMN json TO jsop",
        "ALTER TABLE intents RENAME TO intentt",
        "DROP TABLE states",
    ],
)
async def test_a_row_that_says_something_else_by_now_is_not_believed(tmp_path: Path, damage: str) -> None:
    """Most of these are JSON as good as any, and would be read as another wish."""
    owner = await written(tmp_path)
    with closing(sqlite3.connect(tmp_path / "journal.db", isolation_level=None)) as connection:
        connection.execute(damage)
    told = await same_as_before(tmp_path, owner)
    assert told or damage == "DELETE FROM meta", "it is told, too"


async def test_a_row_under_another_name_is_nobodys(tmp_path: Path) -> None:
    owner = await written(tmp_path)
    execute(tmp_path, "UPDATE intents SET name = 'ds5' WHERE name = 'ds4'")
    async with journal(tmp_path) as one:
        found = await one.load_intents()
    assert found.pop("ds5").unread, "what was wanted of a ds5, if there is one, nobody knows"
    assert (found, await one.owner()) == (INTENTS, owner)


@pytest.mark.parametrize("file", ["intents.json", "states.json"])
async def test_a_damaged_spare_costs_nothing_while_the_file_is_whole(tmp_path: Path, file: str) -> None:
    owner = await written(tmp_path)
    spare = (tmp_path / file).read_bytes()
    for broken in (b"", b"{}", b"[1]", spare[:-9], spare.replace(b"stopped", b"stoqqed"), b"\xff", b"[" * 9000):
        (tmp_path / file).write_bytes(broken)
        assert await same_as_before(tmp_path, owner) == []
        assert json.loads((tmp_path / file).read_bytes())[""], "it is a spare again"


async def test_what_is_damaged_in_both_is_wanted_neither_up_nor_stopped(tmp_path: Path) -> None:
    await written(tmp_path)
    execute(tmp_path, "UPDATE intents SET json = substr(json, 1, 20) WHERE name = 'ds4'")
    spare = json.loads((tmp_path / "intents.json").read_bytes())
    spare["ds4"] = spare["ds4"][:20]
    (tmp_path / "intents.json").write_text(json.dumps(spare))
    for _ in range(2):  # a restart of sparkd makes nobody know more
        async with journal(tmp_path) as one:
            assert await one.load_intents() == INTENTS | {"ds4": UNREAD}
            [told] = [found for found in await one.history("ds4") if found.kind == "journal"]
            assert (told.reason, told.deployment) == ("intent-unreadable", "ds4")
    async with journal(tmp_path) as one:
        await one.save_intent("ds4", INTENTS["ds4"])
    async with journal(tmp_path) as one:
        assert await one.load_intents() == INTENTS


@pytest.mark.parametrize("spare", [None, b"", b"rubbish", b'{"ds4": '])
async def test_without_file_and_spare_nobody_knows_of_whom_anything_was_wanted(
    tmp_path: Path, spare: bytes | None
) -> None:
    await written(tmp_path)
    (tmp_path / "journal.db").write_bytes(b"rubbish" * 1000)
    if spare is None:
        (tmp_path / "intents.json").unlink()
    else:
        (tmp_path / "intents.json").write_bytes(spare)
    async with journal(tmp_path) as one:
        assert one.intents_lost


@pytest.mark.parametrize("begun", ["new", "of an earlier sparkd"])
async def test_a_folder_in_which_nobody_wanted_anything_yet_is_no_damage(tmp_path: Path, begun: str) -> None:
    async with journal(tmp_path) as one:
        assert not one.intents_lost
    if begun != "new":
        (tmp_path / "intents.json").unlink()
        (tmp_path / "states.json").unlink()
    async with journal(tmp_path) as two:
        assert not two.intents_lost
        assert await two.load_intents() == {}


async def test_a_generation_that_is_damaged_in_both_is_not_below_what_history_tells(tmp_path: Path) -> None:
    await written(tmp_path)
    execute(tmp_path, "UPDATE states SET json = '{}'")
    (tmp_path / "states.json").write_text("{}")
    async with journal(tmp_path) as one:
        assert {name: state.highest for name, state in (await one.load_states()).items()} == {"ds4": 7, "qwen": 7}


async def test_of_two_whole_copies_the_newer_one_counts(tmp_path: Path) -> None:
    """A log of SQLite that was cut takes the last writes with it; the spare was written after them."""
    await written(tmp_path)
    before = {name: (tmp_path / name).read_bytes() for name in FILES}
    async with journal(tmp_path) as one:
        await one.save_intent("ds4", Intent(wanted="up", by="ana"))
    (tmp_path / "journal.db").write_bytes(before["journal.db"])
    async with journal(tmp_path) as one:
        assert (await one.load_intents())["ds4"] == Intent(wanted="up", by="ana")
        await one.save_intent("ds4", INTENTS["ds4"])
    # A crash between the two writes leaves the spare as it was before.
    (tmp_path / "intents.json").write_bytes(before["intents.json"])
    async with journal(tmp_path) as one:
        assert (await one.load_intents())["ds4"] == INTENTS["ds4"]
        assert [found.reason for found in await one.history() if found.kind == "journal"] == ["journal-restored"]


async def test_a_wish_that_was_taken_back_does_not_come_back_from_its_spare(tmp_path: Path) -> None:
    await written(tmp_path)
    async with journal(tmp_path) as one:
        await one._worker.call(lambda job: one._disk.take_back("ds4", None), 5.0)
    async with journal(tmp_path) as two:
        assert "ds4" not in await two.load_intents()


# ------------------------------------------------------------------------------------------------------ another version

BEFORE = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE states (name TEXT PRIMARY KEY, json TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE intents (name TEXT PRIMARY KEY, json TEXT NOT NULL) WITHOUT ROWID;
PRAGMA user_version = 1;
"""
"""Of the sparkd that kept neither numbers nor checksums."""


def older(folder: Path, spare: bool = True) -> None:
    with closing(sqlite3.connect(folder / "journal.db", isolation_level=None)) as connection:
        connection.executescript(BEFORE)
        for name, intent in INTENTS.items():
            connection.execute("INSERT INTO intents VALUES (?, ?)", (name, json.dumps(encode(intent))))
            state = {"state": encode(STATES[name]), "boot": "", "at": 0.0, "wall": 0.0}
            connection.execute("INSERT INTO states VALUES (?, ?)", (name, json.dumps(state)))
    if spare:
        kept = {name: json.dumps(encode(intent)) for name, intent in INTENTS.items()}
        (folder / "intents.json").write_text(json.dumps(kept))


@pytest.mark.parametrize("spare", [True, False])
async def test_a_journal_without_checksums_is_read_and_has_them_from_then_on(tmp_path: Path, spare: bool) -> None:
    older(tmp_path, spare)
    async with journal(tmp_path) as one:
        assert await one.load_intents() == INTENTS
        assert {name: state.generation for name, state in (await one.load_states()).items()} == {"ds4": 7, "qwen": 12}
        assert await one.history() == []
        await one.save_intent("ds4", INTENTS["ds4"])
    execute(tmp_path, "UPDATE intents SET json = '{}' WHERE name = 'ds4'")
    async with journal(tmp_path) as one:
        assert await one.load_intents() == INTENTS


@pytest.mark.parametrize("length", range(0, 120, 7))
async def test_a_cut_row_without_a_checksum_is_taken_from_its_spare_too(tmp_path: Path, length: int) -> None:
    older(tmp_path)
    execute(tmp_path, "UPDATE intents SET json = substr(json, 1, ?) WHERE name = 'ds4'", length)
    async with journal(tmp_path) as one:
        assert await one.load_intents() == INTENTS


async def test_a_sparkd_without_checksums_reads_and_writes_the_same_file(tmp_path: Path) -> None:
    """After a downgrade and an upgrade its word is the last one."""
    await written(tmp_path)
    with closing(sqlite3.connect(tmp_path / "journal.db", isolation_level=None)) as connection:
        found = dict(connection.execute("SELECT CAST(name AS TEXT), CAST(json AS TEXT) FROM intents"))
        assert {name: json.loads(text)["wanted"] for name, text in found.items()} == {"ds4": "stopped", "qwen": "up"}
        said = json.dumps(encode(Intent(wanted="up", by="ana")))
        connection.execute("INSERT OR REPLACE INTO intents (name, json) VALUES ('ds4', ?)", (said,))
    spare = json.loads((tmp_path / "intents.json").read_bytes())
    kept = {name: text for name, text in spare.items() if isinstance(text, str)}
    assert kept.keys() == INTENTS.keys()
    (tmp_path / "intents.json").write_text(json.dumps(kept | {"ds4": said}))
    async with journal(tmp_path) as one:
        assert await one.load_intents() == INTENTS | {"ds4": Intent(wanted="up", by="ana")}


# ---------------------------------------------------------------------------------------------------------- any damage


@pytest.mark.parametrize("seed", range(60))
async def test_flipped_bytes_never_make_another_wish_or_a_lower_generation(tmp_path: Path, seed: int) -> None:
    """Of any one file: in rows, names, checksums, pages and headers. What cannot be known is said, or nothing is."""
    owner = await written(tmp_path)
    chance = random.Random(seed)
    path = tmp_path / chance.choice(("journal.db", "journal.db", "journal.db", "intents.json", "states.json"))
    raw = bytearray(path.read_bytes())
    used = [at for at, byte in enumerate(raw) if byte] if seed % 2 else range(len(raw))
    for _ in range(chance.choice((1, 3, 30))):
        raw[chance.choice(used)] ^= 1 << chance.randrange(8)
    path.write_bytes(raw)
    async with journal(tmp_path) as one:
        try:
            intents, states = await one.load_intents(), await one.load_states()
        except JournalError:
            return  # unread as a whole: then nothing is started or stopped either
        known = {name: intents[name] for name in INTENTS}
        assert known == {name: INTENTS[name] if not known[name].unread else UNREAD for name in INTENTS}
        assert [max(states[name].generation, states[name].highest) for name in STATES] == [7, 12]
        assert await one.owner() == owner


# ------------------------------------------------------------------------------------------------ every table, every kind


def test_every_table_has_words_for_a_row_that_is_lost() -> None:
    assert set(LOST) == set(TABLES)


@pytest.mark.parametrize("said", ["json = '{}'", "json = substr(json, 2)", "sum = 'x'", "number = 7"])
async def test_a_damaged_record_of_an_outage_costs_itself_alone(tmp_path: Path, said: str) -> None:
    """It stopped every start of sparkd, for ever."""
    owner = await written(tmp_path)
    async with journal(tmp_path) as one:
        for began in (1.7e9, 1.8e9):
            await one.save_state(
                "ds4", STATES["ds4"], ended=Outage(began=0.0, began_wall=began, generation=1, code="x", text="")
            )
    execute(tmp_path, f"UPDATE outages SET {said} WHERE id LIKE '%1700000000%'")
    told = await same_as_before(tmp_path, owner)
    assert [found.reason for found in told] == ["outage-unreadable"]
    assert len(await same_as_before(tmp_path, owner)) == 1, "it is told of once"
    async with journal(tmp_path) as one:
        assert [outage.began_wall for _, outage in one.outages()] == [1.8e9]


@pytest.mark.parametrize("name", ["intents.json", "states.json", "intents.json.new", "owner", "owner.new"])
@pytest.mark.parametrize("kind", ["fifo", "zero"])
async def test_something_else_in_place_of_a_spare_is_not_waited_for(tmp_path: Path, name: str, kind: str) -> None:
    owner = await written(tmp_path)
    (tmp_path / name).unlink(missing_ok=True)
    if kind == "fifo":
        os.mkfifo(tmp_path / name)
    else:
        (tmp_path / name).symlink_to("/dev/zero")
    await same_as_before(tmp_path, owner)
    async with journal(tmp_path) as one:
        await one.save_intent("ds4", INTENTS["ds4"])
        assert await one.owner() == owner
    assert (tmp_path / "intents.json").is_file()
    assert (tmp_path / "owner").is_file()


@pytest.mark.parametrize("table", ["meta", "states", "intents", "outages"])
@pytest.mark.parametrize("word", ["number", "sum"])
async def test_a_name_of_a_column_that_is_no_text_is_damage(tmp_path: Path, table: str, word: str) -> None:
    owner = await written(tmp_path)
    said = (tmp_path / "journal.db").read_bytes()
    at = said.index(f"CREATE TABLE {table}".encode())
    at = said.index(f" {word} ".encode(), at)
    (tmp_path / "journal.db").write_bytes(said[: at + 2] + b"\xf5" + said[at + 3 :])
    told = await same_as_before(tmp_path, owner)
    assert told[0].reason == "journal-corrupt"
