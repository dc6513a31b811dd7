"""A text as it reads once its escapes are undone (%3D, %253D, &quot;, \\u003d, \\/), and where each place of it was before."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from html import unescape

_ESCAPE = re.compile(
    r"%(?:25){0,8}+([2-7][0-9A-Fa-f])"
    r"|(?<!\\)\\++u00([2-7][0-9A-Fa-f])"
    r"|&(?:amp;){0,8}+((?:quot|apos|amp|lt|gt|#0{0,2}\d\d|#x[2-7][0-9A-Fa-f]);)"
    r"|(?<!\\)\\++(/)"
)
"""Of the signs of ASCII: they are what tells where a value begins and ends. However often it was escaped."""


@dataclass(frozen=True, slots=True)
class Unescaped:
    """`text` without its escapes. Between two of the places in `here` it runs as the original does from the same one in `there`."""

    text: str
    here: tuple[int, ...]
    there: tuple[int, ...]

    def before(self, at: int) -> int:
        """The place in the original of a place in `text`."""
        index = bisect_right(self.here, at) - 1
        return self.there[index] + at - self.here[index]


def unescaped(text: str) -> Unescaped | None:
    """None where there is no escape in it."""
    parts, here, there, length, at = [], [0], [0], 0, 0
    for found in _ESCAPE.finditer(text):
        parts += [text[at : found.start()], _sign(found)]
        length += found.start() - at
        at = found.end()
        here += [length, length + 1]
        there += [found.start(), at]
        length += 1
    return Unescaped("".join((*parts, text[at:])), tuple(here), tuple(there)) if at else None


def _sign(found: re.Match[str]) -> str:
    """Exactly one character for each escape."""
    address, json, page, slash = found.groups()
    if page is not None:
        return unescape(f"&{page}")[:1] or " "
    return slash or chr(int(address or json, 16))
