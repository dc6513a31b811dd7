"""A program of this node -> the Python that runs it, and stamps of what is installed there: another one has others.

`python PATH` first, nothing where there is none; then `MTIME_NS SIZE PATH` for the program, for its Python, and for each of
`files` in every folder of packages that this Python looks into: those of its venv (or prefix), of `user`, and of `path`.
`files` are patterns below such a folder: a record that every installation writes anew, and sources that people patch.
"""

from __future__ import annotations

import errno
import os
import pwd
import re
import time
from itertools import chain
from typing import Any, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence

from sparkd.node import arguments, patience, regular, shebang
from sparkd.node.probes import paths

FILE = re.compile(r"[\w.*-]+(/[\w.*-]+)*")
PACKAGES = ("lib*/python3*/site-packages", "lib*/python3*/dist-packages", "local/lib*/python3*/dist-packages")
MAX_STAMPS = 200
MAX_PLACES = 200
"""Folders of packages. A `.pth` file that names the same one a thousand times, or a thousand others, is no installation."""
MAX_PTH, MAX_PTH_BYTES = 200, 8192


def probe(args: Mapping[str, Any], deadline_s: float) -> str:
    """Programs, packages and what `.pth` files name are people's own: on a dead mount this look is left behind."""
    first = next(iter(arguments.items(args, "programs", paths.ABSOLUTE)), "/")
    until = time.monotonic() + deadline_s
    return patience.answered(first, lambda _: _look(args, until), deadline_s * 0.9)


def _look(args: Mapping[str, Any], until: float) -> str:
    candidates = arguments.items(args, "programs", paths.ABSOLUTE)
    folders = arguments.items(args, "folders", paths.ABSOLUTE)
    program = _first(candidates)
    python = None if program is None else _python(program, folders)
    if program is None or python is None:
        return ""
    first = (*arguments.items(args, "path", paths.ABSOLUTE), *_packages(python, arguments.text(args, "user")))
    places = _places(chain(first, (one for place in first for one in _linked(place))), until, program)
    files = arguments.items(args, "files", FILE)
    stamped = dict.fromkeys((program, python))
    for place in places:
        for name in files:
            _in_time(until, program)
            stamped.update(dict.fromkeys(regular.matching(place, name)))
        if len(stamped) > MAX_STAMPS:
            break
    return f"python {python}\n" + "".join(map(_stamp, list(stamped)[:MAX_STAMPS]))


def _places(named: Iterable[str], until: float, program: str) -> List[str]:
    """Each of them once. Raises TooMuch for more than MAX_PLACES: half of them would be another engine."""
    found: Dict[str, None] = {}
    for one in named:
        _in_time(until, program)
        found[one] = None
        if len(found) > MAX_PLACES:
            raise regular.TooMuch(errno.EFBIG, f"its Python has more than {MAX_PLACES} folders of packages", program)
    return list(found)


def _in_time(until: float, program: str) -> None:
    """Nobody waits any more, and the thread that was left behind would go on for hours."""
    if time.monotonic() > until:
        raise TimeoutError(errno.ETIMEDOUT, "it does not answer", program)


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
        yield from (line for line in dict.fromkeys(lines) if line.startswith("/") and os.path.isdir(line))


def _stamp(path: str) -> str:
    try:
        found = os.stat(path)
    except OSError:  # replaced while we look: another stamp, and the next look has the right one
        return f"- - {path}\n"
    return f"{found.st_mtime_ns} {found.st_size} {path}\n"
