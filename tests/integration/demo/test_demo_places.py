"""The demo where things are not as usual: another place for files, a busy port, no rights, a reader that goes away."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from sparkd.demo.layout import DEFAULT_PORT

from .demo_world import SPARKD, STORY_S, run

pytestmark = pytest.mark.slow


def bare(**more: str) -> dict[str, str]:
    """An environment with next to nothing in it."""
    kept = {name: os.environ[name] for name in ("TMPDIR", "PYTHONPATH") if name in os.environ}
    return {**kept, **more}


def test_without_a_home_a_path_a_language_and_the_usual_port(folder: Path) -> None:
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            taken.bind(("127.0.0.1", DEFAULT_PORT))
            taken.listen()
        except OSError:
            pass  # somebody else has it: so it is taken all the same
        done = run("--once", env=bare())
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("x" * 60, "is too long a path for sockets"),
        ("gone", "cannot be used: No such file or directory"),
        ("file", "cannot be used: Not a directory"),
    ],
)
def test_a_place_that_cannot_be_used(folder: Path, place: str, said: str) -> None:
    (folder / "file").touch()
    done = run("--once", env={**os.environ, "TMPDIR": str(folder / place)})
    (folder / "file").unlink()
    assert (done.returncode, done.stdout) == (1, "")
    assert said in " ".join(done.stderr.split())
    assert "set TMPDIR to" in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


def as_nobody() -> list[str]:
    """The command of a user who may do nothing but read: the checkout and the interpreter may be root's alone."""
    reading = ["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]
    setpriv = shutil.which("setpriv") or "setpriv"
    somebody = ["--reuid=65534", "--regid=65534", "--clear-groups", *reading]
    return [setpriv, *somebody, sys.executable, "-m", "sparkd", "demo", "--once"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_for_a_user_who_may_do_nothing_and_where_nothing_may_be_written(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody: no home, no group, no shell; the checkout belongs to another. First where nobody may write."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path for path in sys.path if path))
    folder.chmod(0o755)
    argv = as_nobody()
    refused = subprocess.run(argv, capture_output=True, text=True, timeout=STORY_S, check=False)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "cannot be used: Permission denied" in " ".join(refused.stderr.split())
    folder.chmod(0o1777)
    done = subprocess.run(argv, capture_output=True, text=True, timeout=STORY_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_takes_it_down(folder: Path, number: signal.Signals) -> None:
    with subprocess.Popen([*SPARKD, "demo", "--once"], stdout=subprocess.PIPE, text=True) as demo:
        assert demo.stdout is not None
        assert any("Start the group" in line for line in demo.stdout)
        demo.send_signal(number)
        demo.stdout.read()
        assert demo.wait(STORY_S) == 130


def test_a_reader_that_goes_away_ends_it(folder: Path) -> None:
    """`sparkd demo --once | head -1`"""
    with subprocess.Popen(
        [*SPARKD, "demo", "--once"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as demo:
        assert demo.stdout is not None
        assert demo.stderr is not None
        demo.stdout.readline()
        demo.stdout.close()
        said = demo.stderr.read()
        # As for every command: whoever stops reading has seen enough.
        assert demo.wait(STORY_S) == 0, said
    assert "Traceback" not in said
