"""The fixed question by which an engine shows that its answers make sense, and what is remembered of its answers."""

from __future__ import annotations

from dataclasses import dataclass

ECHO = ("lantern", "4729", "copper")
"""Ordinary words, and a number that no script and no translation changes."""
QUESTION = f"Repeat exactly: {' '.join(ECHO)}. Then name the capital of France."
"""Never another one: answers of different days are laid side by side."""
CONTINUED = (
    "Task: Repeat exactly: window 8163 silver. Then name the capital of Spain.\n"
    "Answer: window 8163 silver. Madrid.\n"
    f"Task: {QUESTION}\n"
    "Answer:"
)
"""The same for the completion endpoint, where a text is continued: a base model does so after an example."""
TOKENS = 32
"""The answer takes about ten; the rest is room for a sentence around it."""
LONGEST = 2000
"""Characters of an answer that are looked at: 32 tokens of any vocabulary have some hundred."""
ROW = 2
"""Bad answers in a row that are a verdict: one alone is asked again."""


@dataclass(frozen=True, slots=True)
class Said:
    """An answer to the question, in at most LONGEST characters each. `cut`: it ended because all its tokens were used."""

    text: str
    reasoning: str = ""
    cut: bool = False


@dataclass(frozen=True, slots=True)
class Known:
    """An answer that made sense, in one line. `wall`: Unix time at which it was given."""

    text: str
    wall: float
    generation: int


@dataclass(frozen=True, slots=True)
class Sanity:
    """What the answers of one generation were worth. Times are on the daemon's clock."""

    generation: int = 0
    """The generation that all of this is of, but for `known` and `restarted`."""
    asked_at: float | None = None
    """When the last question ended, however; None = this generation was not asked yet."""
    bad: int = 0
    """Answers in a row that were nonsense."""
    since: float | None = None
    """When the first of them was asked for."""
    why: str = ""
    """What is wrong with the last of them, in one clause."""
    text: str = ""
    """The last answer, in one line."""
    wall: float = 0.0
    """Unix time at which it was given."""
    known: Known | None = None
    """The last answer that made sense, of any generation."""
    restarted: bool = False
    """The group was started anew because of nonsense, and no answer has made sense since."""
