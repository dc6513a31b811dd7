"""Text of a shell script -> its simple commands, in order, each word in pieces that remember how they were quoted.

A reader of our own: shlex forgets which part of a word was quoted, and the one Python parser of bash is abandoned and
under the GPL. Loops, branches and functions are not followed; their commands come in the order they are written, marked.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from sparkd.commandline.syntax import Assignment, Command, Piece, Unreadable, Word, unescaped

_NAME = re.compile(r"[A-Za-z_]\w*")
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(\+?)=")
_REDIRECT = re.compile(r"\d*(?:<<<|<<-?|>>|>&|<&|>\||<|>)|&>>?")
_OPERATOR = re.compile(r"&&|\|\||;;&?|;&|\|&|[;|&()\n]")
_OPENS = ("if", "for", "while", "until", "case", "select")
_CLOSES = ("fi", "done", "esac")
_KEYWORDS = frozenset(("then", "else", "elif", "do", "{", "}", "!", "time"))


def commands(text: str, line: int = 1) -> list[Command]:
    """All simple commands of `text`, whose first line is `line`. Raises Unreadable."""
    return _Reader(text.replace("\r\n", "\n"), line).read()


@dataclass(slots=True)
class _Reader:
    text: str
    line: int
    at: int = 0
    done: list[Command] = field(default_factory=list)
    current: Command | None = None
    inside: list[str] = field(default_factory=list)
    waiting: list[tuple[Command, str, bool, bool]] = field(default_factory=list)
    """Here-documents whose bodies begin at the next line: command, delimiter, literal, tabs go."""

    def read(self) -> list[Command]:
        while self.at < len(self.text):
            self.step()
        self.end()
        return self.done

    def step(self) -> None:
        if self.skip():
            return
        if match := _REDIRECT.match(self.text, self.at):
            self.redirect(match)
        elif match := _OPERATOR.match(self.text, self.at):
            self.operator(match[0])
        else:
            self.take(self.word())

    def skip(self) -> bool:
        """Blanks, joined lines and comments."""
        char = self.text[self.at]
        if char in " \t":
            self.at += 1
        elif self.text.startswith("\\\n", self.at):
            self.advance(2)
        elif char == "#":
            self.at += len(self.text[self.at :].partition("\n")[0])
        else:
            return False
        return True

    def advance(self, count: int) -> str:
        taken = self.text[self.at : self.at + count]
        self.at += count
        self.line += taken.count("\n")
        return taken

    # ------------------------------------------------------------------------------------------------ commands

    def command(self) -> Command:
        if self.current is None:
            self.current = Command(self.line, inside=tuple(self.inside))
        return self.current

    def end(self) -> None:
        if self.current is not None:
            self.done.append(self.current)
        self.current = None

    def operator(self, sign: str) -> None:
        if sign == "(" and self.current is not None and self.names_function():
            return self.function()
        self.end()
        self.advance(len(sign))
        return self.bodies() if sign == "\n" else None

    def names_function(self) -> bool:
        """`name` or `function name`, before a bracket."""
        words = self.command().words
        return len(words) == 1 or (len(words) == 2 and words[0].plain == "function")

    def function(self) -> None:
        """`name () {`: what follows is inside it."""
        name = self.command().words[-1].plain or "?"
        if self.text.startswith("(", self.at):
            close = self.text.find(")", self.at)
            self.advance(max(1, close + 1 - self.at))
        self.current = None
        self.inside.append(f"function {name}@{self.at}")

    def take(self, word: Word) -> None:
        text = word.plain
        if text is not None and self.current is None:
            if text in _OPENS:
                self.inside.append(f"{text}@{self.at}")
                if text in ("for", "case", "select"):
                    self.command().words.append(word)  # what follows names a variable, and no command
                return
            if text in _CLOSES or text in _KEYWORDS:
                ends = text == "}" and self.inside[-1:] and self.inside[-1].startswith("function")
                if self.inside and (ends or text in _CLOSES):
                    self.inside.pop()
                return
        command = self.command()
        if text == "{" and self.names_function() and command.words[0].plain == "function":
            self.function()
            return
        if not command.words and (assignment := self.assignment(word)):
            command.assignments.append(assignment)
        else:
            command.words.append(word)

    def assignment(self, word: Word) -> Assignment | None:
        first = word.pieces[0] if word.pieces else Piece("")
        match = _ASSIGNMENT.match(first.text) if first.kind == "text" and not first.quoted else None
        if match is None:
            return None
        if match.end() == len(first.text) and len(word.pieces) == 1 and self.text.startswith("(", self.at):
            return Assignment(match[1], self.array(), bool(match[2]))
        rest = Piece(first.text[match.end() :])
        pieces = ((rest,) if rest.text else ()) + word.pieces[1:]
        return Assignment(match[1], Word(pieces), bool(match[2]))

    def array(self) -> tuple[Word, ...]:
        self.advance(1)
        words: list[Word] = []
        while self.at < len(self.text):
            if self.text[self.at] in " \t\n":
                self.advance(1)
            elif self.text[self.at] == ")":
                self.advance(1)
                return tuple(words)
            elif self.text[self.at] in ";|&<>(":
                break  # no array: bash would end here too
            elif not self.skip():
                words.append(self.word(stop=")"))
        raise Unreadable(self.line, "an array is never closed")

    def redirect(self, match: re.Match[str]) -> None:
        sign = match[0].lstrip("0123456789")
        self.advance(len(match[0]))
        while self.text[self.at : self.at + 1] in (" ", "\t"):
            self.at += 1
        if sign == "<" and self.text.startswith("(", self.at):
            return self.take(Word((Piece(self.nested("(", ")"), "command"),)))
        target = self.word()
        if sign in ("<<", "<<-"):
            delimiter = "".join(piece.text for piece in target.pieces)
            literal = any(piece.quoted for piece in target.pieces)
            self.waiting.append((self.command(), delimiter, literal, sign == "<<-"))
        elif sign == "<<<":
            self.command().heredoc = target
        return None

    def bodies(self) -> None:
        """The here-documents that were announced in the line before."""
        for command, delimiter, literal, tabs in self.waiting:
            lines: list[str] = []
            while self.at < len(self.text):
                end = self.text.find("\n", self.at)
                line = self.advance((len(self.text) if end < 0 else end + 1) - self.at)
                body = line.lstrip("\t") if tabs else line
                if body.rstrip("\n") == delimiter:
                    break
                lines.append(body)
            whole = "".join(lines)
            command.heredoc = Word((Piece(whole, quoted=True),)) if literal else Word(quoted(whole))
        self.waiting = []

    # --------------------------------------------------------------------------------------------------- words

    def word(self, stop: str = "") -> Word:
        pieces: list[Piece] = []
        while self.at < len(self.text):
            char = self.text[self.at]
            if char in " \t\n;|&<>" or (char in "()" and (not stop or char == stop)):
                break
            pieces += self.piece(char)
        return Word(_merged(pieces))

    def piece(self, char: str) -> list[Piece]:
        if char == "\\":
            taken = self.advance(2)
            return [] if taken == "\\\n" else [Piece(taken[1:], quoted=True)]
        if char == "'":
            return [Piece(self.until("'"), quoted=True)]
        if char == '"':
            return list(quoted(self.double())) or [Piece("", quoted=True)]
        if self.text.startswith("$'", self.at):
            self.advance(1)
            body = self.until("'", escapes=True)
            return [Piece(unescaped(body), quoted=True)]
        if char in "$`":
            return [self.expansion(False)]
        return [Piece(self.advance(1))]

    def until(self, end: str, escapes: bool = False) -> str:
        """The text from the quote here to its end."""
        began, start = self.line, self.at + 1
        at = start
        while at < len(self.text) and self.text[at] != end:
            at += 2 if escapes and self.text[at] == "\\" else 1
        if at >= len(self.text):
            raise Unreadable(began, f"a {end} is never closed")
        self.advance(at + 1 - self.at)
        return self.text[start:at]

    def double(self) -> str:
        """What stands between double quotes; a `$(…)` in them may hold quotes of its own."""
        began, start = self.line, self.at + 1
        self.advance(1)
        while self.at < len(self.text) and self.text[self.at] != '"':
            if self.text[self.at] == "\\":
                self.advance(2)
            elif self.text.startswith(("$(", "${"), self.at):
                self.expansion(True)
            else:
                self.advance(1)
        if self.at >= len(self.text):
            raise Unreadable(began, 'a " is never closed')
        self.advance(1)
        return self.text[start : self.at - 1]

    def expansion(self, is_quoted: bool) -> Piece:
        if self.text[self.at] == "`":
            return Piece(self.until("`", escapes=True), "command", is_quoted)
        if self.text.startswith("$(", self.at):
            self.advance(1)
            return Piece(self.nested("(", ")"), "command", is_quoted)
        if self.text.startswith("${", self.at):
            self.advance(1)
            return Piece(self.nested("{", "}"), "var", is_quoted)
        self.advance(1)
        match = _NAME.match(self.text, self.at) or re.compile(r"[0-9@*#?$!-]").match(self.text, self.at)
        if match is None:
            return Piece("$", quoted=is_quoted)
        return Piece(self.advance(len(match[0])), "var", is_quoted)

    def nested(self, opens: str, closes: str) -> str:
        """The text inside brackets, quotes and inner brackets skipped."""
        began, start, depth = self.line, self.at + 1, 0
        while self.at < len(self.text):
            char = self.text[self.at]
            if char == "\\":
                self.advance(2)
                continue
            if char == "'" and opens == "(":
                self.until("'")
                continue
            if char == '"':
                self.double()
                continue
            depth += (char == opens) - (char == closes)
            self.advance(1)
            if depth == 0:
                return self.text[start : self.at - 1]
        raise Unreadable(began, f"a {opens} is never closed")


def quoted(text: str) -> tuple[Piece, ...]:
    """The pieces of a text in double quotes, or of a here-document."""
    reader = _Reader(text, 1)
    pieces: list[Piece] = []
    while reader.at < len(text):
        if text[reader.at] == "\\" and text[reader.at + 1 : reader.at + 2] in ("$", "`", '"', "\\", "\n"):
            taken = reader.advance(2)[1:]
            pieces.append(Piece("" if taken == "\n" else taken, quoted=True))
        elif text[reader.at] in "$`":
            pieces.append(reader.expansion(True))
        else:
            pieces.append(Piece(reader.advance(1), quoted=True))
    return _merged(pieces)


def _merged(pieces: list[Piece]) -> tuple[Piece, ...]:
    out: list[Piece] = []
    for piece in pieces:
        if out and piece.kind == out[-1].kind == "text" and piece.quoted == out[-1].quoted:
            out[-1] = Piece(out[-1].text + piece.text, quoted=piece.quoted)
        else:
            out.append(piece)
    return tuple(out)
