"""`boot` probe -> Boot: which boot of which node answered, and what its clock says."""

from __future__ import annotations

import math

from sparkd.facts import FactError, lines
from sparkd.model.machine import Boot


def parse(text: str) -> Boot:
    """Names this version does not know are passed over: a newer node service may tell more."""
    fields = dict(line.split(" ", 1) for line in lines(text) if " " in line)
    try:
        return Boot(
            boot_id=fields["boot_id"],
            pid1_ticks=int(fields["pid1_ticks"]),
            uptime_s=_finite(fields["uptime_s"]),
            hostname=fields["hostname"],
            clk_tck=int(fields["clk_tck"]),
            now=_finite(fields["now"]),
        )
    except KeyError as error:
        raise FactError(f"no {error.args[0]} in it") from None
    except ValueError as error:
        raise FactError(str(error)) from None


def _finite(text: str) -> float:
    """`nan` and `inf` are floats too, and every age counted from them would be one."""
    value = float(text)
    if not math.isfinite(value):
        raise FactError(f"{text} is no time")
    return value
