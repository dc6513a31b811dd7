"""The keeper of one rank without Docker: a request on stdin -> a process, its bounded log, and its end on record.

`python -I -S shim_main.py FOLDER ID`. It detaches from the process that started it, so that ranks outlive sparkd. It is
for its rank what a container's init is: orphans become its children, and whatever is left goes when the rank's first
process ends. Standard library only and started by path: one of these runs for every rank, 9 MB each instead of 60.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import select
import signal
import sys
import time
from datetime import UTC, datetime
from typing import Any, NoReturn

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
GRACE_S = 10.0
"""Between SIGTERM and SIGKILL where no other time is set: Docker's default."""
MAX_LINE_BYTES = 1 << 16
READ_BYTES = 1 << 16
RECORD, LOCK, GRACE, LOG = "record.json", "lock", "grace", "log"
"""Files of a rank's folder; older logs are `log.1`, `log.2` …"""
READY = b"ready"


class Refused(Exception):
    """The rank is not started; the text says why."""


def main() -> int:
    """Returns when the rank's process exists: 0, or 1 with the reason on stderr."""
    folder, identity = sys.argv[1:3]
    request = json.load(sys.stdin.buffer)
    reader, writer = os.pipe()
    if os.fork():
        os.close(writer)
        answer = os.read(reader, 4096)
        sys.stderr.write("" if answer == READY else answer.decode(errors="replace") or "the shim died")
        return int(answer != READY)
    os.close(reader)
    try:
        os.chdir("/")
        os.setsid()
        keeper = Keeper(folder, identity, request)
        keeper.start()
    except (OSError, ValueError, Refused) as error:
        os.write(writer, str(error).encode())
        return 0
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(null, number)
    os.write(writer, READY)
    os.close(writer)
    keeper.keep()
    return 0


def prctl(option: int, value: int) -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl {option}")


def stat_of(pid: object) -> list[str]:
    """The fields of /proc/PID/stat from the state on. A process may call itself ") R 1 1": cut at the last bracket."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        return file.read().rpartition(b")")[2].decode().split()


def identity_of(pid: int) -> dict[str, int]:
    return {"pid": pid, "start_ticks": int(stat_of(pid)[19])}


def now() -> str:
    return datetime.now(UTC).isoformat()


class Log:
    """Lines with time and stream in `log`; at `max_bytes` it becomes `log.1` and so on, `files` of them in all."""

    def __init__(self, folder: str, max_bytes: int, files: int) -> None:
        self._path = os.path.join(folder, LOG)
        self._max_bytes, self._files = max_bytes, files
        self._open()

    def _open(self) -> None:
        self._fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._size = os.fstat(self._fd).st_size

    def line(self, stream: str, text: bytes) -> None:
        whole = f"{time.time():.6f} {stream} ".encode() + text + b"\n"
        try:
            if self._size and self._size + len(whole) > self._max_bytes:
                self._rotate()
            self._size += os.write(self._fd, whole)
        except OSError:
            return  # a full disk costs lines of the log, never the rank

    def _rotate(self) -> None:
        names = [self._path, *(f"{self._path}.{number}" for number in range(1, self._files))]
        for newer, older in zip(names[-2::-1], names[:0:-1], strict=True):
            if os.path.exists(newer):
                os.replace(newer, older)
        if self._files == 1:
            os.unlink(self._path)
        before = self._fd
        self._open()
        os.close(before)


class Stream:
    """The rank's end of stdout or stderr, cut into lines."""

    def __init__(self, name: str, log: Log) -> None:
        self.reader, self.writer = os.pipe()
        os.set_blocking(self.reader, False)
        self._name, self._log, self._rest = name, log, b""

    def fileno(self) -> int:
        return self.reader

    def read(self) -> bool:
        """Takes what is there; False once no process can write to it any more."""
        try:
            data = os.read(self.reader, READ_BYTES)
        except BlockingIOError:
            return True
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._log.line(self._name, self._cut(line))
        self._rest = self._cut(self._rest)
        return bool(data)

    def _cut(self, line: bytes) -> bytes:
        """Logs what is too long of it; returns the rest."""
        while len(line) > MAX_LINE_BYTES:
            self._log.line(self._name, line[:MAX_LINE_BYTES])
            line = line[MAX_LINE_BYTES:]
        return line

    def finish(self) -> None:
        """The rest of a rank that has ended: what still is in the pipe, and a last line without its end."""
        while select.select([self], [], [], 0)[0] and self.read():
            continue
        if self._rest:
            self._log.line(self._name, self._rest)


