"""The intents once more, in a small file beside the journal (`path`).

What people wanted must outlive a damaged, emptied or deleted journal (rule 8): without it, what they stopped starts again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

NAME = "intents.json"


def read(path: Path) -> dict[str, str]:
    """Name -> JSON of every intent kept; none where there is no such file or it cannot be read."""
    try:
        found = json.loads(path.with_name(NAME).read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}  # it is only the spare: the file itself is what counts
    return {name: text for name, text in found.items() if isinstance(text, str)} if isinstance(found, dict) else {}


def keep(path: Path, intents: Mapping[str, str]) -> None:
    """All or nothing; raises nothing. One that cannot be brought up to date is taken away: it must not bring back what was undone."""
    spare, partial = path.with_name(NAME), path.with_name(f"{NAME}.new")
    try:
        with open(partial, "w", encoding="utf-8", opener=_private) as file:
            json.dump(intents, file)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(spare)
    except OSError:
        with suppress(OSError):  # the journal has them; both fail together only where nothing can be written at all
            spare.unlink(missing_ok=True)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, 0o600)
