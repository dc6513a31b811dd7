"""Ranks as plain processes, some of whose deaths look like ones for lack of memory: `sparkd demo fault oom` says which.

By a control group a real node tells why the kernel killed; a process without one leaves no such trace.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from sparkd.model.snapshot import Container
from sparkd.runtimes.shim import ShimRuntime

KILLED = 137


class DemoRuntime(ShimRuntime):
    """`victims` is a file of rank ids; it need not exist."""

    def __init__(self, node_name: str, folder: Path, victims: Path) -> None:
        super().__init__(node_name, folder)
        self._victims = victims

    async def containers(self) -> tuple[Container, ...]:
        found = await super().containers()
        victims = self._victims.read_text("ascii").split() if self._victims.exists() else []
        return tuple(
            replace(one, oom_killed=True) if one.id in victims and one.exit_code == KILLED else one for one in found
        )
