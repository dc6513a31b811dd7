"""What the daemon answers about nodes, as typed values; named tuples with real types, for the reasons of `sparkd.ctl.answers`."""

from typing import NamedTuple


class Moment(float):
    """Unix time, written as RFC 3339 in answers."""


class Memory(NamedTuple):
    """Bytes. GB10 has one pool for everything."""

    total: int | None = None
    free: int | None = None
    available: int | None = None
    page_cache: int | None = None
    shm: int | None = None
    swap_used: int | None = None


class MemoryAlert(NamedTuple):
    """A node runs out of memory (`low`), or loses it while idle (`drain`)."""

    kind: str
    text: str
    since: Moment | None = None
    fix: str = ""


class Work(NamedTuple):
    """Planned work on a node."""

    since: Moment | None = None
    until: Moment | None = None
    by: str | None = None
    message: str | None = None


class PowerUse(NamedTuple):
    """`ok` is None while it goes on."""

    at: Moment
    by: str | None = None
    message: str | None = None
    ok: bool | None = None
    text: str = ""


class Power(NamedTuple):
    """The power hook of a node."""

    auto: bool = False
    last: PowerUse | None = None


class Node(NamedTuple):
    name: str
    state: str
    since: Moment | None = None
    why: str | None = None
    boot_at: Moment | None = None
    memory: Memory | None = None
    memory_alerts: tuple[MemoryAlert, ...] = ()
    maintenance: Work | None = None
    power: Power | None = None

    @property
    def unread(self) -> bool:
        return self.state == "unknown"
