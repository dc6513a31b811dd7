"""What was typed -> the name that was meant: one rule for verbs, options, deployments, nodes, words and keys."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

CUTOFF = 0.7
"""Of difflib's ratio: `mode` and `nodes` are not each other (0.67), `stpo` is `stop` (0.75)."""


def closest(typed: str, known: Iterable[str]) -> str | None:
    """The one of `known` that is spelled nearly as `typed`, or the only one that begins so; case and dashes or
    underscores make no difference. None where there is none."""
    word, folded = _folded(typed), {_folded(name): name for name in sorted(known)}
    near = get_close_matches(word, folded, n=1, cutoff=CUTOFF)
    begun = [name for name in folded if word and name.startswith(word)]
    found = near or (begun if len(begun) == 1 else [])
    return folded[found[0]] if found else None


def _folded(name: str) -> str:
    return name.lower().replace("_", "-")
