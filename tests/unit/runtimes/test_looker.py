"""The name that a process leaves on what it makes: alive as long as that very process is."""

from __future__ import annotations

import os

import pytest

from sparkd.runtimes import looker

BOOT, PID, TICKS = looker.me().split(":")


def test_this_process_is_alive() -> None:
    assert looker.alive(looker.me())
    assert int(PID) == os.getpid()


@pytest.mark.parametrize(
    "name",
    [
        "",
        "us",
        f"{BOOT}:{PID}",
        f"{BOOT}:-1:{TICKS}",
        f"{BOOT}:{'9' * 20}:{TICKS}",
        f"00000000-0000-0000-0000-000000000000:{PID}:{TICKS}",
        f"{BOOT}:999999999:{TICKS}",
        f"{BOOT}:{PID}:{int(TICKS) + 1}",
    ],
)
def test_others_are_not(name: str) -> None:
    """No name, another boot, no such process, and another process with the pid of one that has ended."""
    assert not looker.alive(name)
