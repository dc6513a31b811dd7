"""What engines' own parsers answered, kept below the state folder -> the table of each engine that was ever asked.

An answer is kept by what it came from: the id of the image, and a stamp of the mounts where the engine lies in one. So it
counts for every later start of the same engine, and never for another.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from sparkd.engines.flags import FlagTable, parse_table
from sparkd.model.engine_key import EngineKey

FOLDER = "parsers"
MOST = 32
"""Answers that are kept, the newest; each has 60 kB."""
SCHEMA = 1


def by_image(found: Mapping[EngineKey, FlagTable]) -> dict[str, FlagTable]:
    """Image id -> what its own engine said, for `engines.flags.table_for`; without those that depend on mounts."""
    return {key.image_id: table for key, table in found.items() if not key.stamp}


def read(state: Path) -> dict[EngineKey, FlagTable]:
    """Every answer that is kept, oldest first. Reads the disk: a few files. Never raises; what cannot be read is as if
    it had never been asked."""
    found: dict[EngineKey, FlagTable] = {}
    for path in _files(state / FOLDER):
        try:
            kept = json.loads(path.read_text("utf-8"))
            if kept["schema"] == SCHEMA:
                key = EngineKey(*(str(kept[name]) for name in ("image", "program", "stamp")))
                found[key] = parse_table(json.dumps(kept["table"]), own=True)
        except (OSError, ValueError, LookupError, TypeError):
            continue  # cut off, or of another version of sparkd: it is asked again
    return found


def keep(state: Path, key: EngineKey, text: str) -> None:
    """Keep a table as its parser printed it. Raises OSError when it cannot be written."""
    folder = state / FOLDER
    folder.mkdir(parents=True, exist_ok=True, mode=0o750)
    names = {"image": key.image_id, "program": key.program, "stamp": key.stamp}
    file = folder / f"{key.digest}.json"
    partial = file.with_suffix(".new")
    partial.write_text(json.dumps({"schema": SCHEMA, **names, "table": json.loads(text)}), "utf-8")
    if os.geteuid() == 0:  # `sparkd check` as root: what it keeps must be the daemon's to read and replace
        owner = state.stat()
        for one in (folder, partial):
            os.chown(one, owner.st_uid, owner.st_gid)
    os.replace(partial, file)
    for old in _files(folder)[:-MOST]:
        old.unlink(missing_ok=True)


def _files(folder: Path) -> list[Path]:
    """The oldest first."""
    try:
        return sorted(folder.glob("*.json"), key=lambda path: path.stat().st_mtime)
    except OSError:  # no such folder yet, or one that went while we looked
        return []
