"""One demo per user: a lock file that says which one runs, and what a demo that was killed has left behind."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sparkd.demo.errors import DemoError
from sparkd.demo.layout import temporary

PREFIX = "sparkd-demo-"


def lock_path() -> Path:
    return temporary() / f"{PREFIX}{os.geteuid()}.lock"


class Lock:
    """Held; `left` is the folder of a demo that ended without taking itself down."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        _, self.left = _read(descriptor)

    def tell(self, folder: Path) -> None:
        """Who holds it, and where its demo is."""
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, json.dumps({"pid": os.getpid(), "folder": str(folder)}).encode(), 0)


@contextmanager
def only_demo() -> Iterator[Lock]:
    """Raises DemoError while another demo of this user runs. The kernel lets go of it however the demo ends."""
    path = lock_path()
    descriptor = _locked(path)
    try:
        yield Lock(descriptor)
    finally:
        if _read(descriptor)[1] is None:  # else something was left, and the next demo has to know where
            path.unlink()
        os.close(descriptor)


def _locked(path: Path) -> int:
    while True:
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise DemoError(f"{path} cannot be used: {error.strerror}", "set TMPDIR to a folder of yours") from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pid, _ = _read(descriptor)
            os.close(descriptor)
            who = f"process {pid}" if pid else "another process"
            raise DemoError(f"a demo is running already ({who})", "end it with ctrl-C in its terminal") from None
        if path.exists() and path.stat().st_ino == os.fstat(descriptor).st_ino:
            return descriptor
        os.close(descriptor)  # the one that held it has just taken the file away


def running() -> Path | None:
    """The folder of the demo that runs now, or None."""
    try:
        descriptor = os.open(lock_path(), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _read(descriptor)[1]
    finally:
        os.close(descriptor)
    return None


def _read(descriptor: int) -> tuple[int, Path | None]:
    """(pid, folder), as far as the file says; a folder only where it can be a demo's, for it may get removed."""
    try:
        content = json.loads(os.pread(descriptor, 4096, 0))
        pid, folder = int(content["pid"]), Path(content["folder"])
    except (ValueError, KeyError, TypeError):
        return 0, None
    named = folder.parent == temporary() and folder.name.startswith(PREFIX)
    ours = named and folder.is_dir() and not folder.is_symlink() and folder.stat().st_uid == os.geteuid()
    return pid, folder if ours else None
