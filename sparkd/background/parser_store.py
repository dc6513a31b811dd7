"""What engines' own parsers answered, kept below the state folder -> the table of each engine that was ever asked.

An answer is kept by what it came from: the id of the image, and a stamp of the mounts where the engine lies in one. So it
counts for every later start of the same engine, and never for another.
"""

from __future__ import annotations

import json
import os
import stat
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from sparkd.engines.flags import FlagTable, parse_table
from sparkd.model.engine_key import EngineKey
from sparkd.node import regular

FOLDER = "parsers"
MOST = 32
"""Answers that are kept, the newest; each has 60 kB."""
MOST_BYTES = 16 << 20
"""Of one file: an engine may say 4 MiB, which as JSON in JSON's most careful spelling are at most three times that."""
SCHEMA = 1


def by_engine(found: Mapping[EngineKey, FlagTable]) -> dict[str, FlagTable]:
    """`EngineKey.id` -> what that engine said, for `engines.tables.Tables`."""
    return {key.id: table for key, table in found.items()}


def read(state: Path) -> dict[EngineKey, FlagTable]:
    """Every answer that is kept, oldest first. Reads the disk: a few files. Never raises; what cannot be read is as if
    it had never been asked."""
    found: dict[EngineKey, FlagTable] = {}
    for path in _files(state / FOLDER):
        try:
            kept = json.loads(regular.read(str(path), MOST_BYTES))
            if kept["schema"] == SCHEMA:
                key = EngineKey(*(str(kept[name]) for name in ("image", "program", "stamp")))
                found[key] = parse_table(json.dumps(kept["table"]), own=True)
        except (OSError, ValueError, LookupError, TypeError, RecursionError):
            continue  # cut off, foreign, or of another version of sparkd: it is asked again
    return found


def keep(state: Path, key: EngineKey, text: str) -> None:
    """Keep a table as its parser printed it. Raises OSError when it cannot be written."""
    folder = state / FOLDER
    folder.mkdir(parents=True, exist_ok=True, mode=0o750)
    names = {"image": key.image_id, "program": key.program, "stamp": key.stamp}
    _write(folder / f"{key.digest}.json", json.dumps({"schema": SCHEMA, **names, "table": json.loads(text)}), state)
    for old in _files(folder)[:-MOST]:
        old.unlink(missing_ok=True)


def _write(file: Path, text: str, state: Path) -> None:
    """Whole or not at all, also where the daemon and `sparkd check` write the same at once: each has a name of its own."""
    fd, partial = tempfile.mkstemp(prefix=f"{file.stem}.", suffix=".new", dir=file.parent)
    try:
        with open(fd, "w", encoding="utf-8") as writing:
            writing.write(text)
            if os.geteuid() == 0:  # `sparkd check` as root: what it keeps must be the daemon's to read and replace
                owner = state.stat()
                os.chown(file.parent, owner.st_uid, owner.st_gid, follow_symlinks=False)
                os.fchown(fd, owner.st_uid, owner.st_gid)
        os.replace(partial, file)
    except BaseException:
        with suppress(OSError):
            os.unlink(partial)  # a full disk must not fill up with what could not be finished
        raise


def _files(folder: Path) -> list[Path]:
    """The oldest first. Only plain files of a size that one may have: a pipe would never end, a device neither."""
    found = []
    try:
        for path in folder.glob("*.json"):
            with suppress(OSError):  # one that goes while we look, or leads nowhere, says nothing of the others
                about = path.stat()
                if stat.S_ISREG(about.st_mode) and about.st_size <= MOST_BYTES:  # else it would count among MOST
                    found.append((about.st_mtime, path))
    except OSError:  # no such folder yet, or one that nobody may look into
        return []
    return [path for _, path in sorted(found)]
