"""What the text of a shell script is made of: pieces, words, assignments, simple commands."""

from __future__ import annotations

import re
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a word. `kind`: text, var (`text` is what stands in `${…}`), command (what a shell would have to run)."""

    text: str
    kind: str = "text"
    quoted: bool = False


@dataclass(frozen=True, slots=True)
class Word:
    pieces: tuple[Piece, ...]

    @property
    def plain(self) -> str | None:
        """Its text, where no shell has anything to do with it."""
        return self.pieces[0].text if len(self.pieces) == 1 and self.pieces[0] == Piece(self.pieces[0].text) else None


@dataclass(frozen=True, slots=True)
class Assignment:
    name: str
    value: Word | tuple[Word, ...]
    """A tuple is an array."""
    adds: bool = False


@dataclass(slots=True)
class Command:
    """`inside`: the branches and loops around it, outermost first, each as KEYWORD@OFFSET, itself included."""

    line: int
    assignments: list[Assignment] = field(default_factory=list)
    words: list[Word] = field(default_factory=list)
    heredoc: Word | None = None
    inside: tuple[str, ...] = ()


class Unreadable(Exception):
    """The text ends inside a quote or an expansion; `line` is where that began."""

    def __init__(self, line: int, text: str) -> None:
        self.line = line
        super().__init__(text)


_ANSI = dict(zip("abeEfnrtv\\'\"?", "\a\b\x1b\x1b\f\n\r\t\v\\'\"?", strict=True))
_ESCAPE = re.compile(
    r"\\(?:([0-7]{1,3})|(?:x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|U(0{0,2}[0-9a-fA-F]{1,6}))|(.))", re.DOTALL
)
"""In `$'…'`: octal, hexadecimal, two kinds of Unicode, and letters."""


def unescaped(text: str) -> str:
    """What bash makes of the text inside `$'…'`."""
    return _ESCAPE.sub(_escaped, text)


def _escaped(match: re.Match[str]) -> str:
    octal, *hexadecimal, letter = match.groups()
    if letter is not None:
        return _ANSI.get(letter, match[0])
    code = int(octal, 8) & 0xFF if octal else int(next(filter(None, hexadecimal)), 16)
    return chr(code) if 0 < code <= 0x10FFFF else match[0]
