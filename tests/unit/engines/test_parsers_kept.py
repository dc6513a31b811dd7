"""Answers of engines' parsers on the disk: found again by their engine, never by another, and odd files are nobody's."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sparkd.background import parser_store
from sparkd.engines.flags import parse_table
from sparkd.engines.tables import Tables, shipped
from sparkd.model.engine_key import EngineKey

TEXT = (
    '{"schema":2,"engine":"vllm","version":"0.99.0","flags":{"new-flag":{"kind":"int","default":1}},'
    '"env":{"VLLM_A":true},"variables":["VLLM_A","VLLM_B"]}\n'
)
KEY = EngineKey("sha256:1", "vllm")


def test_an_answer_is_found_again_by_its_image(tmp_path: Path) -> None:
    assert parser_store.by_engine(parser_store.read(tmp_path)) == {}
    parser_store.keep(tmp_path, KEY, TEXT)
    table = parse_table(TEXT, own=True)
    assert (table.own, table.version, table.variables) == (True, "0.99.0", frozenset({"VLLM_A", "VLLM_B"}))
    assert parser_store.read(tmp_path) == {KEY: table}
    own = parser_store.by_engine(parser_store.read(tmp_path))
    assert Tables(own).of("vllm", "sha256:1") == table
    for image in ("sha256:2", None):
        assert Tables(own).of("vllm", image) == shipped("vllm")
    assert Tables(own).of("sglang", "sha256:1").flags == {}


def test_an_engine_in_a_mount_is_no_images_own(tmp_path: Path) -> None:
    mounted = EngineKey("sha256:1", "/opt/vllm/bin/vllm", "mount 5")
    parser_store.keep(tmp_path, mounted, TEXT)
    assert list(parser_store.read(tmp_path)) == [mounted]
    own = parser_store.by_engine(parser_store.read(tmp_path))
    assert Tables(own).of("vllm", "sha256:1") == shipped("vllm")
    assert Tables(own).of("vllm", mounted.id).version == "0.99.0", "but it is found by whoever knows of the mount"


DEEP = "[" * 100_000


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "3", '{"schema": 1}', '{"schema": 1, "image": "a", "table": {}}', DEEP, "\x00", "9" * 5000]
)
def test_an_odd_file_is_as_if_nothing_had_been_asked(tmp_path: Path, text: str) -> None:
    parser_store.keep(tmp_path, KEY, TEXT)
    (tmp_path / parser_store.FOLDER / "odd.json").write_text(text)
    assert list(parser_store.read(tmp_path)) == [KEY]


@pytest.mark.parametrize("flag", ['{"aliases": [1]}', '{"kind": []}', '{"many": 3}', '{"name": "b"}', "3", "[]"])
def test_an_odd_flag_makes_the_whole_no_table(flag: str) -> None:
    with pytest.raises(ValueError, match="not a parser table"):
        parse_table(TEXT.replace('{"kind":"int","default":1}', flag))


@pytest.mark.parametrize(
    ("text", "why"), [("", "nothing was printed"), ("INFO hello\n{}", "'INFO hello.* is no JSON"), (DEEP, "too deeply")]
)
def test_what_is_no_table_at_all_says_what_it_is(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=f"not a parser table: .*{why}"):
        parse_table(text)


def test_what_is_no_file_is_not_read_and_hides_no_other(tmp_path: Path) -> None:
    parser_store.keep(tmp_path, KEY, TEXT)
    folder = tmp_path / parser_store.FOLDER
    os.mkfifo(folder / "pipe.json")
    (folder / "nowhere.json").symlink_to("/no/such")
    (folder / "endless.json").symlink_to("/dev/zero")
    (folder / "folder.json").mkdir()
    with (folder / "huge.json").open("wb") as huge:
        huge.truncate(parser_store.MOST_BYTES + 1)
    assert list(parser_store.read(tmp_path)) == [KEY]


def test_what_could_not_be_finished_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    parser_store.keep(tmp_path, KEY, TEXT)
    (tmp_path / parser_store.FOLDER / f"{KEY.digest}.new").mkdir()  # as of somebody else who writes the same
    parser_store.keep(tmp_path, KEY, TEXT)
    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="No space left"):
        parser_store.keep(tmp_path, KEY, TEXT.replace("0.99", "1"))
    assert sorted(one.name for one in (tmp_path / parser_store.FOLDER).iterdir()) == [
        f"{KEY.digest}.json",
        f"{KEY.digest}.new",
    ]
    assert [table.version for table in parser_store.read(tmp_path).values()] == ["0.99.0"]


def test_only_the_newest_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parser_store, "MOST", 2)
    for number in range(4):
        key = EngineKey(f"sha256:{number}")
        parser_store.keep(tmp_path, key, TEXT)
        os.utime(tmp_path / parser_store.FOLDER / f"{key.digest}.json", (number, number))
    assert [key.image_id for key in parser_store.read(tmp_path)] == ["sha256:2", "sha256:3"]
