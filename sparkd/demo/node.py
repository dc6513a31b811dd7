"""A real node service, asked for ranks that are plain processes: what differs from ranks in containers, and only that.

No control group tells whose a process is, so the service looks for the environment of this node's ranks, and the shims
say which process is the root of which rank.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sparkd.hosts.client import NodeClient, Probed
from sparkd.hosts.host import Host
from sparkd.runtimes.shim import ShimRuntime

OWN = {
    # What runs the ranks is in this very process: there is no Docker that could be stopped.
    "docker": f"running {os.getpid()} 0\n",
    # Shared memory of a demo's ranks is in its own folder; everything else in /dev/shm belongs to other programs.
    "shm": "",
}


class DemoNode(NodeClient):
    """Answers two probes itself, and translates two."""

    def __init__(self, host: Host, owner: str, runtime: ShimRuntime) -> None:
        super().__init__(host, owner)
        self._name, self._runtime = host.name, runtime

    async def probe(self, requests: Mapping[str, Mapping[str, Any] | None], deadline_s: float) -> Probed:
        own = {name: text for name, text in OWN.items() if name in requests}
        asked = {name: args for name, args in requests.items() if name not in own}
        wanted = asked.get("processes")
        if wanted is not None:
            environ = {"SPARKD_NODE": self._name, **(wanted["environ"] or {})}
            asked["processes"] = {"containers": [], "units": [], "environ": environ}
        probed = await super().probe(asked, deadline_s) if asked else Probed({}, {})
        texts = {**probed.texts, **own}
        owners = await self._runtime.owners() if {"processes", "engines"} & texts.keys() else {}
        if (
            "engines" in texts
        ):  # those of this node's ranks: the other node's, and another demo's, run on this machine too
            texts["engines"] = _chosen(owned(texts["engines"], owners), list(owners.values()))
        if wanted is not None and "processes" in texts:
            # Asked by the names of units, of which there are none here: whatever a shim keeps is meant.
            ids = [*wanted["containers"], *(owners.values() if wanted["units"] else ())]
            texts["processes"] = _chosen(owned(texts["processes"], owners), None if wanted["environ"] else ids)
        return replace(probed, texts=texts)


def owned(text: str, owners: Mapping[int, str]) -> list[list[str]]:
    """The probe's lines as words, with the owner filled in: that of the nearest ancestor that has one."""
    lines = [line.split(" ", 6) for line in text.splitlines()]
    parents = {int(line[0]): int(line[1]) for line in lines}

    def owner(pid: int) -> str:
        while pid not in owners and pid in parents:
            pid = parents[pid]
        return owners.get(pid, "-")

    return [[*line[:5], owner(int(line[0])), line[6]] for line in lines]


def _chosen(lines: list[list[str]], ids: list[str] | None) -> str:
    return "".join(" ".join(line) + "\n" for line in lines if ids is None or line[5] in ids)
