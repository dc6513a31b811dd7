"""What a secret's file may hold, and how a start is held by one that holds something else."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from sparkd.act.containers import start
from sparkd.act.hands import ActionFailed, Hands
from sparkd.base import secret_files
from sparkd.base.secret_files import MAX_BYTES, SecretUnread, read, unread
from sparkd.model.action import StartRanks
from sparkd.model.config import Cluster, Deployment, Node


def folder(path: Path) -> None:
    path.mkdir()


def loop(path: Path) -> None:
    path.symlink_to(path.name)


BAD: dict[str, tuple[Callable[[Path], object], str]] = {
    "not UTF-8": (lambda path: path.write_bytes(b"ab\xff\xfe"), "byte 3 of it is no UTF-8"),
    "UTF-16": (lambda path: path.write_bytes("abc".encode("utf-16-le")), "it holds a zero byte, which no variable can"),
    "empty": (lambda path: path.write_bytes(b"\r\n\n"), "it is empty"),
    "too large": (lambda path: path.write_bytes(b"x" * (MAX_BYTES + 1)), "it is larger than 64 KiB"),
    "a pipe": (os.mkfifo, "it is a FIFO, not a regular file"),
    "a folder": (folder, "it is a folder, not a regular file"),
    "missing": (lambda path: None, "there is no such file"),
    "a loop": (loop, "Too many levels of symbolic links"),
}


def deployment(file: Path) -> Deployment:
    return Deployment(name="d", engine="vllm", nodes=("a",), image="x:1", model="/m", secrets={"HF_TOKEN": str(file)})


@pytest.mark.parametrize("bad", BAD)
async def test_a_file_that_holds_no_value_says_why_and_what_to_do(bad: str, tmp_path: Path) -> None:
    file = tmp_path / "token"
    make, why = BAD[bad]
    make(file)
    assert unread({"HF_TOKEN": str(file)})["HF_TOKEN"][0] == why
    assert str(file) in unread({"HF_TOKEN": str(file)})["HF_TOKEN"][1]
    cluster = Cluster(cluster="c", nodes={"a": Node(name="a", address="local")})
    hands = Hands(cluster, deployment(file), "us", {"a": {}}, {}, tmp_path)
    with pytest.raises(ActionFailed) as refused:
        await start(hands, StartRanks((0,), 1))
    assert (refused.value.code, refused.value.node) == ("secret", "")
    assert str(refused.value) == f"secret HF_TOKEN cannot be read from {file}: {why}"


def test_the_line_end_is_not_of_the_value_and_the_rest_is(tmp_path: Path) -> None:
    (tmp_path / "token").write_bytes(b" a b\t\r\n\n")
    assert read(str(tmp_path / "token")) == " a b\t"


def test_a_file_of_zeroes_without_end_is_read_no_further_than_its_limit(tmp_path: Path) -> None:
    with (tmp_path / "huge").open("wb") as huge:
        huge.truncate(1 << 40)
    with pytest.raises(SecretUnread, match="larger than 64 KiB"):
        read(str(tmp_path / "huge"))


def test_no_more_than_the_newest_values_of_a_file_are_remembered(tmp_path: Path) -> None:
    file = tmp_path / "token"
    for number in range(secret_files.KEPT * 2):
        file.write_text(f"value-{number:04}")
        read(str(file))
    kept = secret_files.values([str(file)])
    assert len(kept) == secret_files.KEPT
    assert f"value-{secret_files.KEPT * 2 - 1:04}" in kept
