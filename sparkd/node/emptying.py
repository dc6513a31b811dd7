"""DEVICE INODE PATH -> that folder with nothing in it. A program of its own, for a unit that may write there.

People own the folders above a cache: between a look at the path and its emptying they can put a link into it, and root
would delete where that leads. So the path is opened one name at a time, and no link is followed on the way or inside.
"""

from __future__ import annotations

import os
import sys
from typing import Iterator

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


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


def emptied(folder: int, device: int) -> Iterator[OSError]:
    """Removes all that is in it, but for other file systems; yields what could not be, and goes on."""
    with os.scandir(folder) as entries:
        found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    for name, is_folder in found:
        try:
            if not is_folder:
                os.unlink(name, dir_fd=folder)
                continue
            inner = os.open(name, FOLDER, dir_fd=folder)
            try:
                if os.fstat(inner).st_dev != device:
                    continue
                yield from emptied(inner, device)
            finally:
                os.close(inner)
            os.rmdir(name, dir_fd=folder)
        except FileNotFoundError:  # an engine that compiles makes and removes files all the time
            continue
        except OSError as error:
            yield error


def main(device: str, inode: str, path: str) -> None:
    """Raises OSError for another folder than that, and the first trouble where something could not be removed."""
    folder = opened(path)
    status = os.fstat(folder)
    if (status.st_dev, status.st_ino) != (int(device), int(inode)):
        raise OSError(f"{path} is another folder than a moment ago")
    troubles = list(emptied(folder, status.st_dev))
    if troubles:
        raise troubles[0]


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except OSError as error:
        sys.exit(str(error))
