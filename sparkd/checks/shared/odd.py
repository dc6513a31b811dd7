"""What each node has -> what most have, and the nodes that differ: the comparison that many checks share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping
from typing import TypeVar

T = TypeVar("T", bound=Hashable)


def odd_ones(values: Mapping[str, T]) -> tuple[T | None, dict[str, T]]:
    """(what most nodes have, node -> its other value). With no majority the first node, the head, is taken as right."""
    if not values:
        return None, {}
    counts = Counter(values.values())
    most = counts.most_common(1)[0][1]
    common = next(value for value in values.values() if counts[value] == most)
    return common, {node: value for node, value in values.items() if value != common}
