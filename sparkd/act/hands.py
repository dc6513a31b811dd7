"""What actions work with: how each node is reached, the files of the daemon, and who owns what is started."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

import anyio

from sparkd.base import files, secret_files
from sparkd.base.errors import SparkdError
from sparkd.base.secret_files import SecretUnread
from sparkd.hosts.client import NodeClient
from sparkd.model.config import Cluster, Deployment
from sparkd.model.failure_code import FailureCode
from sparkd.runtimes.runtime import Runtime

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Hands:
    cluster: Cluster
    deployment: Deployment
    owner: str
    runtimes: Mapping[str, Mapping[str, Runtime]]
    """Node -> its runtimes, by name."""
    clients: Mapping[str, NodeClient]
    captures: Path
    starting: frozenset[str] = frozenset()
    """Nodes on which an engine of another deployment is between start and ready: their caches and shm are left alone."""

    async def secret(self, name: str) -> str:
        """The value behind a secret's reference, read at the last moment and never kept. Raises ActionFailed."""
        file = self.deployment.secrets[name]
        try:
            return await files.aside(partial(secret_files.read, file))
        except SecretUnread as error:
            raise ActionFailed(f"secret {name} cannot be read from {file}: {error.why}", FailureCode.SECRET) from error


class ActionFailed(SparkdError):
    """One action did not succeed. `code` is the machine-readable reason, `node` where."""

    def __init__(self, text: str, code: FailureCode, node: str = "") -> None:
        self.code, self.node = code, node
        super().__init__(text)


async def at_once(
    items: Iterable[T], do: Callable[[T], Awaitable[object]], describe: Callable[[T, SparkdError], ActionFailed]
) -> None:
    """Do the same for all items concurrently, all to their end; raise the first failure in item order afterwards."""
    listed = list(items)
    failures: dict[int, ActionFailed] = {}

    async def one(index: int, item: T) -> None:
        try:
            await do(item)
        except SparkdError as error:
            failures[index] = describe(item, error)

    async with anyio.create_task_group() as group:
        for index, item in enumerate(listed):
            group.start_soon(one, index, item)
    if failures:
        raise failures[min(failures)]
