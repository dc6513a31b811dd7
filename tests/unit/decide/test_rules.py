"""Reason codes and the rule behind them."""

from __future__ import annotations

import pytest

from sparkd.decide.rules import RULES, rule


@pytest.mark.parametrize("reason", [*RULES, "not-yet", "not-yet-mount", "held-port"])
def test_reasons_with_a_rule(reason: str) -> None:
    assert rule(reason)


def test_a_budget_does_not_heal_itself() -> None:
    assert rule("held-budget") != rule("held-image")


def test_most_sentences_say_it_all() -> None:
    assert rule("start-ranks") is None
