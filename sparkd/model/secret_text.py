"""Where in a text a secret stands, by what is written around it: its name, an address, a header (rule 13)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from sparkd.model.secret import HIDDEN, is_reference, is_secret


class Span(NamedTuple):
    """`text[start:end]` is a secret; `name` is what it stands under, empty for the password of an address."""

    start: int
    end: int
    name: str


_PASSWORD = re.compile(
    r"(?<=://)[^\s/:@'\"<>]*:((?!<)(?:[^\s/?#'\"<>]+|(?!\d{0,5}[/?#])[^\s@'\"<>]+))(?=@)",
)
"""The password in `postgres://user:password@host`, also one with slashes that nobody escaped."""

_WORD = re.compile(r"[^\s'\"<>]+")
"""Of a text with addresses: no password goes on beyond one."""

_NAME = re.compile(
    r"(?<![\w.-])(-{0,2})"
    r"(\w[\w.-]*+(?:(?<=token)|(?<=key)|(?<=secret)|(?<=password)|(?<=passwd))"
    r"|(?=\w[\w.-]*?credentials)\w[\w.-]*+|aws_\w++)"
    r"(\\*+[\"'])?[ \t]*+(?:(=>|[=:])[ \t]*+|(?:,[ \t]++|(?<=[ \t]))(?=\S))",
    re.IGNORECASE,
)
"""A name that may be a secret's, and what stands between it and its value. It is as long as its word: nothing is looked
at twice, and nothing is given back that was taken (`*+`), or a line of 64 KiB would take seconds."""
_VALUE = re.compile(
    r"""(?P<deep>\\+)(?P<mark>["'])(?P<escaped>[^\n]*?)(?P=deep)(?P=mark)"""
    r"""|b?"(?P<double>(?:[^"\\\n]|\\.)*)"|b?'(?P<single>(?:[^'\\\n]|\\.)*)'"""
    r"""|\[(?P<list>[^\[\]\n]*)\]|\((?P<tuple>[^()\n]*)\)"""
    r"""|["']?(?P<bare>[^\s"'`;&|<>,{}()\[\]#])"""
)
_END = re.compile(r"""[\s"'`;&|<>,})\]]""")
"""What ends a bare value, of which `_VALUE` takes the first character."""
_NO_VALUE = re.compile(r"(?:none|null|true|false|undefined)?", re.IGNORECASE)

_HEADER = re.compile(
    r"authorization\\*[\"']?[ \t]*[:=][ \t]*\\*[\"']?((?:[a-z]+[ \t]+)?[^\s\"',\\<][^\s\"',\\]*)", re.IGNORECASE
)
_SCHEME = re.compile(r"\b(?:Basic|Bearer)[ \t]+([\w+/.~-]{8,4096}={0,2})", re.IGNORECASE)
_NO_WORD = re.compile(r"[^A-Za-z]|[a-z][A-Z]")
"""What no English word after `basic` has in it: `Basic authentication` is no secret."""


def spans(text: str) -> Iterator[Span]:
    """All of them in the order of the text; they may overlap."""
    yield from sorted((*passwords(text), *_named(text), *_headers(text)))


def hidden(text: str) -> str:
    """The text with HIDDEN for each."""
    return _covered(text, spans(text))


def without_passwords(text: str) -> str:
    """The text with HIDDEN for the passwords of addresses alone."""
    return _covered(text, passwords(text))


def _covered(text: str, found: Iterable[Span]) -> str:
    shown, at = [], 0
    for span in found:
        if span.end > at:
            shown += [text[at : max(span.start, at)], HIDDEN if span.start >= at else ""]
            at = span.end
    return "".join((*shown, text[at:])) if shown else text


def passwords(text: str) -> Iterator[Span]:
    """Up to the last `@` of each word: without one, every address in it would be a walk to its end."""
    for word in _WORD.finditer(text) if "://" in text else ():
        last = text.rfind("@", *word.span())
        if last >= 0:
            yield from (Span(*found.span(1), "") for found in _PASSWORD.finditer(text, word.start(), last + 1))


def _named(text: str) -> Iterator[Span]:
    bare_end = 0  # of the last bare value: those that begin within it end there too
    for found in _NAME.finditer(text):
        dashes, name, quoted, sign = found.groups()
        if name.lower() == "password" or not is_secret(name) or not _is_given(name, dashes, quoted, sign):
            continue
        value = _VALUE.match(text, found.end())
        if value is not None and value.lastgroup is not None:
            start, end = value.span(value.lastgroup)
            if value.lastgroup == "bare":
                if start >= bare_end:
                    stop = _END.search(text, start)
                    bare_end = len(text) if stop is None else stop.start()
                end = bare_end
            first = text[start : start + 1]
            refers = first == "/" and is_reference(name, text[start:end])
            if not (_NO_VALUE.fullmatch(text, start, end) or first == "<" or refers):
                yield Span(start, end, name)


def _is_given(name: str, dashes: str, quoted: str | None, sign: str | None) -> bool:
    """Prose names secrets too: `the HF_TOKEN is missing`, `one token: four characters`, `--api-key: expected one argument`."""
    if sign is None:
        return dashes != ""
    if dashes:
        return sign == "="
    return sign == "=" or quoted is not None or re.search(r"[_.-]", name) is not None or name.isupper()


def _headers(text: str) -> Iterator[Span]:
    for pattern in (_HEADER, _SCHEME):
        for found in pattern.finditer(text):
            if pattern is _HEADER or _NO_WORD.search(found[1]):
                yield Span(*found.span(1), "Authorization")
