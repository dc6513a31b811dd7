"""What to do about a difference, as one sentence that can be followed."""

from __future__ import annotations

import json
import shlex
from typing import Any

from sparkd.drift.argv import spelled
from sparkd.drift.values import NotJson

_BY_KIND = {
    "image": "create the ranks from {known} again",
    "host": "bring it back to {known}, or record a new known-good",
    "file": "restore the file, or record a new known-good",
}


def fix(kind: str, name: str, known: Any, live: Any) -> str:
    if kind == "flag":
        return _flag(name, known, live)
    if kind == "env":
        return f"unset {name}" if known is None else f"set {name}={shlex.quote(str(known))}"
    if kind == "unit":
        return f"remove {name}=" if known is None else f"write {name}={known}"
    if name.startswith("mount "):
        target = name.removeprefix("mount ")
        return f"mount nothing at {target}" if known is None else f"mount {known} at {target}"
    if kind == "container":
        return f"create it without {name}" if known is None else f"create it with {name}: {short(known)}"
    return _BY_KIND[kind].format(known=short(known))


def _flag(name: str, known: Any, live: Any) -> str:
    if name in ("model", "command"):
        return f"give {short(known)} again"
    if isinstance(live, NotJson):
        return "give the command as an argument vector, or in a script file: JSON does not survive a second shell"
    bare = name.removeprefix("--")
    if known is not None:
        return f"give `{shlex.join(spelled(bare, known))}` again"
    return f"leave `{'--no-' + bare if live is False else name}` out"


def short(value: Any) -> str:
    """A value on one line."""
    if value is None:
        return "nothing"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def image(name: str) -> str:
    """`docker.io/library/x` and `x:latest` are one reference."""
    bare = name.removeprefix("docker.io/").removeprefix("library/")
    return bare if "@" in bare or ":" in bare.rpartition("/")[2] else f"{bare}:latest"
