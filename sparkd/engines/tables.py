"""An engine and its image -> the flag table by which its arguments are read.

One of each engine ships with sparkd as data in the engine's folder (reading it is like importing it), and an image that was
asked has its own (`sparkd.background.parser_store`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

from sparkd.engines import ENGINES
from sparkd.engines.flags import FlagTable, parse_table


@cache
def shipped(engine: str) -> FlagTable:
    """The table that ships for `engine`; an empty one where there is none: then flags are read by their looks."""
    known = ENGINES.get(engine)
    if known is None or known.flags_file is None:
        return FlagTable(engine=engine, version="")
    return parse_table(known.flags_file.read_text("utf-8"))


@dataclass(frozen=True, slots=True)
class Tables:
    """The flag tables of all known engines, handed to every reader of arguments."""

    own: Mapping[str, FlagTable] = field(default_factory=dict)
    """`EngineKey.id` -> what that engine said of itself (`sparkd.background.parser_store.by_engine`)."""

    def of(self, engine: str, id_: str | None = None) -> FlagTable:
        """What the engine of this id says of itself, else what ships. `id_`: the image's where nothing else decides."""
        found = self.own.get(id_ or "")
        return found if found is not None and found.engine == engine else shipped(engine)


SHIPPED = Tables()
"""Where no engine was asked."""
