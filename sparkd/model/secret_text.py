"""Where in a text a secret stands, by what is written around it: its name, an address, a header (rule 13)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from sparkd.model.secret import HIDDEN, is_reference, is_secret
from sparkd.model.unescaped import unescaped


class Span(NamedTuple):
    """`text[start:end]` is a secret; `name` is what it stands under, empty for the password of an address."""

    start: int
    end: int
    name: str


_ADDRESS = re.compile(r"://([^\s'\"<>]+)")
"""What follows the scheme of an address, with whatever addresses are in it."""
_LOGIN = re.compile(r"[^/:@]*+:([^/?#]*+)")
_PORT = re.compile(r"\d{0,5}[/?#]")
"""A password ends at the last @ before the path; one with slashes that nobody escaped at the first."""

_ENDINGS = ("token", "key", "keys", "secret", "password", "passwd", "passphrase", "_pass", "_pwd")
_NAME = re.compile(
    r"(?<![\w.-])(-{0,2})"
    r"((?=aws_|[\w.-]*?credentials)\w[\w.-]*+|\w[\w.-]*+(?:" + "|".join(f"(?<={one})" for one in _ENDINGS) + "))"
    r"(\\*+[\"']\]?)?[ \t]*+"
    r"(?:(=>|[=:])(?(3)\s*+|(?:[ \t]|\\\n)*+)|(?:,[ \t]|(?<=[ \t]))(?:[ \t]|\\\n)*+(?=\S))",
    re.IGNORECASE,
)
"""A name that may be a secret's, and what stands between it and its value. It is as long as its word, and nothing is looked
at twice: others choose the text, and how long it is."""
_VALUE = re.compile(
    r"""(?P<deep>\\+)(?P<mark>["'])(?P<escaped>[^\n]*?)(?P=deep)(?P=mark)"""
    r"""|(?:\w{1,40}+\()?[brfu$]{0,2}"(?P<double>(?:[^"\\\n]|\\.)*)\""""
    r"""|(?:\w{1,40}+\()?[brfu$]{0,2}'(?P<single>(?:[^'\\\n]|\\.)*)'"""
    r"""|\[(?P<list>[^\[\]\n]*)\]|\((?P<tuple>[^()\n]*)\)|\{(?!\s*["']?file\b)(?P<dict>[^{}\n]*)\}"""
    r"""|["']?(?P<bare>[^\s"'`;&|<>,{}()\[\]#][^\s"'`;&|<>,})\]]*)"""
)
_NO_VALUE = re.compile(r"(?:none|null|true|false|undefined)?", re.IGNORECASE)
_FROM_SHELL = re.compile(r"\$[A-Z_][A-Z0-9_]*+|\$\{[A-Z_][A-Z0-9_]*+\}|\$\((?:cat |< ?)[\w./-]+\)")
"""A shell's words for a value that stands elsewhere: `--api-key $VLLM_API_KEY`."""
_PAIR = re.compile(r"\(b?(\\*+[\"'])([\w.-]{3,64}+)\1,[ \t]*+b?(\\*+[\"'])([^\n]*?)\3\)")
"""A header as Python prints it: `(b'x-api-key', b'…')`."""

_COMPOUND = re.compile(r"[_.-]|[a-z][A-Z]")
_UNMISTAKEN = ("password", "passwd", "passphrase")
"""Words that stand before a colon where a value follows, and in prose hardly ever."""

_HEADER = re.compile(
    r"authorization\\*+[\"']?[ \t]*+[:=][ \t]*+\\*+[\"']?((?:[a-z]+[ \t]+)?[^\s\"',\\<][^\s\"',\\]*)", re.IGNORECASE
)
_SCHEME = re.compile(r"\b(?:Basic|Bearer)[ \t]+([\w+/.~-]{8,4096}={0,2})", re.IGNORECASE)
_NO_WORD = re.compile(r"[^A-Za-z]|[a-z][A-Z]")
"""Proof that the text after `Basic` is no English word: `Basic authentication` is no secret."""


def spans(text: str) -> Iterator[Span]:
    """All of them in the order of the text; they may overlap."""
    found = {*_spans(text)}
    plain = unescaped(text)
    if plain is not None:
        found |= {Span(plain.before(start), plain.before(end), name) for start, end, name in _spans(plain.text)}
    yield from sorted(found)


def _spans(text: str) -> Iterator[Span]:
    yield from passwords(text)
    yield from _named(text)
    yield from _pairs(text)
    yield from _headers(text)


def hidden(text: str) -> str:
    """The text with HIDDEN for each."""
    return _without(text, spans(text))


def without_passwords(text: str) -> str:
    """The text with HIDDEN for the passwords of addresses alone."""
    return _without(text, passwords(text))


def _without(text: str, found: Iterable[Span]) -> str:
    """The text with HIDDEN for what was found, in the order of the text."""
    shown, at = [], 0
    for span in found:
        if span.end > at:
            shown += [text[at : max(span.start, at)], HIDDEN if span.start >= at else ""]
            at = span.end
    return "".join((*shown, text[at:])) if shown else text


def passwords(text: str) -> Iterator[Span]:
    """The one in `postgres://user:password@host`, and in an address within an address."""
    for address in _ADDRESS.finditer(text) if "://" in text else ():
        at = address.start(1)
        for part in address[1].split("://"):
            yield from _password(part, at)
            at += len(part) + len("://")


def _password(part: str, at: int) -> Iterator[Span]:
    found = _LOGIN.match(part)
    if found is None:
        return
    start = found.start(1)
    end = part.rfind("@", start, found.end(1))
    if end < 0 and not _PORT.match(part, start):
        end = part.find("@", start)
    if end > start:
        yield Span(at + start, at + end, "")


def _named(text: str) -> Iterator[Span]:
    """Goes on behind each value: what looks like another name in it is a part of it."""
    at = 0
    while found := _NAME.search(text, at):
        at = found.end()
        dashes, name, quoted, sign = found.groups()
        if not is_secret(name) or not _is_given(name, dashes, quoted, sign):
            continue
        value = _VALUE.match(text, at)
        if value is not None and value.lastgroup is not None:
            start, end = value.span(value.lastgroup)
            if not text.startswith("<", start):
                at = value.end()
                if not _is_none(name, text, start, end):
                    yield Span(start, end, name)


def elsewhere(value: str) -> bool:
    """Is this whole value a shell's word for one that stands elsewhere? Then it holds nothing that has to be hidden."""
    return _FROM_SHELL.fullmatch(value) is not None


def _is_none(name: str, text: str, start: int, end: int) -> bool:
    """Does what stands there only say that there is none, or where it is?"""
    written = _FROM_SHELL.match(text, start)
    return (
        _NO_VALUE.fullmatch(text, start, end) is not None
        or (written is not None and written.end() >= end)
        or is_reference(name, text[start:end])
    )


def _is_given(name: str, dashes: str, quoted: str | None, sign: str | None) -> bool:
    """Prose names secrets too: `the HF_TOKEN is missing`, `one token: four characters`, `--api-key: expected one argument`."""
    if sign is None:
        return dashes != ""
    if sign != ":" or quoted is not None:
        return True
    return dashes == "" and (_COMPOUND.search(name) is not None or name.isupper() or name.lower() in _UNMISTAKEN)


def _pairs(text: str) -> Iterator[Span]:
    for found in _PAIR.finditer(text):
        if is_secret(found[2]) and found[4] and found[4][0] != "<":
            yield Span(*found.span(4), found[2])


def _headers(text: str) -> Iterator[Span]:
    for pattern in (_HEADER, _SCHEME):
        for found in pattern.finditer(text):
            if pattern is _HEADER or _NO_WORD.search(found[1]):
                yield Span(*found.span(1), "Authorization")
