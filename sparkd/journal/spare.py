"""Intents and states once more, each in a small file beside the journal (`path`).

What people wanted must outlive a damaged, emptied or deleted journal (rule 8): without it, what they stopped starts again. With
its state a deployment keeps its generation, below which no start may fall (rule 4).
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from sparkd.journal.rows import TWICE, Copy, Row
from sparkd.journal.values import text
from sparkd.node import regular

NAMES = {table: f"{table}.json" for table in TWICE}
MOST_BYTES = 64 << 20
KEPT = ""
"""In place of a name: name -> number and checksum of its row. A sparkd that knows of neither passes over it."""


def read(path: Path, table: str) -> Copy | None:
    """The rows kept; None where there is no such file."""
    try:
        found = json.loads(regular.read(str(path.with_name(NAMES[table])), MOST_BYTES))
        kept = found.pop(KEPT, {})
        rows = {name: Row(text(said), *kept.get(name, (None, None))) for name, said in found.items()}
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        return Copy(unread=True)
    copy = Copy()
    for name, one in rows.items():
        copy.add(table, name, one)
    # One that is named here and has no row, its name flipped perhaps, is damaged too.
    copy.damaged |= kept.keys() - rows.keys()
    return copy


def holds(path: Path, table: str) -> bool:
    """Is there anything in it, or may there be?"""
    found = read(path, table)
    return found is not None and bool(found.rows or found.damaged or found.unread)


def keep(path: Path, table: str, rows: Mapping[str, Row]) -> None:
    """All or nothing; raises nothing. One that cannot be brought up to date is taken away: it must not bring back what was undone."""
    spare, partial = path.with_name(NAMES[table]), path.with_name(f"{NAMES[table]}.new")
    said = {name: one.text for name, one in rows.items()}
    try:
        partial.unlink(missing_ok=True)  # whatever that is: opening a FIFO would wait for a reader
        with open(partial, "x", encoding="utf-8", opener=private) as file:
            json.dump({**said, KEPT: {name: (one.number, one.sum) for name, one in rows.items()}}, file)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(spare)
    except OSError:
        with suppress(OSError):  # the journal has them; both fail together only where nothing can be written at all
            spare.unlink(missing_ok=True)


def private(path: str, flags: int) -> int:
    """Opens with mode 0600, whatever the umask is and whatever mode the file had."""
    fd = os.open(path, flags | os.O_CLOEXEC, 0o600)
    os.fchmod(fd, 0o600)
    return fd
