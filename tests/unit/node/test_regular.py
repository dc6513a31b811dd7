"""What others may have put in the place of a file: never waited for, never read beyond its bound, and said as what it is."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from odd_files import DEEP, ODD, counted_reads, endless, fifo, folder, nested, sparse

from sparkd.node import emptying, folders, regular

from .service import wait_for

pytestmark = pytest.mark.timeout(60)


def unexpected(error: OSError) -> None:
    raise error


@pytest.mark.parametrize("put", ODD)
@pytest.mark.parametrize("read", [regular.read, regular.beginning])
def test_what_is_odd_is_an_error_or_a_bounded_read(
    tmp_path: Path, put: Callable[[Path], None], read: Callable[[str, int], bytes]
) -> None:
    put(tmp_path / "x")
    with counted_reads() as count:
        if (put, read) == (sparse, regular.beginning):
            assert len(read(str(tmp_path / "x"), 1000)) == 1000
        else:
            with pytest.raises(OSError) as raised:
                read(str(tmp_path / "x"), 1000)
            assert raised.value.strerror
        assert count() < 10_000  # /proc/self/io is read too


@pytest.mark.parametrize(("put", "words"), [(fifo, "a FIFO"), (endless, "a device"), (folder, "a folder")])
def test_it_is_said_what_it_is(tmp_path: Path, put: Callable[[Path], None], words: str) -> None:
    put(tmp_path / "x")
    with pytest.raises(regular.NotRegular, match=f"{tmp_path}/x: it is {words}, not a regular file"):
        regular.read(str(tmp_path / "x"), 10)


def test_a_bound_is_for_the_bytes_that_come_whatever_the_size_says(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"x" * 1024)
    assert regular.read(str(tmp_path / "x"), 1024) == b"x" * 1024
    with pytest.raises(regular.TooMuch, match="larger than 1023 bytes"):
        regular.read(str(tmp_path / "x"), 1023)
    with pytest.raises(regular.TooMuch):
        regular.read("/proc/self/maps", 100)
    assert regular.read("/proc/self/comm", 100)


def test_a_file_that_grows_while_it_is_read_ends(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"x")
    stop = threading.Event()

    def grow() -> None:
        with (tmp_path / "x").open("ab", buffering=0) as file:
            while not stop.is_set() and file.tell() < 64 << 20:
                file.write(b"x" * 65536)

    growing = threading.Thread(target=grow)
    growing.start()
    try:
        wait_for("it has grown", lambda: (tmp_path / "x").stat().st_size > 1 << 20)
        with pytest.raises(regular.TooMuch):
            regular.read(str(tmp_path / "x"), 1 << 20)
    finally:
        stop.set()
        growing.join()


def test_no_permission_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "x").touch(0)
    user = os.geteuid()
    if user == 0:  # who may read everything
        os.seteuid(65534)
    try:
        with pytest.raises(PermissionError):
            regular.read(str(tmp_path / "x"), 10)
    finally:
        os.seteuid(user)


def test_names_and_patterns_are_bounded(tmp_path: Path) -> None:
    for name in ("b.conf", "a.conf", ".c.conf", "d.txt"):
        (tmp_path / name).touch()
    assert regular.names(str(tmp_path)) == [".c.conf", "a.conf", "b.conf", "d.txt"]
    assert regular.matching(str(tmp_path), "*.conf") == [f"{tmp_path}/a.conf", f"{tmp_path}/b.conf"]
    assert regular.matching(str(tmp_path), "d.txt") == [f"{tmp_path}/d.txt"]
    assert regular.matching(f"{tmp_path}/d.txt", "*/x") == []
    with pytest.raises(regular.TooMuch, match="more than 3 entries"):
        regular.names(str(tmp_path), 3)
    with pytest.raises(regular.TooMuch, match=r"more than 1 of \*\.conf"):
        regular.matching(str(tmp_path), "*.conf", 1)


@pytest.mark.parametrize("pattern", ["*/*", "*/y*"])
def test_links_to_one_full_folder_multiply_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pattern: str
) -> None:
    monkeypatch.setattr(regular, "MOST_NAMES", 20)
    (tmp_path / "full").mkdir()
    for number in range(20):
        (tmp_path / "full" / f"x{number}").touch()
    links = tmp_path / "links"
    links.mkdir()
    for number in range(20):
        (links / f"l{number}").symlink_to(tmp_path / "full")
    seen: list[str] = []
    listed = regular.names

    def counted(folder: str) -> list[str]:
        seen.extend(found := listed(folder))
        return found

    monkeypatch.setattr(regular, "names", counted)
    with pytest.raises(regular.TooMuch, match="more than 20 of"):
        regular.matching(str(links), pattern, 20)
    assert len(seen) <= 11 * 20


def test_folders_are_counted_and_emptied_however_deep_they_are(tmp_path: Path) -> None:
    """5,000 inside one another are deeper than a path may be long and than Python may recurse."""
    before = len(os.listdir("/proc/self/fd"))
    with nested(tmp_path / "cache") as top:
        found = folders.held(str(top), 30.0)
        assert found.files == 1
        assert found.bytes >= 4096
        descriptor = emptying.opened(str(top))
        try:
            assert emptying.emptied(descriptor) is None
        finally:
            os.close(descriptor)
        assert list(top.iterdir()) == []
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_walk_holds_two_descriptors_however_deep_it_is(tmp_path: Path) -> None:
    most = 0

    def enter(here: int, path: str) -> list[str]:
        nonlocal most
        most = max(most, len(os.listdir("/proc/self/fd")))
        return [name for name in os.listdir(here) if name != "file"]

    before = len(os.listdir("/proc/self/fd"))
    with nested(tmp_path / "cache", depth=200) as top:
        descriptor = emptying.opened(str(top))
        emptying.walked(descriptor, enter, lambda above, name: None, unexpected)
        os.close(descriptor)
    assert most <= before + 2


def test_a_folder_that_is_moved_away_while_it_is_walked_ends_the_walk(tmp_path: Path) -> None:
    """Its `..` would lead to a folder that nobody meant, and root would delete there."""
    (tmp_path / "cache/a/b").mkdir(parents=True)
    (tmp_path / "other").mkdir()

    def enter(here: int, path: str) -> list[str]:
        if path == "a/b":
            (tmp_path / "cache/a/b").rename(tmp_path / "other/b")
            return []
        return os.listdir(here)

    left: list[str] = []
    descriptor = emptying.opened(str(tmp_path / "cache"))
    try:
        with pytest.raises(OSError, match="b was moved meanwhile"):
            emptying.walked(descriptor, enter, lambda above, name: left.append(name), unexpected)
    finally:
        os.close(descriptor)
    assert left == []


def test_a_walk_that_is_not_finished_is_no_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(11):
        (tmp_path / str(number)).touch()
    assert folders.held(str(tmp_path), 5.0).files == 11
    monkeypatch.setattr(folders, "MOST_ENTRIES", 10)
    with pytest.raises(regular.TooMuch, match="more than 10 entries"):
        folders.held(str(tmp_path), 5.0)


def test_the_folders_of_these_tests_are_as_deep_as_they_say(tmp_path: Path) -> None:
    with nested(tmp_path / "top") as top, pytest.raises(OSError, match="too long"):
        os.stat(top / "/".join(["d"] * DEEP))
    assert not list((tmp_path / "top").iterdir())
