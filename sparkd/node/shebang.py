"""The first lines of a script -> the Python that they name, by path or by name."""

from __future__ import annotations

import re
from os.path import basename
from typing import Iterator, Optional, Sequence

PYTHON = re.compile(r"python[0-9.]*")
MOST_CHARS = 4096
_LONG = re.compile(r"""'''exec' "?(/[^"\s]+)"? """)
"""The second line of a script whose Python has a path too long for a first line."""


def interpreter(text: str) -> Optional[str]:
    """None where they name no Python."""
    return next((word for word in _interpreters(text.splitlines()) if PYTHON.fullmatch(basename(word))), None)


def _interpreters(lines: Sequence[str]) -> Iterator[str]:
    if lines and lines[0].startswith("#!"):
        words = lines[0][2:].split()
        yield from words if words and basename(words[0]) == "env" else words[:1]
        if len(lines) > 1:
            long = _LONG.match(lines[1])
            if long:
                yield long.group(1)
