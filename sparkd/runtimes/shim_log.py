"""The log files of a shim -> lines with time and stream."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from pathlib import Path

from sparkd.runtimes.logs import LogLine
from sparkd.runtimes.shim_main import LOG

MAX_LINES, MAX_BYTES = 10_000, 1 << 20
"""Of one answer, as for Docker's logs."""


def last(folder: Path, tail: int, since: float | None) -> tuple[LogLine, ...]:
    """The last `tail` lines, at most 1 MiB of them. Raises OSError."""
    lines: deque[LogLine] = deque(maxlen=min(tail, MAX_LINES))
    left = MAX_BYTES
    chunks: list[bytes] = []
    for path in _newest_first(folder):
        chunks.append(_end_of(path, left))
        left -= len(chunks[-1])
        if left <= 0:
            break
    for raw in b"".join(reversed(chunks)).split(b"\n"):
        line = parse(raw)
        if line is not None and (since is None or line.at >= since):
            lines.append(line)
    return tuple(lines)


def _newest_first(folder: Path) -> Iterator[Path]:
    """Those that exist: a log that is rotated at this moment is under its next name."""
    path, number = folder / LOG, 0
    while path.exists() or number == 0:
        if path.exists():
            yield path
        number += 1
        path = folder / f"{LOG}.{number}"


def _end_of(path: Path, limit: int) -> bytes:
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - limit))
        return file.read()


def parse(raw: bytes) -> LogLine | None:
    """None for a line that was cut, by the limit or by the end of a disk."""
    at, _, rest = raw.decode("utf-8", "replace").partition(" ")
    stream, space, text = rest.partition(" ")
    try:
        return LogLine(float(at), stream, text.rstrip("\r")) if space and stream in ("stdout", "stderr") else None
    except ValueError:
        return None


class Tail:
    """New whole lines since the last look, through rotations."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / LOG
        self._inode = 0
        self._position = 0
        self._rest = b""

    def to_end(self) -> None:
        """Skips what is there."""
        try:
            status = self._path.stat()
        except FileNotFoundError:
            return  # not written yet: all of it is new
        self._inode, self._position = status.st_ino, status.st_size

    def take(self) -> list[LogLine]:
        """Raises OSError, but not for a log that is just being rotated."""
        data = b""
        try:
            with self._path.open("rb") as file:
                data = self._unread(file.fileno())
        except FileNotFoundError:
            return []  # between two names
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [line for line in map(parse, lines) if line is not None]
