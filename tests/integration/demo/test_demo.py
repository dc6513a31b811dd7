"""`sparkd demo` as a person starts it: the whole story, alone on the machine, interrupted, killed; nothing is left."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sparkd.demo.faults import show
from sparkd.demo.layout import Layout
from sparkd.demo.node import owned
from sparkd.demo.scene import Event, Scene
from sparkd.demo.story import called

from .demo_world import SPARKD, STORY_S, processes, run


@pytest.mark.slow
def test_the_story_comes_true_twice_in_a_row(folder: Path) -> None:
    for _ in range(2):
        done = run("--once")
        assert done.returncode == 0, done.stdout + done.stderr
        told = (
            "demo is serving",
            "Answer:",
            "RANK",
            "kill -9",
            "starting generation 2",
            "sparkd noticed after",
            "Answer:",
        )
        position = 0
        for words in told:
            position = done.stdout.find(words, position) + 1
            assert position, f"{words!r} is missing or out of order in:\n{done.stdout}"
        noticed = re.search(r"noticed after ([0-9.]+) s", done.stdout)
        assert noticed is not None
        assert float(noticed[1]) < 10
        assert "\x1b" not in done.stdout, "no colours where no terminal is"
        assert "unread" not in done.stdout, "a demo that asks for what it cannot have teaches to read over its warnings"
        assert list(folder.iterdir()) == []


@pytest.mark.slow
def test_what_a_killed_demo_leaves_the_next_one_takes_away(folder: Path) -> None:
    with subprocess.Popen([*SPARKD, "demo", "--once"], stdout=subprocess.PIPE, text=True) as killed:
        assert killed.stdout is not None
        assert any("Answer:" in line for line in killed.stdout)
        killed.kill()
    assert processes(str(folder)), "the ranks outlive whoever started them"
    done = run("--once")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "An earlier demo was killed" in done.stdout


def test_sigterm_takes_it_down(folder: Path) -> None:
    with subprocess.Popen([*SPARKD, "demo", "--once"], stdout=subprocess.PIPE, text=True) as demo:
        assert demo.stdout is not None
        assert any("Answer:" in line for line in demo.stdout)
        demo.send_signal(signal.SIGTERM)
        demo.stdout.read()
        assert demo.wait(STORY_S) == 130


def test_a_fault_needs_a_demo(folder: Path) -> None:
    done = run("fault", "freeze")
    assert done.returncode == 1
    assert "no demo of yours is running" in done.stderr


class Held(Scene):
    """A demo whose ranks meet a fault once more just after it was taken away."""

    def __init__(self, layout: Layout) -> None:
        super().__init__(layout)
        self.released = 0

    def deployment(self) -> dict[str, Any]:
        return {"serving": False, "hold": None, "sentence": "", "wanted": "up"}

    def last_event(self) -> int:
        return 0

    def settled(self) -> dict[str, Any]:
        return {"verdict": "demo is serving", "deployments": [{"restart_pending": False}]}

    def happening(self, after: int, seconds: float) -> Iterator[Event]:
        for kind in ("failed", "held"):
            yield {"kind": kind, "at": "2026-11-27T03:00:31Z", "sentence": kind, "data": {}}
        assert self.released == 1
        yield {"kind": "serving", "at": "2026-11-27T03:00:35Z", "sentence": "serving", "data": {}}

    def operate(self, verb: str, message: str) -> None:
        assert verb == "release"
        self.released += 1


def test_heal_releases_a_hold_that_comes_while_it_waits(tmp_path: Path) -> None:
    show(Held(Layout(tmp_path, 0, 0, "")), "heal")


@pytest.mark.parametrize(("path", "told"), [("/usr/bin", True), (str(Path(sys.executable).parent), False)])
def test_it_says_how_to_call_it_where_the_shell_would_not_find_it(
    path: str, told: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", path)
    called()
    assert (f"export PATH={Path(sys.executable).parent}:$PATH" in capsys.readouterr().out) is told


def test_a_process_belongs_to_the_nearest_rank_above_it() -> None:
    text = "10 9 5 S 100 - python serve x\n11 10 6 S 100 - VLLM::EngineCore\n12 9 7 S 100 - an orphan\n30 1 8 S 100 - other\n"
    lines = owned(text, {10: "head", 9: "head"})
    assert [(line[0], line[5], line[6]) for line in lines] == [
        ("10", "head", "python serve x"),
        ("11", "head", "VLLM::EngineCore"),
        ("12", "head", "an orphan"),
        ("30", "-", "other"),
    ]
