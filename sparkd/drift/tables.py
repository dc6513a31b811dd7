"""The engine of a rank and its image -> the flag table by which its arguments are read: the one place that chooses it."""

from __future__ import annotations

from collections.abc import Mapping

from sparkd.drift.form import RankForm
from sparkd.engines.flags import FlagTable
from sparkd.engines.tables import table_for

_own: dict[str, FlagTable] = {}
"""`EngineKey.id` -> what the engine said of itself. An id is its content's, so this only ever grows."""


def know(own: Mapping[str, FlagTable]) -> None:
    """From now on these engines are read by their own tables."""
    _own.update(own)


def table(engine: str, id_: str | None = None) -> FlagTable:
    """`id_`: of the engine, as the image's where nothing else decides; where it has not said it, the table that ships
    counts."""
    return table_for(engine, id_, _own)


def of(form: RankForm) -> FlagTable:
    """By which the arguments of this rank are read."""
    return table(form.engine, form.engine_id or form.image_id)
