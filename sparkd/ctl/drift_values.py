"""The daemon's JSON about drift and known-good records -> typed values.

As in `answers`, annotations must stay real types here, so there is no `from __future__ import annotations`.
"""

from typing import NamedTuple


class Difference(NamedTuple):
    """One difference of `ctl drift` and `compare`."""

    severity: str
    kind: str
    name: str
    rank: int | None = None
    node: str | None = None
    known: object = None
    live: object = None
    why: str | None = None
    fix: str | None = None


class Drift(NamedTuple):
    """`unread`: node -> why. `absent` ranks do not run: the next start is compared."""

    against: str
    live: str
    findings: tuple[Difference, ...] = ()
    seconds: float = 0.0
    unread: object = None
    absent: tuple[int, ...] = ()
    ended: tuple[int, ...] = ()
    asleep: tuple[int, ...] = ()
    not_compared: tuple[str, ...] = ()
    flags_by: str | None = None
    deployment: str = ""


class Record(NamedTuple):
    """What worked, as it was recorded. `reference`: it is what everything is compared with."""

    deployment: str
    generation: int
    recorded: str = ""
    note: str | None = None
    pinned: bool = False
    reference: bool = False
    measured: object = None
    text: str = ""
    deployment_file: str | None = None
    file: str = ""
    not_read: tuple[str, ...] = ()
    """Parts of the ranks that could not be read when it was blessed, and are not in the record."""


class Records(NamedTuple):
    """`unusable`: file -> why it is no record."""

    deployment: str
    known_good: tuple[Record, ...] = ()
    unusable: object = None


class Hashes(NamedTuple):
    """`nodes`: node -> done_bytes, total_bytes, unread[]."""

    deployment: str
    complete: bool
    nodes: object
    unread: object = None


class Build(NamedTuple):
    """`nodes`: node -> what the image's file says there, None where it has none."""

    deployment: str
    path: str
    nodes: object
    findings: tuple[Difference, ...] = ()
    image: str | None = None
    unread: object = None
