"""One sparkd per state folder: a lock on the folder itself, which works on a full or read-only disk too."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from sparkd.base.errors import SparkdError

LOCKS = Path("/proc/locks")


class AlreadyOwned(SparkdError):
    """Another sparkd owns this state (exit code 7). `pid` is its process, where the kernel tells."""

    def __init__(self, folder: Path, pid: int | None) -> None:
        self.folder, self.pid = folder, pid
        who = f"process {pid}" if pid else "another sparkd"
        super().__init__(f"{folder} is in use by {who}; one state has one sparkd")


class StateLock:
    """Held from `take` until the process ends, however it ends."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._fd: int | None = None

    def take(self) -> None:
        """Raises AlreadyOwned, or OSError when the folder can neither be opened nor made."""
        self.folder.mkdir(parents=True, exist_ok=True)
        fd = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pid = _holder(os.fstat(fd).st_ino)
            os.close(fd)
            raise AlreadyOwned(self.folder, pid) from None
        self._fd = fd

    def follow(self) -> None:
        """Lock the folder that is at the path now: one that was made anew has no lock, and would admit a second sparkd.

        Does nothing where none was taken. Raises as `take`.
        """
        before = self._fd
        if before is None or (self.folder.is_dir() and os.path.samestat(os.fstat(before), self.folder.stat())):
            return
        self.take()
        os.close(before)

    def release(self) -> None:
        """Give it back; the end of the process does the same."""
        fd, self._fd = self._fd, None
        if fd is not None:
            os.close(fd)


def _holder(inode: int) -> int | None:
    """The process that holds an flock on this inode. Lines read `1: FLOCK ADVISORY WRITE 1234 00:2b:77 0 EOF`."""
    try:
        lines = LOCKS.read_text().splitlines()
    except OSError:
        return None  # hidden by a sandbox (ProcSubset=pid): the lock itself is proof enough
    for line in lines:
        words = line.split()
        if len(words) > 5 and words[1] == "FLOCK" and words[5].rpartition(":")[2] == str(inode) and words[4].isdigit():
            return int(words[4]) or None
    return None
