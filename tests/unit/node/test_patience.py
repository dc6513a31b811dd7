"""Looks that hang: the others are answered, nothing is asked twice of what is dead, and it counts again once it answers."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from sparkd.node import mounts, patience


@pytest.fixture
def dead(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """A mount at /mnt/nas that does not answer until the event is set."""
    alive = threading.Event()
    monkeypatch.setattr(patience, "PATIENCE_S", 0.1)
    monkeypatch.setattr(patience, "_STUCK", [])
    table = [mounts.Mount("0:1", "/", False, "ext4"), mounts.Mount("0:2", "/mnt/nas", False, "nfs4")]
    monkeypatch.setattr(mounts, "table", lambda: (table, ""))
    yield alive
    alive.set()


class Looks:
    def __init__(self, dead: threading.Event) -> None:
        self.dead = dead
        self.asked: list[str] = []

    def __call__(self, path: str) -> str:
        self.asked.append(path)
        if path.startswith(("/mnt/nas/", "/link")):
            self.dead.wait(60)
        return f"at {path}"


def test_one_dead_mount_costs_only_its_own_answers(dead: threading.Event) -> None:
    look = Looks(dead)
    paths = ["/a", "/mnt/nas/x", "/b", "/mnt/nas/y/z", "/mnt/nasty", "/c"]
    told = {path: f"at {path}" for path in ("/a", "/b", "/mnt/nasty", "/c")}
    assert patience.looked(paths, look) == {**told, "/mnt/nas/x": None, "/mnt/nas/y/z": None}
    assert patience.looked(["/mnt/nas/x", "/mnt/nas/other", "/b"], look)["/b"] == "at /b"
    assert look.asked.count("/mnt/nas/x") == 1
    assert "/mnt/nas/other" not in look.asked, "one thread waits for a dead mount, however often it is asked for"
    threads = [one.thread for one in patience._STUCK]
    dead.set()
    for thread in threads:
        thread.join(10)
    assert patience.looked(["/mnt/nas/x"], look) == {"/mnt/nas/x": "at /mnt/nas/x"}


def test_a_link_to_a_dead_mount_is_remembered_by_itself(dead: threading.Event) -> None:
    look = Looks(dead)
    assert patience.looked(["/link", "/linked", "/b"], look) == {"/link": None, "/linked": None, "/b": "at /b"}
    assert sorted(one.below for one in patience._STUCK) == ["/link", "/linked"]


def test_no_round_waits_for_more_than_a_few(dead: threading.Event) -> None:
    found = patience.looked([f"/link{at}" for at in range(9)], look := Looks(dead))
    assert set(found.values()) == {None}
    assert len(look.asked) == patience.MOST_DEAD


def test_an_error_is_the_callers() -> None:
    with pytest.raises(ZeroDivisionError):
        patience.looked(["/a"], lambda path: 1 // 0)
    assert patience.looked([], lambda path: 1 // 0) == {}
