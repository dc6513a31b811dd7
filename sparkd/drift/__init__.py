"""What a rank runs, by meaning instead of by spelling, and what is different between two of them. Pure.

`form` holds the values, `argv` and `container` make them canonical, `compare` finds the differences and `rules` says how
bad each one is and how that is known.
"""

from __future__ import annotations

from sparkd.drift.compare import compare, not_compared, paired
from sparkd.drift.difference import Difference, Severity
from sparkd.drift.form import Gap, RankForm, Side

__all__ = ["Difference", "Gap", "RankForm", "Severity", "Side", "compare", "not_compared", "paired"]
