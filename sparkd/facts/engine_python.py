"""`engine_python` probe -> the Python that runs a program of a node, and stamps of what it finds there. No text: none does."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sparkd.facts import FactError, lines

_PYTHON = re.compile(r"python (/.*)")
_STAMP = re.compile(r"(\d+ \d+|- -) /.*")


@dataclass(frozen=True, slots=True)
class EnginePython:
    """`stamps`: time and size of the program, its Python and the packages that count, a line each."""

    path: str
    stamps: tuple[str, ...]


def parse(text: str) -> EnginePython | None:
    if not text:
        return None
    first, *stamps = lines(text)
    named = _PYTHON.fullmatch(first)
    odd = next((line for line in stamps if not _STAMP.fullmatch(line)), None if named else first)
    if named is None or odd is not None:
        raise FactError(f"unexpected line {str(odd)[:80]!r}")
    return EnginePython(named[1], tuple(stamps))
