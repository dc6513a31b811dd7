"""`sparkd demo` as a person starts it: the whole story, alone on the machine, interrupted, killed; nothing is left."""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sparkd.demo.cli import FAULT_NAMES
from sparkd.demo.faults import FAULTS, show
from sparkd.demo.layout import Layout
from sparkd.demo.node import owned
from sparkd.demo.scene import Event, Scene
from sparkd.demo.story import called

SPARKD = [sys.executable, "-m", "sparkd"]
STORY_S = 60.0
"""For a machine that is busy with other tests; alone it takes 12 s."""


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A TMPDIR of its own, so that no test meets another demo; it must be empty in the end, and nobody work in it."""
    # Not tmp_path: a Unix socket's path must stay short.
    with tempfile.TemporaryDirectory(prefix="sd-") as made:
        monkeypatch.setenv("TMPDIR", made)
        yield Path(made)
        left = _processes(made)
        assert left == {}
        assert list(Path(made).iterdir()) == []


def _processes(text: str) -> dict[int, str]:
    """Living processes with this text in their arguments or their environment, this one and its like left out."""
    found = {}
    for path in Path("/proc").iterdir():
        if not path.name.isdigit() or int(path.name) == os.getpid():
            continue
        try:
            words = (path / "cmdline").read_bytes() + (path / "environ").read_bytes()
        except OSError:
            continue  # ended, or another user's
        if text.encode() in words:
            found[int(path.name)] = words[:200].replace(b"\0", b" ").decode(errors="replace")
    return found


def run(*words: str, seconds: float = STORY_S) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*SPARKD, "demo", *words], capture_output=True, text=True, timeout=seconds, check=False)


class Terminal:
    """A demo on a terminal."""

    def __init__(self) -> None:
        self._fd, other = os.openpty()
        argv = [*SPARKD, "demo"]
        self._process = subprocess.Popen(argv, stdin=other, stdout=other, stderr=other, start_new_session=True)
        os.close(other)
        self.pid, self.text = self._process.pid, ""

    def until(self, words: str) -> None:
        end = time.monotonic() + STORY_S
        while words not in self.text:
            assert time.monotonic() < end, f"no {words!r} in:\n{self.text}"
            if select.select([self._fd], [], [], 0.5)[0]:
                try:
                    self.text += os.read(self._fd, 65536).decode(errors="replace")
                except OSError:
                    raise AssertionError(f"it ended without {words!r}:\n{self.text}") from None

    def close(self) -> int:
        """Ctrl-C; the exit code."""
        self._process.send_signal(signal.SIGINT)
        code = self._process.wait(STORY_S)
        os.close(self._fd)
        return code


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
        assert list(folder.iterdir()) == []


def test_a_second_demo_refuses_faults_end_as_they_say_and_ctrl_c_ends_it(folder: Path) -> None:
    demo = Terminal()
    try:
        demo.until("sparkd's log")
        _try_it_out(demo)
    finally:
        code = demo.close()
    assert code == 0


def _try_it_out(demo: Terminal) -> None:
    assert f"sparkd demo fault NAME     {' | '.join(FAULT_NAMES)}" in demo.text
    second = run("--once")
    assert (second.returncode, second.stdout) == (1, "")
    assert f"a demo is running already (process {demo.pid})" in second.stderr
    gone = run("fault", "exit127")
    assert gone.returncode == 0, gone.stdout + gone.stderr
    assert "demo is NOT serving, held: " in gone.stdout.splitlines()[-2]
    refused = run("fault", "kill-worker")
    assert (refused.returncode, "fault heal" in refused.stderr) == (1, True)
    healed = run("fault", "heal")
    assert healed.returncode == 0, healed.stdout + healed.stderr
    assert "demo is serving" in healed.stdout.splitlines()[-1]


def test_what_a_killed_demo_leaves_the_next_one_takes_away(folder: Path) -> None:
    with subprocess.Popen([*SPARKD, "demo", "--once"], stdout=subprocess.PIPE, text=True) as killed:
        assert killed.stdout is not None
        assert any("Answer:" in line for line in killed.stdout)
        killed.kill()
    assert _processes(str(folder)), "the ranks outlive whoever started them"
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
        return {"serving": False, "hold": None, "sentence": ""}

    def status(self) -> dict[str, Any]:
        return {"verdict": "demo is serving"}

    def last_event(self) -> int:
        return 0

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


def test_every_fault_can_be_typed() -> None:
    assert tuple(FAULTS) == FAULT_NAMES


def test_a_process_belongs_to_the_nearest_rank_above_it() -> None:
    text = "10 9 5 S 100 - python serve x\n11 10 6 S 100 - VLLM::EngineCore\n12 9 7 S 100 - an orphan\n30 1 8 S 100 - other\n"
    lines = owned(text, {10: "head", 9: "head"})
    assert [(line[0], line[5], line[6]) for line in lines] == [
        ("10", "head", "python serve x"),
        ("11", "head", "VLLM::EngineCore"),
        ("12", "head", "an orphan"),
        ("30", "-", "other"),
    ]
