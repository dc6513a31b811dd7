"""What the tests of the demo share: a place of its own, what runs in it, and a person's terminal."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pexpect
import pytest

SPARKD = [sys.executable, "-m", "sparkd"]
STORY_S = 60.0
"""For a machine that is busy with other tests; alone it takes 12 s."""


def processes(text: str) -> dict[int, str]:
    """Living processes with this text in their arguments or their environment, this one left out."""
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


def run(
    *words: str, seconds: float = STORY_S, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """`sparkd demo WORDS`, to its end, without a terminal."""
    return subprocess.run(
        [*SPARKD, "demo", *words], capture_output=True, text=True, timeout=seconds, check=False, env=env
    )


class Terminal:
    """One window: what is typed runs on a terminal of its own. Everything that was shown is in `text`."""

    def __init__(self, *words: str, columns: int = 80, env: Mapping[str, str] | None = None) -> None:
        environment = {**os.environ, "TERM": "xterm", **(env or {})}
        self._child: pexpect.spawn[str] = pexpect.spawn(
            SPARKD[0],
            [*SPARKD[1:], *words],
            env=environment,
            dimensions=(24, columns),
            encoding="utf-8",
            codec_errors="replace",
            timeout=STORY_S,
        )
        assert self._child.pid is not None
        self.pid, self.text = self._child.pid, ""

    def until(self, words: str) -> None:
        self._child.expect_exact(words)
        self.text += str(self._child.before) + words

    def end(self) -> int:
        """Its exit code, once it has ended by itself."""
        self._child.expect_exact(pexpect.EOF)
        self.text += str(self._child.before)
        self._child.close()
        return self._child.exitstatus if self._child.exitstatus is not None else -int(self._child.signalstatus or 0)

    def interrupt(self) -> int:
        """Ctrl-C, as the key: the terminal sends the signal. The exit code."""
        self._child.sendintr()
        return self.end()

    def hang_up(self) -> int:
        """The window is closed, which is SIGHUP to what runs in it; the exit code."""
        os.close(self._child.child_fd)
        _, status = os.waitpid(self.pid, 0)
        self._child.closed = True
        return os.waitstatus_to_exitcode(status)

    def found(self, pattern: str) -> str:
        """What the pattern's group has matched in what was shown."""
        match = re.search(pattern, self.text)
        assert match is not None, f"no {pattern} in\n{self.text}"
        return match[1]


@contextmanager
def place() -> Iterator[Path]:
    """A TMPDIR of its own, so that no test meets another demo; it must be empty in the end, and nobody work in it."""
    # Not tmp_path: a Unix socket's path must stay short.
    with tempfile.TemporaryDirectory(prefix="sd-") as made, pytest.MonkeyPatch.context() as environment:
        environment.setenv("TMPDIR", made)
        yield Path(made)
        assert processes(made) == {}
        assert list(Path(made).iterdir()) == []


@contextmanager
def demo_on_a_terminal(columns: int = 80) -> Iterator[Terminal]:
    """A demo that has told its story and stays; ended with ctrl-C, which must be a success."""
    demo = Terminal("demo", columns=columns)
    try:
        demo.until("sparkd's log ")
        yield demo
    finally:
        code = demo.interrupt()
    assert code == 0
