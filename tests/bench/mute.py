"""The loop of the real daemon while its other node is mute -> how far apart its cycles are, as its event stream shows."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import pairwise
from statistics import median

from .bench import Bench
from .proc import quantile
from .table import Row
from .world import HEAD, WORKER, World

ALLOWED = 6.0 / 5.0
"""6 s at a period of 5 s."""
SITUATIONS = {
    "its service": (f"{WORKER} service",),
    "its Docker": (f"{WORKER} docker",),
    "both Dockers": (f"{HEAD} docker", f"{WORKER} docker"),
    "its sshd": ("sshd",),
}
"""Which processes are frozen: they accept and never answer."""


def mute(bench: Bench) -> Iterator[Row]:
    """Each situation for some cycles; the first two are left out, for the loop meets the silence in the midst of them."""
    bench.settled()
    world, scale = bench.world(), bench.scale
    for what, frozen in SITUATIONS.items():
        with world.frozen(*frozen):
            periods = _periods(world, 2 + scale.mute_cycles)[2:]
        world.until("every node is read again", lambda: _all_read(world), 120.0)
        yield Row(
            benchmark="mute",
            what=f"loop period, {what} mute, p99",
            unit="s",
            value=quantile(periods, 0.99),
            limit=ALLOWED * scale.period_s,
            spread=f"p50 {median(periods):.2f}, n {len(periods)}",
        )


def _all_read(world: World) -> bool:
    return all(one["state"] == "ok" for one in world.api.get("/api/v1/nodes")["nodes"])


def _periods(world: World, count: int) -> list[float]:
    """A `status` is published after every cycle; the first one is what a new listener is greeted with."""
    ends: list[float] = []
    for message in world.api.events(tick_s=60.0):
        if message is not None and message[0] == "status":
            ends.append(time.monotonic())
        if len(ends) == count + 2:
            break
    return [later - earlier for earlier, later in pairwise(ends[1:])]
