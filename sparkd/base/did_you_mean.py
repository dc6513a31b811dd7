"""What was typed -> the name that was meant: one rule for verbs, options, deployments, nodes, words and keys."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import SequenceMatcher, get_close_matches

CUTOFF = 0.7
"""Of difflib's ratio: `mode` and `nodes` are not each other (0.67), `stpo` is `stop` (0.75)."""
TAIL_CUTOFF = 0.5
"""Of what is left when shared first words are gone: `length` and `len` are near (0.67), `use-td` and `mla-sparse` not (0.25)."""
NEAREST = 3
"""So many are looked at: the nearest by all its letters may only be of the same family."""


def closest(typed: str, known: Iterable[str]) -> str | None:
    """The only one of `known` that begins as `typed`, else the one that is spelled nearly so; case and dashes or
    underscores make no difference. None where there is none."""
    word, folded = _folded(typed), {_folded(name): name for name in sorted(known)}
    near = [name for name in get_close_matches(word, folded, n=NEAREST, cutoff=CUTOFF) if _own_part_is_near(word, name)]
    begun = [name for name in folded if word and name.startswith(word)]
    found = begun if len(begun) == 1 else near  # `stat` is `status`, and not the `start` that acts
    return folded[found[0]] if found else None


def _own_part_is_near(word: str, name: str) -> bool:
    """Names of one family begin with the same words, and are near by that alone: VLLM_TRITON_MLA_SPARSE was taken for
    VLLM_TRITON_USE_TD. What is behind those words has to be alike too."""
    one, other = word.split("-"), name.split("-")
    shared = next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    tails = "-".join(one[shared:]), "-".join(other[shared:])
    return not shared or not all(tails) or SequenceMatcher(None, *tails).ratio() >= TAIL_CUTOFF


def _folded(name: str) -> str:
    return name.lower().replace("_", "-")
