"""The canonical form: one side of a comparison, and one rank of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sparkd.engines import FIRST
from sparkd.engines.flags import FlagTable
from sparkd.engines.tables import Tables


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """Something that a reader could not follow, at `where` (FILE:LINE).

    `text` is what stands in the values in its place (`$X`), empty where it shows in none.
    """

    where: str
    text: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RankForm:
    """One rank, by meaning. A section that is None was not said by this side, and is not compared.

    `flags`: name without dashes -> value as JSON (numbers as numbers, JSON as JSON, bare flags true, `--no-x` false).
    `container`: see `sparkd.drift.container`; `mounts`: target -> source, see `mounted` there.
    """

    rank: int = 0
    node: str | None = None
    engine: str = FIRST
    program: tuple[str, ...] = ()
    model: str | None = None
    flags: Mapping[str, Any] | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    env_whole: bool = False
    """`env` holds the image's own variables too, as a running container's does; a file says only what it adds."""
    image: str | None = None
    image_id: str | None = None
    engine_id: str | None = None
    """The engine's id, where more than the image decides which engine it is: a venv in a mount."""
    container: Mapping[str, Any] | None = None
    mounts: Mapping[str, str] | None = None
    unit: Mapping[str, Any] | None = None
    files: Mapping[str, Any] | None = None
    host: Mapping[str, Any] | None = None
    says: Mapping[str, Any] | None = None
    """What the running engine says of itself, see `sparkd.drift.said`."""

    def table(self, tables: Tables) -> FlagTable:
        """By which its arguments are read."""
        return tables.of(self.engine, self.engine_id or self.image_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One side of a comparison: ranks in order, and what could not be followed. `label` is how people call it."""

    label: str
    kind: str
    ranks: tuple[RankForm, ...] = ()
    gaps: tuple[Gap, ...] = ()

    def rank(self, number: int) -> RankForm | None:
        return next((form for form in self.ranks if form.rank == number), None)
