"""How long everything is measured: minutes for a look, seconds for CI, longer at night."""

from __future__ import annotations

from dataclasses import dataclass

CYCLES_PER_DAY = 17_280
"""24 h at a period of 5 s."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """Times in seconds. `period_s` and `node_deadline_s` are the daemon's; the real ones are 5 and 4."""

    name: str
    period_s: float = 5.0
    node_deadline_s: float = 4.0
    settle_s: float = 60.0
    """From serving until memory is read; CPU and wake-ups are counted in this time."""
    pairs: int = 25
    """Runs of each command of a comparison."""
    requests: int = 300
    """To each address, in each of the two situations."""
    mute_cycles: int = 12
    growth_cycles: int = 6000
    looks: int = 10
    injections: int = 50
    """Ranks that end or stand still."""
    flood_s: float = 20.0
    """Of each kind of client that means harm."""

    @property
    def quick(self) -> bool:
        return self.name == "quick"


QUICK = Scale(
    name="quick",
    period_s=0.5,
    node_deadline_s=0.4,
    settle_s=8.0,
    pairs=3,
    requests=20,
    mute_cycles=3,
    growth_cycles=200,
    looks=3,
    injections=3,
    flood_s=3.0,
)
NORMAL = Scale(name="normal")
FULL = Scale(name="full", settle_s=600.0, pairs=100, requests=2000, mute_cycles=120, growth_cycles=CYCLES_PER_DAY)
SCALES = {scale.name: scale for scale in (QUICK, NORMAL, FULL)}
