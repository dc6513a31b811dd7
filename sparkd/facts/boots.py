"""`boots` probe -> why and how a node last rebooted, and whether it waits to do so again."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sparkd.facts import Fact, FactError, figure, lines

LONGEST_SAID = 1000
"""Characters of a line of the journal: whatever runs on the node writes there, and patterns look at all of it."""
_UPGRADES = re.compile(r"unattended-upgrade")
_POWER_KEY = re.compile(r"[Pp]ower key")
_TROUBLE = re.compile(r"Kernel panic|Oops|watchdog.*(?:did not stop|hard LOCKUP|soft lockup)|NVRM: Xid|Out of memory")
_ORDERLY = re.compile(r"systemd-shutdown|Journal stopped|Reached target .*(?:[Rr]eboot|[Pp]ower.?[Oo]ff|Halt)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Boots:
    """`end`: (Unix time, text) of the journal's last lines before this boot, empty where none was kept."""

    up_s: float
    """Since this boot."""
    end: tuple[tuple[float, str], ...] = ()
    kernel: str = ""
    driver: str = ""
    kernel_before: str = ""
    driver_before: str = ""
    required: str | None = None
    """Packages for which the system wants a reboot, `-` where it does not say which; None where it wants none."""
    automatic: str | None = None
    """When upgrades reboot the node by themselves (`now`, `02:00`), None where they do not."""

    @property
    def orderly(self) -> bool | None:
        """Was the node shut down? None where no journal of the time before was kept."""
        return any(_ORDERLY.search(text) for _, text in self.end) if self.end else None

    @property
    def unattended(self) -> bool:
        """Did upgrades reboot it?"""
        return any(_UPGRADES.search(text) for _, text in self.end)

    @property
    def why(self) -> str:
        """Why the node last rebooted, in one clause for people; for `history` as well."""
        if not self.end:
            return "why is not known: no journal from before this boot was kept"
        told = [text for _, text in self.end]
        if trouble := next((text for text in reversed(told) if _TROUBLE.search(text)), None):
            return f"before it the kernel said {trouble!r}"
        if not self.orderly:
            return f"nothing was shut down before: a crash, a reset or a power cut; the journal ends with {told[-1]!r}"
        by = "an orderly shutdown, asked for by a person or a program"
        if self.unattended:
            by = "an orderly shutdown by unattended-upgrades"
        elif any(map(_POWER_KEY.search, told)):
            by = "an orderly shutdown after the power key was pressed"
        return by

    @property
    def changes(self) -> tuple[str, ...]:
        """What this boot brought: `kernel A -> B`."""
        pairs = (("kernel", self.kernel_before, self.kernel), ("driver", self.driver_before, self.driver))
        return tuple(f"{name} {old} -> {new}" for name, old, new in pairs if old and new and old != new)


def parse(text: str) -> Boots:
    """Names this version does not know are passed over: a newer node service may tell more."""
    pairs = [(name, value) for name, _, value in (line.partition(" ") for line in lines(text))]
    one = dict(pairs)
    try:
        ends = (value.partition(" ") for name, value in pairs if name == "end")
        return Boots(
            up_s=figure(one["up_s"]),
            end=tuple((figure(at), said[:LONGEST_SAID]) for at, _, said in ends),
            kernel=one.get("kernel", ""),
            driver=one.get("driver", ""),
            kernel_before=one.get("kernel_before", ""),
            driver_before=one.get("driver_before", ""),
            required=one.get("required"),
            automatic=one.get("automatic"),
        )
    except KeyError as error:
        raise FactError(f"no {error.args[0]} in it") from None


BOOTS: Fact[Boots] = Fact("boots", parse)
