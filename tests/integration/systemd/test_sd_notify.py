"""Datagrams to a real socket, as systemd would receive them."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from sparkd.daemon import sd_notify


@pytest.fixture(params=["path", "abstract"])
def manager(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """The service manager's end."""
    name = str(tmp_path / "notify") if request.param == "path" else f"@sparkd-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(name.replace("@", "\0", 1) if name.startswith("@") else name)
        sock.settimeout(5)
        monkeypatch.setenv("NOTIFY_SOCKET", name)
        yield sock


def test_fields_arrive_in_one_datagram(manager: socket.socket) -> None:
    assert sd_notify.notify(READY="1", STATUS="ds4 is serving,\nfor 10 min now") is True
    assert manager.recv(4096) == b"READY=1\nSTATUS=ds4 is serving, for 10 min now"


@pytest.mark.parametrize(
    ("words", "arrives"),
    [
        ("x" * 1_000_000, b"x" * 900),
        ("\u2713" * 1_000_000, "\u2713".encode() * 900),
        ("half a \ud800 character", b"half a character"),
        ("an \x1b[31m escape, a \0 byte", b"an [31m escape, a byte"),
    ],
    ids=["long", "long and wide", "half a character", "control"],
)
def test_no_words_keep_the_watchdog_from_being_fed(manager: socket.socket, words: str, arrives: bytes) -> None:
    """systemd takes 4096 bytes at the most, and nothing with a zero byte in it."""
    assert sd_notify.notify(WATCHDOG="1", STATUS=words) is True
    assert manager.recv(1 << 20) == b"WATCHDOG=1\nSTATUS=" + arrives


def test_a_manager_that_does_not_read_holds_up_nothing(manager: socket.socket) -> None:
    sent = [sd_notify.notify(WATCHDOG="1") for _ in range(5000)]
    assert sent[0] is True
    assert sent[-1] is False


@pytest.mark.parametrize("name", ["", "/nowhere/to/be/found", "@nobody-listens-here", "tcp:1.2.3.4", "/" + "x" * 300])
def test_nobody_there_is_no_error(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", name)
    assert sd_notify.notify(READY="1") is False
    monkeypatch.delenv("NOTIFY_SOCKET")
    assert sd_notify.notify(READY="1") is False
