"""`boot` probe -> Boot: which boot of which node answered, and what its clock says."""

from __future__ import annotations

from sparkd.facts import Fact, FactError, count, figure, lines
from sparkd.model.machine import Boot


def parse(text: str) -> Boot:
    """Names this version does not know are passed over: a newer node service may tell more."""
    fields = dict(line.split(" ", 1) for line in lines(text) if " " in line)
    try:
        return Boot(
            boot_id=fields["boot_id"],
            pid1_ticks=count(fields["pid1_ticks"]),
            uptime_s=figure(fields["uptime_s"]),
            hostname=fields["hostname"],
            clk_tck=count(fields["clk_tck"]),
            now=figure(fields["now"]),
        )
    except KeyError as error:
        raise FactError(f"no {error.args[0]} in it") from None


BOOT = Fact("boot", parse)
