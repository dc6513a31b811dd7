"""What engines' own parsers answered, kept below the state folder -> the table of each engine that was ever asked.

An answer is kept by what it came from: the id of the image, and a stamp of the mounts where the engine lies in one. So it
counts for every later start of the same engine, and never for another.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from sparkd.engines.flags import FlagTable, parse_table

FOLDER = "parsers"
MOST = 32
"""Answers that are kept, the newest; each has 60 kB."""
SCHEMA = 1


@dataclass(frozen=True, slots=True)
class EngineKey:
    """One engine as it lies on the disk: an image's own, or, with a `stamp`, what an image and its mounts are together."""

    image_id: str
    program: str = ""
    """The command's first word: an image may hold two engines."""
    stamp: str = ""

    @property
    def file(self) -> str:
        said = "\n".join((self.image_id, self.program, self.stamp))
        return f"{sha256(said.encode()).hexdigest()[:32]}.json"


def by_image(state: Path) -> dict[str, FlagTable]:
    """Image id -> what its own engine said, for `engines.flags.table_for`; without those that depend on mounts.

    Reads the disk: a few files. Never raises; what cannot be read is as if it had never been asked.
    """
    return {key.image_id: table for key, table in read(state).items() if not key.stamp}


def read(state: Path) -> dict[EngineKey, FlagTable]:
    """Every answer that is kept, oldest first."""
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


def keep(state: Path, key: EngineKey, text: str) -> FlagTable:
    """Keep what a parser printed. Raises ValueError when that is no table, OSError when it cannot be written."""
    table = parse_table(text, own=True)
    folder = state / FOLDER
    folder.mkdir(parents=True, exist_ok=True, mode=0o750)
    names = {"image": key.image_id, "program": key.program, "stamp": key.stamp}
    partial = folder / f"{key.file}.new"
    partial.write_text(json.dumps({"schema": SCHEMA, **names, "table": json.loads(text)}), "utf-8")
    os.replace(partial, folder / key.file)
    for old in _files(folder)[:-MOST]:
        old.unlink(missing_ok=True)
    return table


def _files(folder: Path) -> list[Path]:
    """The oldest first."""
    try:
        return sorted(folder.glob("*.json"), key=lambda path: path.stat().st_mtime)
    except OSError:  # no such folder yet, or one that went while we looked
        return []
