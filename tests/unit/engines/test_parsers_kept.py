"""Answers of engines' parsers on the disk: found again by their engine, never by another, and odd files are nobody's."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sparkd import parsers
from sparkd.engines.flags import parse_table, shipped, table_for
from sparkd.model.engine_key import EngineKey

TEXT = (
    '{"schema":2,"engine":"vllm","version":"0.99.0","flags":{"new-flag":{"kind":"int","default":1}},'
    '"env":{"VLLM_A":true},"variables":["VLLM_A","VLLM_B"]}\n'
)
KEY = EngineKey("sha256:1", "vllm")


def test_an_answer_is_found_again_by_its_image(tmp_path: Path) -> None:
    assert parsers.by_image(parsers.read(tmp_path)) == {}
    parsers.keep(tmp_path, KEY, TEXT)
    table = parse_table(TEXT, own=True)
    assert (table.own, table.version, table.variables) == (True, "0.99.0", frozenset({"VLLM_A", "VLLM_B"}))
    assert parsers.read(tmp_path) == {KEY: table}
    own = parsers.by_image(parsers.read(tmp_path))
    assert table_for("vllm", "sha256:1", own) == table
    for image in ("sha256:2", None):
        assert table_for("vllm", image, own) == shipped("vllm")
    assert table_for("sglang", "sha256:1", own).flags == {}


def test_an_engine_in_a_mount_is_no_images_own(tmp_path: Path) -> None:
    mounted = EngineKey("sha256:1", "/opt/vllm/bin/vllm", "mount 5")
    parsers.keep(tmp_path, mounted, TEXT)
    assert list(parsers.read(tmp_path)) == [mounted]
    assert parsers.by_image(parsers.read(tmp_path)) == {}


@pytest.mark.parametrize("text", ["", "{", "[]", "3", '{"schema": 1}', '{"schema": 1, "image": "a", "table": {}}'])
def test_an_odd_file_is_as_if_nothing_had_been_asked(tmp_path: Path, text: str) -> None:
    parsers.keep(tmp_path, KEY, TEXT)
    (tmp_path / parsers.FOLDER / "odd.json").write_text(text)
    assert list(parsers.read(tmp_path)) == [KEY]


def test_only_the_newest_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parsers, "MOST", 2)
    for number in range(4):
        key = EngineKey(f"sha256:{number}")
        parsers.keep(tmp_path, key, TEXT)
        os.utime(tmp_path / parsers.FOLDER / f"{key.digest}.json", (number, number))
    assert [key.image_id for key in parsers.read(tmp_path)] == ["sha256:2", "sha256:3"]
