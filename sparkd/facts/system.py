"""`system` probe -> systemd's state in one word."""

from __future__ import annotations

from sparkd.facts import Fact, FactError, word

STATES = frozenset({
    "initializing", "starting", "running", "degraded", "maintenance", "stopping", "offline", "unknown",
})  # fmt: skip
"""systemctl(1), is-system-running; `unknown` also where there is no systemd (the demo)."""


def parse(text: str) -> str:
    state = word(text)
    if state not in STATES:
        raise FactError(f"{state[:80]!r} is no state of systemd")
    return state


SYSTEM = Fact("system", parse)
