"""What people wanted is nobody else's to read or change: every file of the journal is its owner's alone."""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from sparkd.journal import Journal
from sparkd.journal.store import read_copy
from sparkd.model.decision import Intent, State


@pytest.fixture(params=[0o000, 0o022, 0o777], ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    try:
        yield
    finally:
        os.umask(before)


def modes(folder: Path) -> dict[str, int]:
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}


async def opened(folder: Path) -> Journal:
    one = Journal(folder)
    await one.open()
    await one.owner()
    await one.save_intent("ds4", Intent(wanted="stopped"))
    await one.save_state("ds4", State(generation=1))
    assert not one.read_only
    return one


FILES = {"journal.db", "journal.db-wal", "journal.db-shm", "intents.json", "states.json", "owner"}


@pytest.mark.usefixtures("umask")
async def test_every_file_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    one = await opened(tmp_path)
    assert modes(tmp_path) == dict.fromkeys(FILES, 0o600)
    await one.aclose()
    (tmp_path / "journal.db").write_bytes(b"rubbish" * 999)
    one = await opened(tmp_path)
    found = modes(tmp_path)
    assert set(found.values()) == {0o600}
    assert any(".corrupt-" in name for name in found)
    (tmp_path / "journal.db").unlink()  # taken away while it runs: the next write makes another
    await one.save_intent("ds4", Intent(wanted="up"))
    assert set(modes(tmp_path).values()) == {0o600}
    await one.aclose()


async def test_files_that_were_open_to_others_are_closed_and_it_is_said_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    await (await opened(tmp_path)).aclose()
    with closing(sqlite3.connect(tmp_path / "journal.db")) as connection:
        connection.execute("INSERT INTO meta (key, value) VALUES ('x', 'y')")  # leaves a log beside it
        connection.commit()
        for name in FILES - {"owner"}:
            (tmp_path / name).chmod(0o644)
        (tmp_path / "journal.db.corrupt-20260101T000000Z").write_text("of an earlier sparkd")
        (tmp_path / "intents.json.new").write_text("of a crash")
        (tmp_path / "intents.json.new").chmod(0o666)
        capsys.readouterr()
        one = await opened(tmp_path)
        assert set(modes(tmp_path).values()) == {0o600}
        said = capsys.readouterr().out
        assert said.count("others could read this file") == 6
        await one.aclose()
    await (await opened(tmp_path)).aclose()
    assert "others could read" not in capsys.readouterr().out


async def test_a_copy_that_is_read_beside_a_full_disk_is_nobody_elses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await (await opened(tmp_path)).aclose()
    seen, connect = set[int](), sqlite3.connect

    def looked_at(path: Path, **settings: object) -> sqlite3.Connection:
        seen.update(modes(Path(path).parent).values())
        return connect(path, **settings)  # type: ignore[call-overload,no-any-return]

    monkeypatch.setattr("sparkd.journal.file.sqlite3.connect", looked_at)
    before = os.umask(0)
    try:
        read_copy(tmp_path / "journal.db")
    finally:
        os.umask(before)
    assert seen == {0o600}
