"""The engine of a rank and its image -> the flag table by which its arguments are read: the one place that chooses it."""

from __future__ import annotations

from collections.abc import Mapping

from sparkd.engines.flags import FlagTable, table_for

_own: dict[str, FlagTable] = {}
"""Image id -> what its engine said of itself. An id is its content's, so this only ever grows."""


def know(own: Mapping[str, FlagTable]) -> None:
    """From now on these images are read by their own tables."""
    _own.update(own)


def table(engine: str, image_id: str | None = None) -> FlagTable:
    """`image_id` is the image whose parser counts; where it has not said it, the table that ships does."""
    return table_for(engine, image_id, _own)
