"""The node that sparkd runs on -> its own two sockets; there is no connection that could be lost."""

from __future__ import annotations

from pathlib import Path

import anyio

from sparkd.base import clock
from sparkd.hosts.host import SYSTEM, Sockets


class LocalHost:
    """The head. `sockets` differ from the system's in the demo and in tests."""

    connection = 1

    def __init__(self, name: str, sockets: Sockets = SYSTEM) -> None:
        self.name = name
        self.since = clock.now()
        self._sockets = sockets

    async def run(self) -> None:
        await anyio.sleep_forever()

    def docker_socket(self) -> Path:
        return self._sockets.docker

    def node_socket(self) -> Path:
        return self._sockets.service
