"""A program of this node -> the Python that runs it, and stamps of what is installed there: another one has others.

`python PATH` first, nothing where there is none; then `MTIME_NS SIZE PATH` for the program, for its Python, and for each of
`files` in every folder of packages that this Python looks into: those of its venv (or prefix), of `user`, and of `path`.
`files` are patterns below such a folder: a record that every installation writes anew, and sources that people patch.
"""

from __future__ import annotations

import os
import pwd
import re
from typing import Any, Iterator, Mapping, Optional, Sequence

from sparkd.node import arguments, patience, regular, shebang
from sparkd.node.probes import paths

FILE = re.compile(r"[\w.*-]+(/[\w.*-]+)*")
PACKAGES = ("lib*/python3*/site-packages", "lib*/python3*/dist-packages", "local/lib*/python3*/dist-packages")
MAX_STAMPS = 200
MAX_PTH, MAX_PTH_BYTES = 200, 8192


def probe(args: Mapping[str, Any], deadline_s: float) -> str:
    """Programs, packages and what `.pth` files name are people's own: on a dead mount this look is left behind."""
    first = next(iter(arguments.items(args, "programs", paths.ABSOLUTE)), "/")
    return patience.answered(first, lambda _: _look(args), deadline_s * 0.9)


def _look(args: Mapping[str, Any]) -> str:
    candidates = arguments.items(args, "programs", paths.ABSOLUTE)
    folders = arguments.items(args, "folders", paths.ABSOLUTE)
    program = _first(candidates)
    python = None if program is None else _python(program, folders)
    if program is None or python is None:
        return ""
    places = [*arguments.items(args, "path", paths.ABSOLUTE), *_packages(python, arguments.text(args, "user"))]
    places += [one for place in places for one in _linked(place)]
    files = arguments.items(args, "files", FILE)
    stamped = [
        program,
        python,
        *(found for place in places for name in files for found in regular.matching(place, name)),
    ]
    return f"python {python}\n" + "".join(map(_stamp, list(dict.fromkeys(stamped))[:MAX_STAMPS]))


def _python(program: str, folders: Sequence[str]) -> Optional[str]:
    """As it is named: a venv's is a link that must not be followed."""
    if shebang.PYTHON.fullmatch(os.path.basename(program)):
        return program
    named = shebang.interpreter(regular.beginning(program, shebang.MOST_CHARS).decode("utf-8", "replace"))
    if named is None:
        return None
    return _first([named] if named.startswith("/") else [os.path.join(folder, named) for folder in folders])


def _first(candidates: Sequence[str]) -> Optional[str]:
    return next((path for path in candidates if os.path.isfile(path)), None)


def _packages(python: str, user: str) -> Iterator[str]:
    prefix = os.path.dirname(os.path.dirname(python))
    yield from (found for pattern in PACKAGES for found in regular.matching(prefix, pattern))
    try:
        yield from regular.matching(pwd.getpwnam(user).pw_dir, ".local/lib/python3*/site-packages")
    except KeyError:  # it is for the check of users to say that there is none
        return


def _linked(place: str) -> Iterator[str]:
    """Folders that a `.pth` file adds to this one: where the sources of an editable installation are."""
    for path in regular.matching(place, "*.pth", MAX_PTH):
        try:
            lines = regular.beginning(path, MAX_PTH_BYTES).decode("utf-8", "replace").splitlines()
        except OSError:  # a FIFO of that name, or one that went: no Python starts with it either
            continue
        yield from (line for line in lines if line.startswith("/") and os.path.isdir(line))


def _stamp(path: str) -> str:
    try:
        found = os.stat(path)
    except OSError:  # replaced while we look: another stamp, and the next look has the right one
        return f"- - {path}\n"
    return f"{found.st_mtime_ns} {found.st_size} {path}\n"
