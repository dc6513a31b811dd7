"""The log files of a shim -> lines with time and stream."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import BinaryIO

from sparkd.runtimes.logs import LogLine
from sparkd.runtimes.shim_main import LOG

MAX_LINES, MAX_BYTES = 10_000, 1 << 20
"""Of one answer, as for Docker's logs."""


def last(folder: Path, tail: int, since: float | None) -> tuple[LogLine, ...]:
    """The last `tail` lines, at most 1 MiB of them. Raises OSError."""
    lines: list[LogLine] = []
    left = MAX_BYTES
    chunks: list[bytes] = []
    for file in _newest_first(folder):
        chunks.append(_end_of(file, left))
        left -= len(chunks[-1])
        if left <= 0:
            break
    for raw in b"".join(reversed(chunks)).split(b"\n"):
        line = parse(raw)
        if line is not None and (since is None or line.at >= since):
            lines.append(line)
    # Rotated more than once while we look, a newer file comes by under the name of an older one.
    lines.sort(key=lambda line: line.at)
    return tuple(lines[-min(tail, MAX_LINES) :]) if tail else ()


def first(folder: Path, most: int) -> tuple[LogLine, ...]:
    """The first lines of the oldest file that is left. Raises OSError."""
    oldest = b""
    for file in _newest_first(folder):
        file.seek(0)
        oldest = file.read(MAX_BYTES)
    return tuple(line for line in map(parse, oldest.split(b"\n")[:most]) if line is not None)


def _newest_first(folder: Path) -> Iterator[BinaryIO]:
    """Each once: a log that is rotated while we look comes by again under its next name, and has none for a moment."""
    seen = set[int]()
    for number in count():
        try:
            file = _open(folder / (f"{LOG}.{number}" if number else LOG))
        except FileNotFoundError:
            if number:
                return
            continue
        with file:
            inode = os.fstat(file.fileno()).st_ino
            if inode not in seen:
                seen.add(inode)
                yield file


def _open(path: Path) -> BinaryIO:
    """A pipe in place of the file has no lines, and is not waited for."""
    return open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK))


def _end_of(file: BinaryIO, limit: int) -> bytes:
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


def _newest(folder: Path) -> BinaryIO:
    """Raises OSError where there is no log."""
    try:
        return _open(folder / LOG)
    except FileNotFoundError:
        return _open(folder / f"{LOG}.1")  # just being rotated


class Tail:
    """New whole lines since the last look, through rotations. Begins at the end of what is there."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / LOG
        self._file = _newest(folder)
        self._file.seek(0, 2)
        self._rest = b""

    def take(self) -> list[LogLine]:
        """Raises OSError."""
        data = self._file.read()
        if (moved := self._moved()) is not None:
            data += self._file.read()  # written before it was moved and after we read
            self._file.close()
            self._file = moved
            data += self._file.read()
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [line for line in map(parse, lines) if line is not None]

    def _moved(self) -> BinaryIO | None:
        """The log of now, where it is another one."""
        try:
            file = _open(self._path)
        except FileNotFoundError:
            return None  # between two names; the next look finds the new one
        if os.fstat(file.fileno()).st_ino != os.fstat(self._file.fileno()).st_ino:
            return file
        file.close()
        return None

    def close(self) -> None:
        self._file.close()
