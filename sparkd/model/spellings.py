"""A secret value -> every form in which a program may write it (rule 13): a bounded number, whatever the value is."""

from __future__ import annotations

import html
import json
import re
import shlex
import unicodedata
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterable, Iterator
from urllib.parse import quote, quote_plus

SHORTEST = 6
"""A form shorter than this would be found inside ordinary words."""
_UNRESERVED = ("", "/", "!'()*", ";,/?:@&=+$-_.!~*'()#")
"""What writers of addresses leave as it is: Python's two, and JavaScript's encodeURIComponent and encodeURI."""
_ESCAPE = re.compile(r"%[0-9A-F]{2}")
_UNICODE = re.compile(r"\\u[0-9a-f]{4}")


def spellings(values: Iterable[str]) -> tuple[str, ...]:
    """All forms of these values, the longest first, so that none is cut in two by a shorter one."""
    found = {form for value in values for part in _parts(value) for form in _forms(part) if len(form) >= SHORTEST}
    return tuple(sorted(found, key=lambda form: (-len(form), form)))


def _parts(value: str) -> set[str]:
    """As a whole and line by line, for a log comes in lines; accents as one character and as two."""
    value = value.strip()
    parts = {value, *map(str.strip, value.splitlines())}
    return {unicodedata.normalize(form, part) for part in parts for form in ("NFC", "NFD")} | parts


def _forms(part: str) -> Iterator[str]:
    yield part
    yield from _in_json(part)
    for inner in set(_in_json(part)):  # JSON that is a text of JSON
        yield from _in_json(inner)
    yield from _in_python(part)
    yield from _in_addresses(part)
    yield from _in_shells(part)
    escaped = html.escape(part)
    yield from (escaped, html.escape(part, quote=False), escaped.replace("&#x27;", "&#39;"))
    raw = part.encode("utf-8", "surrogatepass")
    yield from (raw.hex(), raw.hex().upper())
    yield from _in_base64(raw)


def _in_json(text: str) -> Iterator[str]:
    for form in (json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]):
        for one in (form, _UNICODE.sub(lambda found: "\\u" + found[0][2:].upper(), form)):
            yield from (one, one.replace("/", "\\/"))


def _in_python(text: str) -> Iterator[str]:
    raw = text.encode("utf-8", "surrogatepass")
    for form in (repr(text)[1:-1], ascii(text)[1:-1], repr(raw)[2:-1]):
        # Inside a longer text the other quotes decide which are escaped.
        yield from (form, form.replace("\\'", "'"), form.replace("\\'", "'").replace("'", "\\'"), repr(form)[1:-1])


def _in_addresses(text: str) -> Iterator[str]:
    forms = {quote(text, safe=safe, errors="replace") for safe in _UNRESERVED} | {quote_plus(text, errors="replace")}
    forms |= {quote(form, safe="") for form in forms}  # an address in an address
    yield from forms
    yield from (_ESCAPE.sub(lambda found: found[0].lower(), form) for form in forms)


def _in_shells(text: str) -> Iterator[str]:
    """In quotes of either kind, without any, and as systemd writes the words of a command."""
    yield shlex.quote(text)[1:-1] if shlex.quote(text) != text else text
    yield text.replace("'", "'\\''")
    yield re.sub(r'([\\"$`])', r"\\\1", text)
    yield re.sub(r"([^\w@%+=:,./-])", r"\\\1", text, flags=re.ASCII)
    yield text.replace("$", "$$")
    yield text.replace("%", "%%")


def _in_base64(raw: bytes) -> Iterator[str]:
    """By itself, and what is the same of it wherever it lies in a longer value, such as `user:password` of Basic.

    Three bytes are four characters, so there are three places where it can begin; the characters that it shares with what
    stands before and after it are left out.
    """
    for encode in (b64encode, urlsafe_b64encode):
        alone = encode(raw).decode("ascii")
        yield from (alone, alone.rstrip("="))
        for before in range(3):
            first, last = -(-before * 8 // 6), (before + len(raw)) * 8 // 6
            yield encode(b"\0" * before + raw).decode("ascii")[first:last]
