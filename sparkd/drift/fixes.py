"""What to do about a difference, as one sentence that can be followed."""

from __future__ import annotations

import shlex
from typing import Any

from sparkd.base.one_line import escaped
from sparkd.drift.argv import spelled
from sparkd.drift.values import NotJson
from sparkd.model.words import short

WHOLE_JSON = "give the command as an argument vector, or in a script file: JSON does not survive a second shell"

_BY_KIND = {
    "image": "create the ranks from {known} again",
    "host": "bring it back to {known}, or record a new known-good",
}


def fix(kind: str, name: str, known: Any, live: Any) -> str:
    if kind == "flag":
        return _flag(name, known, live)
    if kind == "env":
        return f"unset {name}" if known is None else f"set {name}={_quoted(str(known))}"
    if kind == "unit" and " " in name:
        said = "this was not in it when it worked" if known is None else f"it said {short(known)}"
        return f"look at {name.partition(' ')[0]}: {said}"
    if kind == "unit":
        return f"remove {name}=" if known is None else f"write {name}={known}"
    if name.startswith("mount "):
        target = name.removeprefix("mount ")
        return f"mount nothing at {target}" if known is None else f"mount {known} at {target}"
    if kind == "container":
        return f"create it without {name}" if known is None else f"create it with {name}: {short(known)}"
    if kind == "file":
        return _file(name, known)
    return _BY_KIND[kind].format(known=short(known))


def _flag(name: str, known: Any, live: Any) -> str:
    if name in ("model", "command"):
        return f"give {short(known)} again"
    if isinstance(live, NotJson):
        return WHOLE_JSON
    bare = name.removeprefix("--")
    if known is not None:
        return f"give `{' '.join(map(_quoted, spelled(bare, known)))}` again"
    return f"leave `{'--no-' + bare if live is False else name}` out"


def _quoted(text: str) -> str:
    """For a shell; what is invisible or would not survive being copied is an escape, as bash reads it."""
    if text.isprintable():
        return shlex.quote(text)
    plain = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"$'{escaped(plain)}'"


def _file(name: str, known: Any) -> str:
    what, _, rest = name.partition(" ")
    if what in _FILES:
        return _FILES[what].format(rest=rest, known=short(known))
    return "restore the file, or record a new known-good"


_FILES = {
    "marker": "build the image anew from its base, with the mod applied once",
    "model": "restore {rest} of the model, on every node",
    "hash": "restore {rest} of the model from where it is right: rsync -a --checksum",
    "cache": "nothing: it fills while it serves; or copy it from the other node",
    "changed": "bake it into an image, or create the container again",
    "build": "create the ranks from the image with {rest} {known} again",
    "library": "create the ranks from the image that worked, or install that build of {rest} again",
    "program": "start {known} again",
}
"""First word of the name of a finding about files -> what to do."""


def image(name: str) -> str:
    """`docker.io/library/x` and `x:latest` are one reference."""
    bare = name.removeprefix("docker.io/").removeprefix("library/")
    return bare if "@" in bare or ":" in bare.rpartition("/")[2] else f"{bare}:latest"
