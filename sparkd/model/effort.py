"""How hard a node works for its ranks: figures that grow, seen twice, and what its GPUs say of this moment."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ProcessTime:
    """CPU time of one process so far, in the node's clock ticks; `child_ticks` of its children that ended."""

    pid: int
    start_ticks: int
    owner: str
    """Container id or unit that its control group belongs to."""
    ticks: int
    child_ticks: int
    comm: str
    """Its name, of 15 characters at most."""


@dataclass(frozen=True, slots=True)
class Flow:
    """Bytes over one interface (`net`) or one RDMA port (`rdma`, whose traffic no interface counts) so far."""

    kind: str
    name: str
    received: int
    sent: int


@dataclass(frozen=True, slots=True)
class Effort:
    """One look. `at_s` is on the node's own clock since its boot."""

    at_s: float
    ticks_per_s: int
    processes: tuple[ProcessTime, ...]
    flows: tuple[Flow, ...]


@dataclass(frozen=True, slots=True)
class Efforts:
    """Two looks of one boot, the later of which is `now`."""

    before: Effort
    now: Effort

    @property
    def seconds(self) -> float:
        return self.now.at_s - self.before.at_s


@dataclass(frozen=True, slots=True)
class Card:
    """One GPU at this moment. None where the tool says `[N/A]`, as GB10 does of its memory."""

    name: str
    utilization: float | None
    """Percent of the last second in which a kernel ran, whatever it did: also 100 of one that only waits."""
    memory_utilization: float | None
    """Percent of the last second in which its memory was read or written."""
    power_w: float | None
    sm_mhz: float | None
    reasons: int | None
    """Bits of the driver's clock-event reasons."""

    @property
    def idles(self) -> bool:
        """The driver has lowered its clock because nothing runs."""
        return self.reasons is not None and bool(self.reasons & 0x1)

    @property
    def power_capped(self) -> bool:
        """It draws what it may, and is slowed down for that."""
        return self.reasons is not None and bool(self.reasons & 0x4)


@dataclass(frozen=True, slots=True)
class GpuLoad:
    smi: str
    """ok | missing | failed"""
    said: str
    """nvidia-smi's words where it failed."""
    cards: tuple[Card, ...]
    pids: tuple[int, ...] | None
    """Who has them open for computing; None where the tool does not say."""

    @property
    def power_w(self) -> float | None:
        """Of all of them together; None where one does not say."""
        figures = [card.power_w for card in self.cards]
        known = [one for one in figures if one is not None]
        return sum(known) if known and len(known) == len(figures) else None
