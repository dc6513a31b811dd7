"""What somebody may put in the place of a file or a folder, for tests that look at it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

SPARSE_BYTES = 3 << 30
DEEP = 5000


def fifo(path: Path) -> None:
    os.mkfifo(path)


def endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


def sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(SPARSE_BYTES)


def folder(path: Path) -> None:
    path.mkdir()


def dangling(path: Path) -> None:
    path.symlink_to(path.with_name("gone"))


def loop(path: Path) -> None:
    path.symlink_to(path)


ODD: tuple[Callable[[Path], None], ...] = (fifo, endless, sparse, folder, dangling, loop)


@contextmanager
def counted_reads() -> Iterator[Callable[[], int]]:
    """Gives what this process has read with read(2) since."""
    began = _read()
    yield lambda: _read() - began


def _read() -> int:
    lines = Path("/proc/self/io").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("rchar"))


@contextmanager
def nested(top: Path, name: str = "d", depth: int = DEEP) -> Iterator[Path]:
    """Folders inside one another, too deep for any path; the innermost holds a file of 4 KiB."""
    top.mkdir()
    here = os.open(top, os.O_RDONLY | os.O_DIRECTORY)
    for _ in range(depth):
        os.mkdir(name, dir_fd=here)
        inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY, dir_fd=here)
        os.close(here)
        here = inner
    descriptor = os.open("file", os.O_WRONLY | os.O_CREAT, 0o600, dir_fd=here)
    os.write(descriptor, b"x" * 4096)
    os.close(descriptor)
    os.close(here)
    try:
        yield top
    finally:
        _remove(top)


def _remove(top: Path) -> None:
    """Each inner folder takes the place of its outer one, so that no path grows."""
    (top / "file").unlink(missing_ok=True)
    while outer := next(top.iterdir(), None):
        lifted = [(each, top / f"{each.name}.lifted") for each in outer.iterdir()]
        for each, place in lifted:
            each.rename(place)
        outer.rmdir()
        for each, place in lifted:
            if place.is_dir():
                place.rename(top / each.name)
            else:
                place.unlink()
