"""User names -> `NAME UID`, or `NAME missing`, one a line."""

from __future__ import annotations

import pwd
import re
from typing import Any, Mapping

from sparkd.node import arguments

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")


def probe(args: Mapping[str, Any], deadline_s: float) -> str:
    return "".join(f"{name} {_uid(name)}\n" for name in arguments.items(args, "names", NAME))


def _uid(name: str) -> str:
    try:
        return str(pwd.getpwnam(name).pw_uid)
    except KeyError:
        return "missing"
