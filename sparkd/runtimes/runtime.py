"""What every way to run ranks on a node offers: start them, see them, hear them, end them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any, Protocol

from sparkd.model.rank import RankSpec
from sparkd.model.snapshot import Container
from sparkd.runtimes.logs import LogLine


class Runtime(Protocol):
    """The ranks of one node. Every method has its own deadline and raises DockerError or HostError kinds."""

    async def containers(self) -> tuple[Container, ...]:
        """Every rank that a sparkd started there and that was not removed, running or not, of any owner."""
        ...

    async def start(self, spec: RankSpec, secrets: Mapping[str, str]) -> str:
        """Starts a rank -> its id. When refused, nothing is left; a name that is in use has the code `name-taken`."""
        ...

    async def stop(self, container_id: str, grace_s: float) -> None:
        """SIGTERM, after `grace_s` SIGKILL; returns when nothing of it runs, also when it did not run or is gone."""
        ...

    async def remove(self, container_id: str) -> None:
        """Removes a rank that does not run; returns when its name is free, also when it was."""
        ...

    async def logs(self, container_id: str, tail: int, since: float | None) -> tuple[LogLine, ...]:
        """The last `tail` lines, bounded; `since` is Unix time in seconds."""
        ...

    async def beginning(self, container_id: str, most: int, since: float | None) -> tuple[LogLine, ...]:
        """The first `most` lines of what is left of its log, bounded. Costs no more, however long the log is."""
        ...

    def follow(self, container_id: str, tail: int) -> AsyncGenerator[LogLine, None]:
        """The last `tail` lines and then each new one, until the rank ends. Use `aclosing` to stop early."""
        ...

    async def inspect(self, container_id: str) -> dict[str, Any]:
        """All that the runtime itself knows of it, for the evidence."""
        ...

    async def image(self, ref: str) -> str | None:
        """The id of the image that `ref` names on this node, None without one."""
        ...

    async def events(self, wake: Callable[[], None]) -> None:
        """Calls `wake` when a rank ends, until cancelled; a hint only."""
        ...

    async def aclose(self) -> None: ...
