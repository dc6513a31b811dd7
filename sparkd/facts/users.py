"""`users` probe -> uid of each user, None where there is none. No text: none was asked."""

from __future__ import annotations

import re

from sparkd.facts import Fact, records
from sparkd.model.printed import WHOLE

_LINE = re.compile(rf"(\S+) ({WHOLE}|missing)")


def parse(text: str) -> dict[str, int | None]:
    return {match[1]: None if match[2] == "missing" else int(match[2]) for match in records(text, _LINE)}


USERS = Fact("users", parse)
