"""`tides` probe -> when the water is high: a fact that sparkd does not have."""

from __future__ import annotations

from sparkd.facts import Fact, word


def parse(text: str) -> str:
    return word(text).removeprefix("high ")


TIDES = Fact("tides", parse, lambda question: {"at": "noon"})
