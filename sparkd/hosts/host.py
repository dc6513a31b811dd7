"""What every way to reach a node offers: two Unix sockets, or at once the reason why not."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Sockets:
    """Where the two sockets are on a node."""

    docker: Path = Path("/var/run/docker.sock")
    service: Path = Path("/run/sparkd-node.sock")


SYSTEM = Sockets()


class Host(Protocol):
    """One node. Both socket methods answer at once; without a connection they raise a HostError with the reason."""

    @property
    def name(self) -> str: ...

    @property
    def since(self) -> float:
        """When it was connected or lost, on the daemon's clock."""

    @property
    def connection(self) -> int:
        """Counts connections: another number means another connection, so possibly another boot or another service."""

    async def run(self) -> None:
        """Keeps the node reachable until cancelled; never raises."""

    def docker_socket(self) -> Path: ...

    def node_socket(self) -> Path: ...
