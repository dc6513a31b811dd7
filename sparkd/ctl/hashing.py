"""Waits while the nodes hash the model's weights, and says how far they are."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

from sparkd.ctl.client import Api, quote
from sparkd.ctl.drift_values import Hashes
from sparkd.ctl.errors import CtlError
from sparkd.ctl.reading import read
from sparkd.ctl.text import clean, listing, terminal
from sparkd.ctl.wait import ProgressLine

LOOK_S = 1.0
STUCK_S = 60.0
"""Without a byte more: a disk or a mount that hangs."""


def hash_weights(api: Api, deployment: str) -> None:
    """Returns when all are hashed; ctrl-C ends it on the nodes too. Raises CtlError when it makes no progress."""
    line = ProgressLine(terminal(sys.stderr))
    moved, done = time.monotonic(), -1
    while True:
        found = read(Hashes, api.get(f"/api/v1/deployments/{quote(deployment)}/hashes"))
        nodes = found.nodes if isinstance(found.nodes, dict) else {}
        now = sum(int(one["done_bytes"]) for one in nodes.values())
        if now != done:
            moved, done = time.monotonic(), now
        if found.complete:
            break
        if time.monotonic() - moved > STUCK_S:
            line.clear()
            raise CtlError(f"the nodes have hashed nothing for {STUCK_S:g} s", "look at the disk: sparkd ctl check")
        whole = sum(int(one["total_bytes"]) for one in nodes.values())
        line.show(10 * now // max(whole, 1), f"hashing the weights: {listing(_far(nodes))}")
        time.sleep(LOOK_S)
    line.clear()
    unread = [f"{clean(str(name))} on {node}" for node, one in nodes.items() for name in one["unread"]]
    if unread:
        raise CtlError(f"{listing(unread)} could not be read to the end", "look at the disk, and copy it again")


def _far(nodes: dict[str, dict[str, int]]) -> Iterator[str]:
    for node, one in nodes.items():
        yield f"{node} {100 * one['done_bytes'] // max(one['total_bytes'], 1)} %"
