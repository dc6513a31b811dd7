"""`paths` probe -> what is at each path: `dir`, `file`, `other`, `missing`, `unreadable`, `no-interpreter`.

No text: none was asked.
"""

from __future__ import annotations

import re

from sparkd.facts import Fact, records

_LINE = re.compile(r"(dir|file|other|missing|unreadable|no-interpreter) (/.*)")


def parse(text: str) -> dict[str, str]:
    return {match[2]: match[1] for match in records(text, _LINE)}


PATHS = Fact("paths", parse)
