"""Reason codes and the rule behind them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sparkd.decide.rules import RULES, TITLES, rule
from sparkd.model.policy import Policy
from sparkd.model.words import duration

DEFAULTS = Policy()
INTERFACES = Path(__file__).parents[3] / "docs" / "interfaces.md"


@pytest.mark.parametrize("reason", [*RULES, "not-yet", "not-yet-mount", "held-port"])
def test_reasons_with_a_rule(reason: str) -> None:
    said = rule(reason, DEFAULTS)
    assert said is not None
    assert said[0].isupper()


def test_a_rule_is_said_in_words_with_its_number_last() -> None:
    assert rule("teardown", DEFAULTS) == (
        "One group, one fate: the head goes first, then the workers, then all is verified gone (rule 2)"
    )
    assert rule("warmup", DEFAULTS) == "Ready is a correct completion, streamed to its end"


def test_a_budget_does_not_heal_itself() -> None:
    assert rule("held-budget", DEFAULTS) != rule("held-image", DEFAULTS)


def test_most_sentences_say_it_all() -> None:
    assert rule("start-ranks", DEFAULTS) is None


def test_the_rules_are_called_and_numbered_as_where_they_are_looked_up() -> None:
    written = dict(re.findall(r"^(\d+)\. \*\*([^*]+?)[.*]", INTERFACES.read_text(), re.MULTILINE))
    assert {str(number): title for number, title in TITLES.items()}.items() <= written.items()


def test_the_numbers_are_those_that_are_set() -> None:
    assert rule("memory-wait", DEFAULTS) == (
        "Retry by cause: what is missing is measured again at 30, 60 and 120 s, then the start is held (rule 6)"
    )
    other = Policy(resource_retries=(10.0, 7.5), not_yet=120.0, hold_recheck=45.0)
    words = [str(rule(reason, other)) for reason in ("memory-wait", "not-yet-mount", "held-port")]
    assert words == [
        "Retry by cause: what is missing is measured again at 10 and 7.5 s, then the start is held (rule 6)",
        "A hold names its fact and heals itself: for 2 min after a node's boot, what is missing is not yet there (rule 7)",
        "A hold names its fact and heals itself: it is read again every 45 s, and supervision goes on when it is right (rule 7)",
    ]


@pytest.mark.parametrize(
    ("pauses", "said"),
    [((20.0,), "is measured again at 20 s, then"), ((), "is not measured again: the start is held")],
)
def test_one_pause_or_none(pauses: tuple[float, ...], said: str) -> None:
    assert said in str(rule("memory-wait", Policy(resource_retries=pauses)))


def test_no_rule_states_a_number_that_can_be_set() -> None:
    """Whatever a person can set comes from the policy."""
    fixed = [one.text for one in RULES.values() if isinstance(one.text, str)]
    assert [text for text in fixed if re.search(r"\d|\b(?:seconds|minutes|hours)\b", text)] == []


def test_the_pages_state_the_defaults() -> None:
    text = " ".join(INTERFACES.read_text().split())
    assert f"read again every {duration(DEFAULTS.hold_recheck)} (`policy.hold_recheck`)" in text
    assert f"For {duration(DEFAULTS.not_yet)} after a node's boot (`policy.not_yet`)" in text
