"""Folders -> what each holds, one `BYTES FILES PATH` a line; `missing PATH` and `unreadable PATH` for the others."""

from __future__ import annotations

from typing import Any, Mapping

from sparkd.node import arguments, folders
from sparkd.node.probes.paths import ABSOLUTE


def probe(args: Mapping[str, Any], deadline_s: float) -> str:
    paths = arguments.items(args, "paths", ABSOLUTE)
    return "".join(f"{_held(path, deadline_s / max(1, len(paths)))} {path}\n" for path in paths)


def _held(path: str, deadline_s: float) -> str:
    try:
        found = folders.held(path, deadline_s)
    except (FileNotFoundError, NotADirectoryError):
        return "missing"
    except (OSError, TimeoutError):
        return "unreadable"
    return f"{found.bytes} {found.files}"
