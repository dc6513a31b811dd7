"""`ipc` probe -> /dev/shm as a whole, and whose shared memory logind would remove at a logout."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from sparkd.facts import Args, Fact, FactError, Question, count, lines
from sparkd.model.printed import WHOLE

_USER = re.compile(rf"user (\S+) ({WHOLE}|missing) (lingers|-)")


@dataclass(frozen=True, slots=True)
class User:
    uid: int | None
    """None where there is no such user."""
    lingers: bool


@dataclass(frozen=True, slots=True)
class Ipc:
    size_bytes: int
    used_bytes: int
    removes_ipc: bool
    """logind runs, and removes what a normal user left in /dev/shm when the last session of that user ends."""
    users: Mapping[str, User]


def parse(text: str) -> Ipc:
    found: dict[str, str] = {}
    users: dict[str, User] = {}
    for line in lines(text):
        if match := _USER.fullmatch(line):
            users[match[1]] = User(None if match[2] == "missing" else int(match[2]), match[3] == "lingers")
        else:
            name, _, value = line.partition(" ")
            found[name] = value
    try:
        removes = found["logind"] == "running" and found["removeipc"] == "yes"
        return Ipc(count(found["size"]), count(found["used"]), removes, users)
    except KeyError as error:
        raise FactError(f"no {error.args[0]} in it") from None


def ask(question: Question) -> Args | None:
    """About the user that the ranks run as, where it is not root."""
    wanted = question.deployment.user or (question.deployment.container.user or "").partition(":")[0]
    return {"users": [wanted]} if wanted and wanted not in ("root", "0") else None


IPC = Fact("ipc", parse, args=ask)
