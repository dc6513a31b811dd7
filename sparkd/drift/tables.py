"""The engine of a rank and its image -> the flag table by which its arguments are read: the one place that chooses it."""

from __future__ import annotations

from sparkd.engines.flags import FlagTable, shipped


def table(engine: str, image_id: str | None = None) -> FlagTable:
    """`image_id` is the image whose parser counts; where that is not known it is the table that ships."""
    return shipped(engine)
