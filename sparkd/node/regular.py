"""Paths that another user may have put there -> their bytes or names, never more than is asked for, never waited for.

The owner of a folder chooses what lies in it: a FIFO in place of a file has no end and no beginning, /dev/zero has
no end, a sparse file has gigabytes that were never written, a file grows while it is read, a folder holds millions of names.
"""

from __future__ import annotations

import errno
import os
import stat
from fnmatch import fnmatchcase
from typing import Iterator, List

FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
"""Not blocking: opening a FIFO without a writer would wait until there is one."""
CHUNK_BYTES = 1 << 20
MOST_NAMES = 20_000
"""Of one folder. A hub's snapshot has some hundreds, the packages of an engine about a thousand."""
KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


class _Refused(OSError):
    """`strerror` says why, in words that follow the path."""

    def __str__(self) -> str:
        return f"{self.filename}: {self.strerror}"


class NotRegular(_Refused):
    """It is something else than a regular file."""


class TooMuch(_Refused):
    """It holds more than was asked for."""


def opened(path: str) -> int:
    """A descriptor of a regular file; links are followed. Raises OSError, NotRegular among them.

    Looked at before it is opened, since to open some devices is an act (a watchdog begins to count), and after it, since
    it may be another one by then.
    """
    _check(path, os.stat(path).st_mode)
    descriptor = os.open(path, FLAGS)
    try:
        _check(path, os.fstat(descriptor).st_mode)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def beginning(path: str, most_bytes: int) -> bytes:
    """At most so many bytes of a regular file, whatever its size. Raises OSError."""
    descriptor = opened(path)
    try:
        return b"".join(_parts(descriptor, most_bytes))
    finally:
        os.close(descriptor)


def read(path: str, most_bytes: int) -> bytes:
    """All of a regular file. Raises OSError, and TooMuch once one byte more than that was read: no size is believed, for
    files of /proc have none and others grow."""
    found = beginning(path, most_bytes + 1)
    if len(found) > most_bytes:
        raise TooMuch(errno.EFBIG, f"it is larger than {_size(most_bytes)}", path)
    return found


def names(folder: str, most: int = MOST_NAMES) -> List[str]:
    """What is in a folder, in order. Raises OSError, and TooMuch for more entries than that."""
    found: List[str] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            found.append(entry.name)
            if len(found) > most:
                raise TooMuch(errno.EFBIG, f"it holds more than {most} entries", folder)
    return sorted(found)


def matching(folder: str, pattern: str, most: int = MOST_NAMES) -> List[str]:
    """As `glob` finds it below the folder, in order, hidden names left out; what cannot be looked into holds nothing.

    Raises TooMuch for more than `most`, where a folder on the way holds more than MOST_NAMES entries, and where all of them
    together do ten times as much: thousands of links to one full folder cost their owner next to nothing.
    """
    found, looked = [folder], 0
    for part in pattern.split("/"):
        inside: List[str] = []
        for base in found:
            there = _inside(base, part)
            looked += len(there)
            inside += [f"{base}/{name}" for name in there if name == part or _fits(name, part)]
            if len(inside) > most or looked > 10 * MOST_NAMES:
                raise TooMuch(errno.EFBIG, f"it holds more than {most} of {pattern}, or too much beside them", folder)
        found = inside
    return sorted(found)


def _inside(folder: str, part: str) -> List[str]:
    """The names that may fit this part of a pattern."""
    if not set("*?[") & set(part):
        return [part] if os.path.lexists(f"{folder}/{part}") else []
    try:
        return names(folder)
    except TooMuch:
        raise
    except OSError:
        return []


def _fits(name: str, part: str) -> bool:
    return name[0] != "." and fnmatchcase(name, part)


def _check(path: str, mode: int) -> None:
    if not stat.S_ISREG(mode):
        kind = next((words for is_one, words in KINDS if is_one(mode)), "something else")
        number = errno.EISDIR if stat.S_ISDIR(mode) else errno.EINVAL
        raise NotRegular(number, f"it is {kind}, not a regular file", path)


def _parts(descriptor: int, most_bytes: int) -> Iterator[bytes]:
    while most_bytes > 0:
        part = os.read(descriptor, min(most_bytes, CHUNK_BYTES))
        if not part:
            return
        most_bytes -= len(part)
        yield part


def _size(count: int) -> str:
    return f"{count >> 20} MiB" if count >= 1 << 20 else f"{count >> 10} KiB" if count >= 1 << 10 else f"{count} bytes"
