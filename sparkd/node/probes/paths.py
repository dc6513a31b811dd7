"""Paths -> what is there, one `KIND PATH` a line: `dir`, `file`, `other`, `missing`, `unreadable`, or `no-interpreter`.

Links are followed, as Docker follows them for the source of a bind mount. What does not answer, below a dead mount, is
`unreadable`. `no-interpreter` is a script whose first line
names a program that is not there: of a venv, when the Python that it was made with is gone.
"""

from __future__ import annotations

import os
import re
import stat
from typing import Any, Mapping, Optional

from sparkd.node import arguments, patience, regular

ABSOLUTE = re.compile(r"/[^\n\0]*")


def probe(args: Mapping[str, Any], deadline_s: float) -> str:
    found = patience.looked(arguments.items(args, "paths", ABSOLUTE), kind)
    return "".join(f"{answer or 'unreadable'} {path}\n" for path, answer in found.items())


def kind(path: str) -> str:
    try:
        mode = os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return "missing"
    except OSError:  # a loop of links, a dead mount: there is something, and a mount of it would fail
        return "unreadable"
    if stat.S_ISDIR(mode):
        return "dir"
    if not stat.S_ISREG(mode):
        return "other"
    named = interpreter(path)
    return "file" if named is None or os.path.exists(named) else "no-interpreter"


def interpreter(path: str) -> Optional[str]:
    """What the first line of a script names, as the kernel reads it; None for any other file."""
    try:
        line = regular.beginning(path, 256).partition(b"\n")[0]
    except OSError:  # not even root may read it (NFS): it is there, and what it holds is for its user to find out
        return None
    words = line[2:].split()
    return os.fsdecode(words[0]) if line.startswith(b"#!") and words else None
