"""The name that a process leaves on what it makes: alive as long as that very process is."""

from __future__ import annotations

import os

import pytest

from sparkd.runtimes import looker


def test_this_process_is_alive() -> None:
    assert looker.alive(looker.me())
    assert f":{os.getpid()}:" in looker.me()


@pytest.mark.parametrize(
    "name",
    [
        "",
        "us",
        "{boot}:{pid}",
        "{boot}:-1:{ticks}",
        "{boot}:99999999999999999999:{ticks}",
        "00000000-0000-0000-0000-000000000000:{pid}:{ticks}",
        "{boot}:999999999:{ticks}",
        "{boot}:{pid}:{later}",
    ],
)
def test_others_are_not(name: str) -> None:
    """No name, another boot, no such process, and another process with the pid of one that has ended."""
    boot, pid, ticks = looker.me().split(":")
    assert not looker.alive(name.format(boot=boot, pid=pid, ticks=ticks, later=int(ticks) + 1))
