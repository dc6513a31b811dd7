"""Folders -> what each holds, one `BYTES FILES PATH` a line; `missing PATH` and `unreadable PATH` for the others."""

from __future__ import annotations

from typing import Any, Mapping

from sparkd.node import arguments, folders, patience
from sparkd.node.probes.paths import ABSOLUTE


def probe(args: Mapping[str, Any], deadline_s: float) -> str:
    paths = arguments.items(args, "paths", ABSOLUTE)
    each_s = deadline_s / max(1, len(paths)) * 0.9
    found = patience.looked(paths, lambda path: _held(path, each_s), each_s + 0.5)  # a dead mount's does not come back
    return "".join(f"{found[path] or 'unreadable'} {path}\n" for path in paths)


def _held(path: str, deadline_s: float) -> str:
    try:
        found = folders.held(path, deadline_s)
    except (FileNotFoundError, NotADirectoryError):
        return "missing"
    except OSError:
        return "unreadable"
    return f"{found.bytes} {found.files}"
