"""The verbs of `sparkd ctl` about nodes: what may be typed, with its help."""

from __future__ import annotations

import re
from typing import Any

import click

from sparkd.ctl.blessing import ctl
from sparkd.ctl.client import Api
from sparkd.ctl.commands import nodes, verb
from sparkd.ctl.groups import Command, Number
from sparkd.ctl.names import complete_nodes

__all__ = ["ctl"]

UNITS_S = {"s": 1, "min": 60, "m": 60, "h": 3600, "d": 86400}


class Lasting(click.ParamType[float]):
    """`90min`, `1h`, `1h30min`, `2d` or seconds -> seconds."""

    name = "time"
    _PART = re.compile(r"(\d{1,6}(?:\.\d{1,3})?) *(s|min|m|h|d)")

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        text = str(value).strip()
        parts = self._PART.findall(text)
        seconds = sum(float(number) * UNITS_S[unit] for number, unit in parts)
        if re.fullmatch(r"\d{1,9}", text):
            seconds = float(text)
        elif self._PART.sub("", text).strip():
            seconds = 0.0
        if not 0 < seconds <= 30 * 86400:
            self.fail(f"write a time of at most 30 days, such as 90min, 1h or 2d, not {text!r}", param, ctx)
        return seconds


node = click.argument("node", shell_complete=complete_nodes)
EACH = (
    click.option("-y", "--yes", is_flag=True, help="Do not ask."),
    click.option("--dry-run", is_flag=True, help="Say what would be done; change nothing."),
    click.option("-m", "--message", default="", metavar="REASON", help="Why; kept in the history."),
)
"""The options of every verb that changes something about a node."""


def changing(function: Any) -> Any:
    for add in reversed(EACH):
        function = add(function)
    return function


@ctl.command(cls=Command)
@node
@click.option(
    "--for", "for_s", type=Lasting(), metavar="TIME", help="For this long at most: 90min, 1h, 2d. [default: 1d]"
)
@click.option("--end", is_flag=True, help="It is over: go on now.")
@click.option("--wait", is_flag=True, help="Wait until nothing of sparkd's runs there any more.")
@click.option("--timeout", "timeout_s", type=Number(min=0), metavar="S", help="Wait no longer than this (exit 6).")
@changing
@verb
def maintenance(api: Api, node: str, as_json: bool, **typed: Any) -> int:
    """Planned work on a node: stop what runs there, go on after.

    Every deployment with a rank on NODE is drained (requests in flight have
    `stop.drain` seconds), stopped in order on all of its nodes, and held.
    It goes on by itself after the next boot of NODE, when the time is over,
    or with --end, and a notice says so. Meanwhile no notice is sent about
    NODE and those deployments; that survives restarts of sparkd. Asks first.

    \b
    sparkd ctl maintenance spark2 --for 1h --wait -m "new firmware"
    sparkd ctl maintenance spark2 --end
    """
    from sparkd.ctl.maintenance import Asked, maintain

    return maintain(api, node, Asked(**typed), as_json)


@nodes.command("power-cycle")
@node
@click.option("--force", is_flag=True, help="Also within 6 h of the last time.")
@changing
@verb
def power_cycle(api: Api, node: str, as_json: bool, **typed: Any) -> int:
    """Take the power of a node and give it back, by its power hook.

    The hook is `power` of the node in sparkd.yaml: a program, or one request
    to a smart plug. For a box that answers no SSH; what runs there dies, and
    sparkd starts it again after the boot. Waits for the end of the hook.
    Exits 0 where that succeeded, 1 where it did not. Asks first.

    \b
    sparkd ctl nodes power-cycle spark2 --dry-run
    sparkd ctl nodes power-cycle spark2 -m "answers pings, no SSH"
    """
    from sparkd.ctl.power import Asked, cycle

    return cycle(api, node, Asked(**typed), as_json)
