"""YAML text -> a tree of values, plus every problem found on the way.

Built from the parser's events, not from its constructors: so a key may not come twice, `on` stays a word, `0.90` keeps
its spelling, and an alias counts with all that it stands for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    CollectionStartEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    NodeEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
    StreamEndEvent,
)

from sparkd.base.errors import Problem
from sparkd.settings.tree import Item, Path, describe, dotted, printable, resolve

MAX_BYTES = 1024 * 1024
MAX_VALUES = 20_000
"""Values in one file, aliases expanded: a thousand times what a large deployment holds."""
MAX_DEPTH = 32

_CORE_TAGS = "tag:yaml.org,2002:"
_TEXT_TAG = _CORE_TAGS + "str"
_FORBIDDEN = re.compile(
    "[^\\t\\n\\r\\x20-\\x7e\\x85\\xa0-\\ud7ff\\ue000-\\ufffd\\U00010000-\\U0010ffff]"
    "|[\\x85\\xa0\\xad\\u200b\\u200e\\u200f\\u2028-\\u202e\\u2060-\\u2069\\ufeff]"
)
"""Characters that YAML does not allow, and invisible ones: a copied no-break space is no indentation, `po\u200brt` is not
`port`. As an escape in quotes only NUL and halves of surrogate pairs do harm."""
_SPACES = "\xa0"
_BEYOND = re.compile(r"\\U(?!0000|000[1-9a-fA-F]|0010)[0-9a-fA-F]{8}")
"""An escape for a character that Unicode does not have."""


def parse(data: bytes, file: str) -> tuple[Item | None, tuple[Problem, ...]]:
    """The tree of one file, None when there is nothing to go on with, and its problems. Raises nothing."""
    reader = _Reader(file)
    try:
        return reader.document(_decode(data)), tuple(reader.problems)
    except _Stopped as stop:
        problem = Problem(file, stop.line, dotted(stop.path), stop.text, stop.fix)
    except MarkedYAMLError as error:
        problem = _syntax(error, file)
    except (YAMLError, ValueError, OverflowError) as error:  # ValueError: an escape beyond Unicode
        problem = Problem(file, _line_of(_BEYOND, data), "", f"not YAML: {error}", "check the escapes in quoted texts")
    return None, (*reader.problems, problem)


class _Stopped(Exception):
    """Reading this file ends here."""

    def __init__(self, line: int, text: str, fix: str = "", path: Path = ()) -> None:
        self.line, self.text, self.fix, self.path = line, text, fix, path
        super().__init__(text)


def _decode(data: bytes) -> str:
    if len(data) > MAX_BYTES:
        raise _Stopped(0, f"the file is larger than {MAX_BYTES // 1024} KiB", "is it a configuration file?")
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise _Stopped(0, "the file is UTF-16", "save it as UTF-8")
    if b"\0" in data[:4]:
        raise _Stopped(0, "the file is UTF-16, UTF-32 or no text at all", "save it as UTF-8")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise _Stopped(line, f"byte 0x{data[error.start]:02x} is not UTF-8", "save the file as UTF-8") from None
    if bad := _FORBIDDEN.search(text):
        line = text.count("\n", 0, bad.start()) + 1
        fix = "write a plain space" if bad[0] in _SPACES else "remove it"
        raise _Stopped(line, f"the invisible character 0x{ord(bad[0]):02x} is not allowed", fix)
    return text


def _line_of(pattern: re.Pattern[str], data: bytes) -> int:
    """Where the pattern is first met, 0 where it is not."""
    text = data.decode("utf-8-sig")
    found = pattern.search(text)
    return text.count("\n", 0, found.start()) + 1 if found else 0


class _Trap(NamedTuple):
    """One error of the parser in words that help. `began`: at fault is where the unfinished thing begins, not its end."""

    sign: str
    text: str
    fix: str
    began: bool = False


_SHAPE, _QUOTE = "check its indentation, quotes and brackets", "put it in quotes"
_TRAPS = (
    _Trap("character '\\t'", "a tab where YAML wants spaces", "indent with spaces"),
    _Trap("found unexpected end of stream", "the quote that opens here is never closed", "close it", True),
    _Trap(
        "expected ',' or", "the bracket that opens here is not closed", "close it; commas go between its parts", True
    ),
    _Trap("expected the node content, but found '<stream end>'", "a bracket is never closed", "close it", True),
    _Trap("could not find expected ':'", "not `key: value`", "write a colon and a space after the key", True),
    _Trap("mapping values are not allowed here", "a second `: ` in one line", "put a text that has one in quotes"),
    _Trap("expected the node content", "a value is missing here", "write one, or remove the comma before it"),
    _Trap("expected <block end>", "it does not belong to what is above it", _SHAPE),
    _Trap("expected '<document start>'", "it does not belong to what is above it", _SHAPE),
    _Trap("cannot start any token", "a text cannot begin like this", _QUOTE),
    _Trap("while scanning an alias", "a text cannot begin like this", _QUOTE),
    _Trap("while scanning an anchor", "a text cannot begin like this", _QUOTE),
    _Trap("while scanning a block scalar", "a text cannot begin like this", _QUOTE),
    _Trap("unknown escape character", "no such escape in double quotes", "write `\\\\`, or use single quotes"),
    _Trap("expected escape sequence", "an escape in double quotes is cut short", "write `\\\\`, or use single quotes"),
    _Trap("undefined tag handle", "tags mean nothing here", "write the plain value"),
)


def _syntax(error: MarkedYAMLError, file: str) -> Problem:
    what = " ".join(str(part) for part in (error.context, error.problem) if part)
    trap = next((trap for trap in _TRAPS if trap.sign in what), None)
    if trap is None:
        text, fix = f"not YAML: {what}", "look at indentation, quotes and brackets here and one line before"
    else:
        text, fix = trap.text, trap.fix
    marks = (error.problem_mark, error.context_mark)
    mark = next((mark for mark in (marks[::-1] if trap and trap.began else marks) if mark), None)
    return Problem(file, mark.line + 1 if mark else 0, "", text, fix)


@dataclass(slots=True)
class _Reader:
    """Builds the tree by recursive descent over the parser's events."""

    file: str
    problems: list[Problem] = field(default_factory=list)
    anchors: dict[str, Item] = field(default_factory=dict)
    events: Iterator[Any] = field(default_factory=lambda: iter(()))
    values: int = 0

    def problem(self, line: int, path: Path, text: str, fix: str) -> None:
        self.problems.append(Problem(self.file, line, dotted(path), printable(text), printable(fix)))

    def document(self, text: str) -> Item | None:
        self.events = YAML(typ="safe", pure=True).parse(text)
        next(self.events)  # the start of the stream
        if isinstance(next(self.events), StreamEndEvent):
            raise _Stopped(0, "the file is empty", "write `key: value` lines, or remove the file")
        root = self.value(next(self.events), 1, ())
        next(self.events)  # the end of the document
        after = next(self.events)
        if isinstance(after, DocumentStartEvent):
            fix = "one document a file: remove the line with `---` or `...`"
            raise _Stopped(_line(after), "a second document begins here", fix)
        if not isinstance(root.value, dict):
            raise _Stopped(root.line, f"expected `key: value` lines, found {describe(root)}", "see docs/interfaces.md")
        return root

    def value(self, event: NodeEvent, line: int, path: Path) -> Item:
        """The value that `event` begins; `line` is where it counts as written."""
        self.values += 1
        if self.values > MAX_VALUES:
            raise _Stopped(line, f"more than {MAX_VALUES} values in one file", "is it a configuration file?")
        self.deep(len(path), line, path)
        if isinstance(event, AliasEvent):
            return self.alias(event, line, path)
        if isinstance(event, ScalarEvent | CollectionStartEvent) and event.tag not in (None, _TEXT_TAG):
            tag = str(event.tag).replace(_CORE_TAGS, "!!")
            self.problem(line, path, f"the tag `{tag}` means nothing here", "write the plain value")
        if isinstance(event, ScalarEvent):
            item = self.scalar(event, line, path)
        elif isinstance(event, SequenceStartEvent):
            item = self.sequence(line, path)
        else:
            item = self.block(line, path)
        if event.anchor is not None:
            self.anchors[event.anchor] = item
        return item

    def deep(self, depth: int, line: int, path: Path) -> None:
        if depth > MAX_DEPTH:
            raise _Stopped(line, f"nested more than {MAX_DEPTH} deep", "no setting is", path[:4])

    def scalar(self, event: ScalarEvent, line: int, path: Path) -> Item:
        text = str(event.value)
        if re.search("[\\x00\\ud800-\\udfff]", text):
            self.problem(line, path, "a character that no program can be given (NUL, or half a character)", "remove it")
            return Item("", line, path, "")
        plain = event.implicit[0] and not event.style
        return Item(resolve(text) if plain else text, line, path, text)

    def alias(self, event: AliasEvent, line: int, path: Path) -> Item:
        item = self.anchors.get(event.anchor)
        if item is None:
            self.problem(line, path, f"`*{event.anchor}` stands for nothing yet", f"write `&{event.anchor}` before it")
            return Item(None, line, path)
        self.values += item.size
        self.deep(len(path) + item.height, line, path)
        return item

    def sequence(self, line: int, path: Path) -> Item:
        items: list[Item] = []
        while not isinstance(event := next(self.events), SequenceEndEvent):
            items.append(self.value(event, _line(event), (*path, len(items))))
        return _whole(tuple(items), items, line, path)

    def block(self, line: int, path: Path) -> Item:
        entries: dict[str, Item] = {}
        while not isinstance(event := next(self.events), MappingEndEvent):
            key_line, key = _line(event), self.key(event, path)
            here = (*path, key)
            item = self.value(next(self.events), key_line, here)
            if key == "<<" and getattr(event, "style", None) is None:
                self.problem(key_line, here, "merge keys are no part of YAML 1.2", "repeat the keys, or use a profile")
            elif key in entries:
                first = f"`{key}` is already in line {entries[key].line}"
                self.problem(key_line, here, first, "keep one of the two")
            elif key:
                entries[key] = item
        return _whole(entries, list(entries.values()), line, path)

    def key(self, event: NodeEvent, path: Path) -> str:
        """The key as it is spelled, whatever YAML would make of it; nothing where it is none."""
        key = self.value(event, _line(event), (*path, "?"))
        if key.spelling:
            return key.spelling
        self.problem(_line(event), path, f"a key must be a word, found {describe(key)}", "write `key: value`")
        return ""


def _whole(value: tuple[Item, ...] | dict[str, Item], parts: list[Item], line: int, path: Path) -> Item:
    size, height = 1 + sum(part.size for part in parts), 1 + max((part.height for part in parts), default=0)
    return Item(value, line, path, size=size, height=height)


def _line(event: Event) -> int:
    return int(event.start_mark.line) + 1
