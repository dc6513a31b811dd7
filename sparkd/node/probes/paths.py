"""Paths -> what is there, one `KIND PATH` a line: `dir`, `file`, `other`, `missing`, or `unreadable`.

Links are followed, as Docker follows them for the source of a bind mount.
"""

from __future__ import annotations

import os
import re
import stat
from typing import Any, Mapping

from sparkd.node import arguments

ABSOLUTE = re.compile(r"/[^\n\0]*")


def probe(args: Mapping[str, Any], deadline_s: float) -> str:
    return "".join(f"{_kind(path)} {path}\n" for path in arguments.items(args, "paths", ABSOLUTE))


def _kind(path: str) -> str:
    try:
        mode = os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return "missing"
    except OSError:  # a loop of links, a dead mount: there is something, and a mount of it would fail
        return "unreadable"
    if stat.S_ISDIR(mode):
        return "dir"
    return "file" if stat.S_ISREG(mode) else "other"
