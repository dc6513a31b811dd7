"""Two nodes and a daemon as processes on this machine: made, waited for, and taken away without a trace."""

from __future__ import annotations

import ctypes
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import anyio
import click

from sparkd.base.errors import SparkdError
from sparkd.ctl.client import Api
from sparkd.ctl.errors import CtlError
from sparkd.demo.errors import DemoError
from sparkd.demo.layout import NODES, Layout, plan, temporary
from sparkd.demo.lock import PREFIX, only_demo
from sparkd.runtimes.shim import ShimRuntime

T = TypeVar("T")

PR_SET_PDEATHSIG = 1
READY_S = 20.0
END_S = 6.0
GRACE_S = 1.0
POLL_S = 0.05
LOG_TAIL = 15


class Stand:
    """What the story and the fault commands work on."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.api = Api(str(layout.socket))
        self._children: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        """Returns when the daemon answers. Raises DemoError."""
        for name in NODES:
            node = self.layout.node(name)
            state = ("--config", str(node / "node.json"), "--state-dir", str(node))
            self._spawn("sparkd.node", "--socket", str(self.layout.service(name)), *state, log=node / "service.log")
        self._start_daemon()

    def _start_daemon(self) -> None:
        self.daemon = self._spawn("sparkd.demo.head", str(self.layout.folder), log=self.layout.log)
        self.until("sparkd answers", self._answers, READY_S)

    def _spawn(self, module: str, *words: str, log: Path) -> subprocess.Popen[bytes]:
        """In a session of its own, so that ctrl-C reaches nobody but the demo, which ends them in order."""
        with log.open("ab") as output:
            child = subprocess.Popen(
                [sys.executable, "-m", module, *words],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                preexec_fn=_end_with_parent,  # noqa: PLW1509 - this process has one thread
            )
        self._children.append(child)
        return child

    def _answers(self) -> bool:
        try:
            self.api.get("/api/v1/status")
        except CtlError:
            return False
        return True

    def until(self, what: str, look: Callable[[], T | None], seconds: float) -> T:
        """The first answer of `look` that is something. Raises DemoError without one in time, or without a daemon."""
        end = time.monotonic() + seconds
        while True:
            found = look()
            if found:
                return found
            if self.daemon.poll() is not None:
                raise DemoError(f"sparkd ended with status {self.daemon.returncode}", self.said())
            if time.monotonic() > end:
                raise DemoError(f"waited {seconds:.0f} s in vain until {what}", self.said())
            time.sleep(POLL_S)

    def said(self) -> str:
        """The last words of the daemon's log."""
        lines = self.layout.log.read_text("utf-8", "replace").splitlines()[-LOG_TAIL:]
        return "its log ends:\n" + "\n".join(lines)

    def wait(self) -> None:
        """Until ctrl-C; a daemon that is killed is started again, as systemd does. Raises DemoError when it ends."""
        try:
            while self.daemon.wait() == -signal.SIGKILL:
                click.echo("\nsparkd was killed: it is started again, as systemd would do.")
                self._start_daemon()
        except KeyboardInterrupt:
            return
        raise DemoError(f"sparkd ended with status {self.daemon.returncode}", self.said())

    def end(self) -> None:
        """The daemon first, which would start the ranks again; then the ranks; then the nodes."""
        nodes, daemon = self._children[: len(NODES)], self._children[len(NODES) :]
        for child in daemon:
            _end(child)
        anyio.run(end_ranks, self.layout.folder)
        for child in nodes:
            _end(child)


def _end_with_parent() -> None:
    """In the child: a demo that is killed takes the nodes and the daemon along; the next demo ends the ranks."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _end(child: subprocess.Popen[bytes]) -> None:
    child.terminate()
    try:
        child.wait(END_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


async def end_ranks(folder: Path) -> None:
    """Ends every rank below `folder`, all at once. Raises DemoError for what cannot be ended."""

    async def one(name: str) -> None:
        runtime = ShimRuntime(name, folder / name / "ranks")
        for container in await runtime.containers():
            await runtime.stop(container.id, GRACE_S)
            await runtime.remove(container.id)

    try:
        async with anyio.create_task_group() as group:
            for name in NODES:
                group.start_soon(one, name)
    except* SparkdError as errors:
        raise DemoError(f"ranks are left running: {errors.exceptions[0]}", f"look at {folder}") from None


@contextmanager
def stand() -> Iterator[Stand]:
    """A running demo. Nothing of it is left afterwards, whatever happened. Raises DemoError."""
    with only_demo() as lock, _told_to_end():
        if lock.left is not None:
            click.echo("An earlier demo was killed: taking away what it left.")
            anyio.run(end_ranks, lock.left)
            shutil.rmtree(lock.left)
        folder = temporary() / f"{PREFIX}{secrets.token_hex(4)}"
        lock.tell(folder)  # first: a demo killed right here leaves nothing that the next one does not know of
        folder.mkdir(mode=0o700)
        made = Stand(plan(folder))
        try:
            made.start()
            yield made
        finally:
            _hear_no_more()
            made.end()
            shutil.rmtree(folder)  # only now: while a rank lives its record must stay


@contextmanager
def _told_to_end() -> Iterator[None]:
    """SIGTERM and a closed terminal end the demo as ctrl-C does."""
    before = {number: signal.signal(number, _interrupt) for number in (signal.SIGTERM, signal.SIGHUP)}
    interrupt = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        for number, handler in {**before, signal.SIGINT: interrupt}.items():
            signal.signal(number, handler)


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt


def _hear_no_more() -> None:
    """Taking down takes a second or two; a second ctrl-C must not leave half of it."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
