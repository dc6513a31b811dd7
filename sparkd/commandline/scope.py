"""Words of a script and the variables it has set -> the words a program would get; what cannot be known stays as written."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice

from sparkd.commandline.shell import quoted
from sparkd.commandline.syntax import Assignment, Piece, Unreadable, Word

_SIMPLE = re.compile(r"(!?)([A-Za-z_]\w*|[0-9]+|[@*#?$!-])(.*)", re.DOTALL)
_DEFAULT = re.compile(r":?([-=+?])(.*)", re.DOTALL)

MOST_WORDS = 1000
"""Made of one word with braces: twenty pairs in a row would be a million."""

MOST_CHARS = 128 * 1024
"""Of one word, and of all words of a command: Linux gives a program no longer word, and `X=$X$X` twenty times is a million."""

_SPLIT = re.compile(r"(?:\$\([^)]*\)|\S)+")
"""What stands for the output of a command is one word: what it would be split into nobody knows."""

Value = str | list[str]

Unknown = Callable[[str, str], None]
"""Told of each expansion that cannot be made: its text, and why."""


@dataclass(slots=True)
class Scope:
    """The variables of one shell. `positional`: `$1`, `$2`, …; `path_of_script` is `$0`."""

    vars: dict[str, Value] = field(default_factory=dict)
    exported: set[str] = field(default_factory=set)
    positional: list[str] = field(default_factory=list)
    node: str | None = None
    export_all: bool = False

    def child(self, positional: list[str] | None = None) -> Scope:
        """A program started from here gets what is exported."""
        return Scope(vars=dict(self.env), exported=set(self.env), positional=positional or [], node=self.node)

    def copy(self) -> Scope:
        return replace(self, vars=dict(self.vars), exported=set(self.exported))

    @property
    def env(self) -> dict[str, str]:
        return {name: value for name, value in self.vars.items() if name in self.exported and isinstance(value, str)}

    def assign(self, one: Assignment, unknown: Unknown) -> None:
        before = self.vars.get(one.name)
        if isinstance(one.value, tuple):
            added = [field_ for word in one.value for field_ in self.fields(word, unknown)]
            head = before if isinstance(before, list) else [before] if isinstance(before, str) else []
            self.vars[one.name] = _cut([*(head if one.adds else []), *added], unknown)
        else:
            text = self.text(one.value, unknown)
            whole = _cut([before, text], unknown) if one.adds and isinstance(before, str) else [text]
            self.vars[one.name] = "".join(whole)
        if self.export_all:
            self.exported.add(one.name)

    # --------------------------------------------------------------------------------------------------- words

    def text(self, word: Word, unknown: Unknown) -> str:
        """The word as one text: no splitting, as in an assignment."""
        word = self.home(word, unknown)
        return "".join(_cut((" ".join(self.values(piece, unknown)) for piece in word.pieces), unknown))

    def fields(self, word: Word, unknown: Unknown) -> list[str]:
        """The words that the shell makes of it: braces, expansion, splitting; a pattern of file names stays."""
        made = (text for one in braces(word) for text in self._fields(self.home(one, unknown), unknown))
        return _cut(made, unknown)

    def home(self, word: Word, unknown: Unknown) -> Word:
        """`~/x` with the home in it, where that is known."""
        first = word.pieces[0] if word.pieces else Piece("")
        if first.kind != "text" or first.quoted or not (first.text == "~" or first.text.startswith("~/")):
            return word
        home = self.vars.get("HOME")
        if not isinstance(home, str):
            unknown("~", "~ is the home of the user who runs it")
            return word
        return Word((Piece(home + first.text[1:], quoted=True), *word.pieces[1:]))

    def _fields(self, word: Word, unknown: Unknown) -> list[str]:
        done: list[str] = []
        open_ = False
        """Is the last field still being written?"""
        for values, piece in self._expanded(word, unknown):
            if piece.kind == "text" or (piece.quoted and not _is_list(piece)):
                parts, before, after = [" ".join(values)], True, True
            elif piece.quoted:
                parts, before, after = values, True, True
            else:
                joined = " ".join(values)
                parts = _SPLIT.findall(joined)
                before, after = not joined[:1].isspace(), not joined[-1:].isspace()
            for index, part in enumerate(parts):
                if open_ and (index > 0 or before):
                    if index == 0:
                        done[-1] += part
                    else:
                        done.append(part)
                else:
                    done.append(part)
                open_ = True
            open_ = open_ and after
        return done

    def _expanded(self, word: Word, unknown: Unknown) -> Iterator[tuple[list[str], Piece]]:
        left = MOST_CHARS
        for piece in word.pieces:
            values = self.values(piece, unknown)
            left -= sum(map(len, values))
            if left < 0:
                unknown("", f"a word of more than {MOST_CHARS // 1024} KiB is cut off")
                return
            yield values, piece

    def values(self, piece: Piece, unknown: Unknown) -> list[str]:
        if piece.kind == "text":
            return [piece.text]
        if piece.kind == "command":
            text = f"$({piece.text.strip()})"
            unknown(text, f"{text} is known only where it runs")
            return [text]
        return self.variable(piece.text, unknown)

    def variable(self, inside: str, unknown: Unknown) -> list[str]:
        match = _SIMPLE.fullmatch(inside)
        written = f"${{{inside}}}" if match is None or match[3] else f"${inside}"
        if match is None or match[1]:
            unknown(written, f"{written} is no expansion that is followed here")
            return [written]
        name, rest = match[2], match[3]
        value = self.lookup(name)
        if rest in ("[@]", "[*]"):
            value, rest = ([value] if isinstance(value, str) else value), ""
        if rest:
            return self.operated(name, value, rest, written, unknown)
        if value is None:
            unknown(written, f"{written} is not set in this file")
            return [written]
        return value if isinstance(value, list) else [value]

    def lookup(self, name: str) -> Value | None:
        if name in ("@", "*"):
            return list(self.positional)
        if name.isdigit() and name != "0":
            at = number(name, len(self.positional) + 1)
            return self.positional[at - 1] if 0 < at <= len(self.positional) else None
        return self.vars.get(name)

    def operated(self, name: str, value: Value | None, rest: str, written: str, unknown: Unknown) -> list[str]:
        """`${X:-default}` and its kin. What nobody in the file sets counts as not set."""
        match = _DEFAULT.fullmatch(rest)
        if match is None:
            unknown(written, f"{written} is no expansion that is followed here")
            return [written]
        is_set = bool(value) if rest.startswith(":") else value is not None
        try:
            other = "".join(" ".join(self.values(piece, unknown)) for piece in quoted(_unquoted(match[2])))
        except Unreadable:
            other = match[2]
        if match[1] == "+":
            return [other] if is_set else [""]
        if is_set and value is not None:
            return value if isinstance(value, list) else [value]
        if match[1] == "?":
            unknown(written, f"{written} is not set in this file")
            return [written]
        if match[1] == "=":
            self.vars[name] = other
        return [other]


def number(text: str, most: int) -> int:
    """A number of words, at most `most` whatever is written; 0 for what is no number (`²` is a digit, too)."""
    if not (text.isascii() and text.isdigit()):
        return 0
    return min(int(text), most) if len(text) < 10 else most


def _cut(texts: Iterable[str], unknown: Unknown) -> list[str]:
    """As many of these texts as a program could be given; what is left out is said."""
    done: list[str] = []
    size = 0
    for text in texts:
        size += len(text)
        if size > MOST_CHARS:
            unknown("", f"more than {MOST_CHARS // 1024} KiB of words: the rest is left out")
            break
        done.append(text)
    return done


def _unquoted(text: str) -> str:
    for sign in "\"'":
        if len(text) > 1 and text[0] == text[-1] == sign:
            return text[1:-1]
    return text


def _is_list(piece: Piece) -> bool:
    """`"$@"` stays several words, `"$*"` is one."""
    return piece.text == "@" or piece.text.endswith("[@]")


# -------------------------------------------------------------------------------------------------------------- braces

_Atom = str | Piece
"""A character that the shell looks at, or a piece that it passes over."""


def braces(word: Word) -> list[Word]:
    """`{a,b}c` is two words; so is JSON whose quotes are gone: `{cudagraph_mode:FULL,custom_ops:[all]}`."""
    atoms: list[_Atom] = []
    for piece in word.pieces:
        atoms += list(piece.text) if piece.kind == "text" and not piece.quoted else [piece]
    if "{" not in atoms:
        return [word]
    return [_word(one) for one in islice(_braced(atoms), MOST_WORDS)]


def _braced(atoms: list[_Atom]) -> Iterator[list[_Atom]]:
    for start, atom in enumerate(atoms):
        found = _alternatives(atoms, start) if atom == "{" else None
        if found is not None:
            parts, end = found
            for part in parts:
                for middle in _braced(part):
                    for rest in _braced(atoms[end:]):
                        yield [*atoms[:start], *middle, *rest]
            return
    yield atoms


def _alternatives(atoms: list[_Atom], start: int) -> tuple[list[list[_Atom]], int] | None:
    """What stands between the commas of the brace at `start`, and where it ends; None where it is an ordinary one."""
    parts: list[list[_Atom]] = [[]]
    depth = 0
    for at in range(start, len(atoms)):
        atom = atoms[at]
        depth += (atom == "{") - (atom == "}")
        if depth == 0:
            return (parts, at + 1) if len(parts) > 1 else None
        if atom == "," and depth == 1:
            parts.append([])
        elif at > start:
            parts[-1].append(atom)
    return None


def _word(atoms: list[_Atom]) -> Word:
    pieces: list[Piece] = []
    for atom in atoms:
        if isinstance(atom, Piece):
            pieces.append(atom)
        elif pieces and pieces[-1].kind == "text" and not pieces[-1].quoted:
            pieces[-1] = Piece(pieces[-1].text + atom)
        else:
            pieces.append(Piece(atom))
    return Word(tuple(pieces))
