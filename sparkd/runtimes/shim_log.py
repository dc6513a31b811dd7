"""The log files of a shim -> lines with time and stream."""

from __future__ import annotations

import os
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
    """New whole lines since the last look, through rotations. Begins at the end of what is there."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / LOG
        self._file = self._path.open("rb")
        self._file.seek(0, 2)
        self._rest = b""

    def take(self) -> list[LogLine]:
        """Raises OSError."""
        data = self._file.read()
        if self._moved():
            data += self._file.read()  # written before it was moved and after we read
            self._file.close()
            self._file = self._path.open("rb")
            data += self._file.read()
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [line for line in map(parse, lines) if line is not None]

    def _moved(self) -> bool:
        try:
            return self._path.stat().st_ino != os.fstat(self._file.fileno()).st_ino
        except FileNotFoundError:
            return False  # between two names; the next look finds the new one

    def close(self) -> None:
        self._file.close()
