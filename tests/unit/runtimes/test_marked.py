"""What a program started is ended by its mark, also while it is between two programs and shows no environment."""

from __future__ import annotations

import os
import subprocess
import uuid
from collections.abc import Iterator

import pytest

from sparkd.node import procfs
from sparkd.reporting import marked_processes


@pytest.fixture
def mark() -> str:
    return uuid.uuid4().hex


@pytest.fixture
def child(mark: str) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "1000"], env={**os.environ, "MARK": mark}, start_new_session=True) as one:
        yield one
        one.kill()


def test_nobody_else_is_ended(child: subprocess.Popen[bytes]) -> None:
    assert marked_processes.end_marked(f"MARK={uuid.uuid4().hex}".encode()) == 0
    assert child.poll() is None


def test_one_that_shows_no_environment_yet_is_looked_at_again(
    child: subprocess.Popen[bytes], mark: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hook ended while its child was on its way from `setsid` to the program: it was passed over, and lived on."""
    looks = 0
    read = procfs.read

    def reading(path: str, limit: int) -> bytes:
        nonlocal looks
        if path == f"/proc/{child.pid}/environ":
            looks += 1
            if looks < 4:
                return b""
        return read(path, limit)

    monkeypatch.setattr(procfs, "read", reading)
    assert marked_processes.end_marked(f"MARK={mark}".encode()) == 1
    assert child.wait(10) == -9