class Keeper:
    """Starts the rank in `folder`, which must hold the record of `identity`, and keeps it to its end."""

    def __init__(self, folder: str, identity: str, request: dict[str, Any]) -> None:
        self._folder, self._request = folder, request
        self._lock = self._locked()
        with open(os.path.join(folder, RECORD), encoding="utf-8") as file:
            self._record: dict[str, Any] = json.load(file)
        if self._record["id"] != identity:
            raise Refused("its name was given to another rank meanwhile")
        log = Log(folder, request["max_bytes"], request["files"])
        self._streams = [Stream("stdout", log), Stream("stderr", log)]
        self._pid = 0
        self._status: int | None = None
        self._kill_at: float | None = None

    def _locked(self) -> int:
        """Held for life: the folder of a living shim is never removed, and a late shim finds its folder gone."""
        path = os.path.join(self._folder, LOCK)
        lock = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Refused("it is being removed, or has a shim already") from None
        if os.stat(path).st_ino != os.fstat(lock).st_ino:
            raise Refused("it was removed meanwhile")
        return lock

    def _write(self, **changes: Any) -> None:
        """All or nothing: a reader sees the old record or the new one."""
        self._record.update(changes)
        path = os.path.join(self._folder, RECORD)
        with open(path + ".new", "w", encoding="utf-8") as file:
            json.dump(self._record, file)
        os.replace(path + ".new", path)

    def start(self) -> None:
        """No rank runs before the record names its process. Raises OSError."""
        prctl(PR_SET_CHILD_SUBREAPER, 1)
        self._signals = self._hear()
        self._write(shim=identity_of(os.getpid()))
        gate, opener = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            os.close(opener)
            self._become_rank(gate)
        for passed in (gate, *(stream.writer for stream in self._streams)):
            os.close(passed)
        self._write(rank=identity_of(self._pid), started_at=now())
        os.write(opener, b"\0")
        os.close(opener)

    def _hear(self) -> int:
        reader, writer = os.pipe()
        os.set_blocking(reader, False)
        os.set_blocking(writer, False)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGCHLD, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda _number, _frame: None)
        return reader

    def _become_rank(self, gate: int) -> NoReturn:
        """In the child. Like Docker's init: 127 for a program that is not there, 126 for one that cannot run."""
        status = 126
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # Python ignores it, and an exec would keep that
            # Without the shim its output and its end would be lost: the rank ends with the shim.
            prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            os.setsid()
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            for number, stream in enumerate(self._streams, 1):
                os.dup2(stream.writer, number)
            if os.read(gate, 1):
                os.chdir(self._request["cwd"])
                os.execvpe(self._request["argv"][0], self._request["argv"], self._request["env"])
        except BaseException as error:  # the child's top: nothing may unwind into the shim's own stack
            status = 127 if isinstance(error, FileNotFoundError) else 126
            os.write(2, f"cannot be started: {error}\n".encode())
        finally:
            os._exit(status)

    def keep(self) -> None:
        """Until the rank's first process has ended, and everything else of it was ended."""
        sources: list[Any] = [self._signals, *self._streams]
        while self._status is None:
            left = None if self._kill_at is None else max(0.0, self._kill_at - time.monotonic())
            for source in select.select(sources, [], [], left)[0]:
                if source == self._signals:
                    self._take_signals()
                elif not source.read():
                    sources.remove(source)
            if self._kill_at is not None and time.monotonic() >= self._kill_at and self._status is None:
                os.kill(self._pid, signal.SIGKILL)
                self._kill_at = None
        ended = now()
        self._end_the_rest()
        for stream in self._streams:
            stream.finish()
        code = os.waitstatus_to_exitcode(self._status)  # negative for a signal
        self._write(exit_code=code if code >= 0 else 128 - code, finished_at=ended)

    def _take_signals(self) -> None:
        taken = os.read(self._signals, 4096)
        while self._status is None and (ended := os.waitpid(-1, os.WNOHANG))[0]:
            self._status = ended[1] if ended[0] == self._pid else None
        if signal.SIGTERM in taken and self._status is None:
            self._stop()

    def _stop(self) -> None:
        """Sends SIGTERM to the first process alone, as Docker does: an engine ends its own children in its own order."""
        kill_at = time.monotonic() + self._grace_s()
        self._kill_at = kill_at if self._kill_at is None else min(self._kill_at, kill_at)
        os.kill(self._pid, signal.SIGTERM)

    def _grace_s(self) -> float:
        try:
            with open(os.path.join(self._folder, GRACE), encoding="ascii") as file:
                return float(file.read())
        except (OSError, ValueError):  # a signal by hand, without the file
            return GRACE_S

    def _end_the_rest(self) -> None:
        """SIGKILL to all children until there is none: those of a killed one become ours. A pid of ours is never reused
        before it is waited for, so none of this can hit a stranger."""
        while True:
            for pid in children():
                os.kill(pid, signal.SIGKILL)
            try:
                os.waitpid(-1, 0)
            except ChildProcessError:
                return


def children() -> list[int]:
    found, own = [], str(os.getpid())
    for name in os.listdir("/proc"):
        try:
            if name.isdigit() and stat_of(name)[1] == own:
                found.append(int(name))
        except (FileNotFoundError, ProcessLookupError):
            continue  # ended while we looked
    return found


if __name__ == "__main__":
    sys.exit(main())
