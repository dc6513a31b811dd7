"""DEVICE INODE PATH -> that folder with nothing in it. A program of its own, for a unit that may write there.

People own the folders above a cache: between a look at the path and its emptying they can put a link into it, and root
would delete where that leads. So the path is opened one name at a time, and no link is followed on the way or inside.
They also choose how deep it is: the walk holds one descriptor and one list of names for each folder that it is in, not a
frame, and no path, for 5,000 folders inside one another have a longer one than the kernel takes.
"""

from __future__ import annotations

import os
import sys
from typing import Callable, List, NamedTuple, Optional, Tuple

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

Identity = Tuple[int, int]


class _Level(NamedTuple):
    name: str
    identity: Identity
    inside: List[str]
    """Folders in it that were not yet entered."""


def opened(path: str) -> int:
    """A descriptor of the folder at this absolute path. Raises OSError where a link is on the way."""
    folder = os.open("/", FOLDER)
    for name in filter(None, path.split("/")):
        above = folder
        try:
            folder = os.open(name, FOLDER, dir_fd=above)
        finally:
            os.close(above)
    return folder


def walked(
    folder: int,
    enter: Callable[[int, str], List[str]],
    leave: Callable[[int, str], None],
    missed: Callable[[OSError], None],
) -> None:
    """Enters the folder and all folders below it on the same file system, and leaves them.

    `enter(descriptor, path)` gives the names of those to enter next; `path` is that below the beginning, for words only.
    `leave(above, name)` is called once all in it were left. `missed` hears of each that could not be entered. Errors of
    `enter` and `leave` are raised. Raises OSError where a folder is moved while we are in it: its `..` is another one then.
    """
    here = os.dup(folder)
    try:
        device = os.fstat(here).st_dev
        levels = [_Level("", _identity(here), enter(here, ""))]
        while levels:
            if levels[-1].inside:
                name = levels[-1].inside.pop()
                inner = _entered(here, name, device, missed)
                if inner is None:
                    continue
                os.close(here)
                here = inner
                path = "/".join(level.name for level in levels[1:20])
                levels.append(_Level(name, _identity(here), enter(here, f"{path}/{name}" if path else name)))
                continue
            left = levels.pop()
            if levels:
                above = os.open("..", FOLDER, dir_fd=here)
                os.close(here)
                here = above
                if _identity(here) != levels[-1].identity:
                    raise OSError(f"{left.name[:100]} was moved meanwhile")
                leave(here, left.name)
    finally:
        os.close(here)


def _entered(above: int, name: str, device: int, missed: Callable[[OSError], None]) -> Optional[int]:
    try:
        inner = os.open(name, FOLDER, dir_fd=above)
    except FileNotFoundError:  # an engine that compiles makes and removes files all the time
        return None
    except OSError as error:
        missed(error)
        return None
    if os.fstat(inner).st_dev == device:
        return inner
    os.close(inner)
    return None


def _identity(folder: int) -> Identity:
    status = os.fstat(folder)
    return status.st_dev, status.st_ino


def emptied(folder: int) -> Optional[OSError]:
    """Removes all that is in it, but for other file systems. What could not be removed is passed over; the first error."""
    troubles: List[OSError] = []

    def trouble(error: OSError) -> None:
        if not troubles and not isinstance(error, FileNotFoundError):
            troubles.append(error)

    def enter(here: int, path: str) -> List[str]:
        inside: List[str] = []
        with os.scandir(here) as entries:
            for entry in entries:  # removed as they are read: a list of all names may fill the memory
                try:
                    if entry.is_dir(follow_symlinks=False):
                        inside.append(entry.name)
                    else:
                        os.unlink(entry.name, dir_fd=here)
                except OSError as error:
                    trouble(error)
        return inside

    def leave(above: int, name: str) -> None:
        try:
            os.rmdir(name, dir_fd=above)
        except OSError as error:
            trouble(error)

    walked(folder, enter, leave, trouble)
    return troubles[0] if troubles else None


def main(device: str, inode: str, path: str) -> None:
    """Raises OSError for another folder than that, and the first trouble where something could not be removed."""
    folder = opened(path)
    if _identity(folder) != (int(device), int(inode)):
        raise OSError(f"{path} is another folder than a moment ago")
    trouble = emptied(folder)
    if trouble is not None:
        raise trouble


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except OSError as error:
        sys.exit(str(error))
