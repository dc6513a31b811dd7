"""What the text of a shell script is made of: pieces, words, assignments, simple commands."""

from __future__ import annotations

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
