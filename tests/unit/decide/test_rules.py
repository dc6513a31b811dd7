"""Reason codes and the rule behind them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sparkd.decide.rules import RULES, TITLES, rule

INTERFACES = Path(__file__).parents[3] / "docs" / "interfaces.md"


@pytest.mark.parametrize("reason", [*RULES, "not-yet", "not-yet-mount", "held-port"])
def test_reasons_with_a_rule(reason: str) -> None:
    said = rule(reason)
    assert said is not None
    assert said[0].isupper()


def test_a_rule_is_said_in_words_with_its_number_last() -> None:
    assert rule("teardown") == (
        "One group, one fate: the head goes first, then the workers, then all is verified gone (rule 2)"
    )
    assert rule("warmup") == "Ready is a correct completion, streamed to its end"


def test_a_budget_does_not_heal_itself() -> None:
    assert rule("held-budget") != rule("held-image")


def test_most_sentences_say_it_all() -> None:
    assert rule("start-ranks") is None


def test_the_rules_are_called_and_numbered_as_where_they_are_looked_up() -> None:
    written = dict(re.findall(r"^(\d+)\. \*\*([^*]+?)[.*]", INTERFACES.read_text(), re.MULTILINE))
    assert {str(number): title for number, title in TITLES.items()}.items() <= written.items()
