"""Where the engine of a deployment lies, in an image or on the node itself -> one way to tell which it is, and to ask it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from sparkd.model.config import Deployment
from sparkd.model.engine_key import EngineKey
from sparkd.runtimes import engine_python
from sparkd.runtimes.engine_python import Located
from sparkd.runtimes.inside import Inside
from sparkd.runtimes.throwaway import Throwaway


class Interview(Protocol):
    """On one node, for one kind of runtime. Every method raises DockerError or HostError kinds, also where no engine can be
    told from the command."""

    async def key_of(self, deployment: Deployment, owner: str) -> EngineKey | None:
        """Which engine it is, cheaply; None where it is not there."""
        ...

    async def locate(self, deployment: Deployment, owner: str) -> Located | None:
        """As `key_of`, with the Python that runs it."""
        ...

    async def run(self, located: Located, script: str, owner: str) -> str:
        """What that Python printed of the script. Nothing of it is left, also when this is cancelled."""
        ...


@dataclass(frozen=True, slots=True)
class OfImages:
    """Engines in images, through the node's Docker."""

    node: str
    inside: Inside
    throwaway: Throwaway

    async def key_of(self, deployment: Deployment, owner: str) -> EngineKey | None:
        return await engine_python.key_of(self.inside, deployment, owner, self.node)

    async def locate(self, deployment: Deployment, owner: str) -> Located | None:
        return await engine_python.locate(self.inside, deployment, owner, self.node)

    async def run(self, located: Located, script: str, owner: str) -> str:
        return await self.throwaway.run(located, script, owner)
