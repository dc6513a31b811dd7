"""The owner id: kept in the journal and in a file beside it, so that sparkd has the same id after the journal was damaged.

Every node service remembers it and refuses a sparkd with another id (rule 9).
"""

from __future__ import annotations

import os
import uuid
from pathlib import Path

from sparkd.journal.spare import private
from sparkd.node import regular

MOST_BYTES = 1000


def owner_id(path: Path, known: str | None) -> str:
    """The id from the journal (`known`), else from the file, else a new one; on the disk when this returns.

    Raises OSError when a new one cannot be kept: an id that is forgotten would lock the next sparkd out of its nodes.
    """
    kept, known = _kept(path), _valid(known)
    owner = known or kept or str(uuid.uuid4())
    if owner != kept:
        try:
            _keep(path, owner)
        except OSError:
            if not known:
                raise
            # the journal has it; the file is only the spare
    return owner


def _kept(path: Path) -> str | None:
    try:
        return _valid(regular.read(str(path), MOST_BYTES).decode().strip())
    except (OSError, ValueError):  # none yet, or something else lies there: the journal's word counts
        return None


def _valid(word: str | None) -> str | None:
    """A damaged journal may hold anything; what is no id must not lock us out of our nodes."""
    try:
        return str(uuid.UUID(word)) if word else None
    except ValueError:
        return None


def _keep(path: Path, owner: str) -> None:
    partial = path.with_name(f"{path.name}.new")
    partial.unlink(missing_ok=True)  # whatever that is
    fd = private(str(partial), os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    try:
        os.write(fd, f"{owner}\n".encode())
        os.fsync(fd)
    finally:
        os.close(fd)
    partial.rename(path)
