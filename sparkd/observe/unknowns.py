"""How a node is reached, and since when each of its facts could not be read: probe text -> value or Unknown."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar

from sparkd.base import bounded_bytes, clock
from sparkd.base.errors import HostError, HostKeyChanged, Late, NotOwner, ProtocolMismatch, Silent, Unreachable
from sparkd.base.unread import bounded
from sparkd.facts import Fact
from sparkd.hosts.client import NodeClient, Probed
from sparkd.model.printed import Unread
from sparkd.model.snapshot import Unknown
from sparkd.runtimes.inside import Inside
from sparkd.runtimes.runtime import Runtime
from sparkd.runtimes.throwaway import Throwaway
from sparkd.runtimes.venvs import Venvs

T = TypeVar("T")

CODES: tuple[tuple[type[HostError], str], ...] = (
    (HostKeyChanged, "host-key"),
    (ProtocolMismatch, "protocol"),
    (NotOwner, "owner"),
    (Late, "timeout"),
    (Unreachable, "unreachable"),
)


@dataclass(slots=True)
class NodeAccess:
    """How one node is reached: its service, its Docker, and its systemd for ranks without containers."""

    client: NodeClient
    docker: Runtime
    docker_runs: bool | None = None
    """Was dockerd running at the last look? Nobody dials it unless it was."""
    process: Runtime | None = None
    """None where no rank runs without a container (benchmarks)."""
    inside: Inside | None = None
    """Files and words of its Docker, for checks; None where ranks run without one."""
    throwaway: Throwaway | None = None
    """Where an image's engine is asked; None where `inside` is."""
    venvs: Venvs | None = None
    """Where an engine without a container is asked; None in the demo, whose engine has no parser."""

    @property
    def runtimes(self) -> dict[str, Runtime]:
        """By the names that deployments and ranks carry."""
        return {"docker": self.docker, "process": self.process or self.docker}


@dataclass(slots=True)
class Unknowns:
    """Remembers since when what could not be read."""

    _since: dict[tuple[str, str], float] = field(default_factory=dict)

    def unknown(self, node: str, key: str, why: str, code: str, *, silent: bool = False) -> Unknown:
        return Unknown(why, self._since.setdefault((node, key), clock.now()), code, silent)

    def known(self, node: str, key: str) -> None:
        self._since.pop((node, key), None)


def code_of(error: HostError) -> str:
    return next((code for kind, code in CODES if isinstance(error, kind)), "unreachable")


@dataclass(frozen=True, slots=True)
class Reader:
    """One node's answer to several probes; called with a fact it gives the value, or Unknown."""

    unknowns: Unknowns
    node: str
    probed: Probed | None
    trouble: HostError | None

    async def __call__(self, fact: Fact[T], key: str | None = None) -> T | Unknown:
        key = key or fact.name
        if self.trouble is not None:
            silent = isinstance(self.trouble, Silent)
            return self.unknowns.unknown(self.node, "node", self.trouble.why, code_of(self.trouble), silent=silent)
        if self.probed is None:
            return self.unknowns.unknown(self.node, key, "not asked in time", "timeout")
        self.unknowns.known(self.node, "node")
        text, error = self.probed.texts.get(fact.name), self.probed.errors.get(fact.name)
        if text is None:
            why, code = (error.why, error.code) if error else ("no answer", "timeout")
            return self.unknowns.unknown(self.node, key, why, code)
        value = await bounded_bytes.parsed(lambda said: bounded(fact.name, fact.parse, said), text)
        if isinstance(value, Unread):
            return self.unknowns.unknown(self.node, key, value.why, "unreadable")
        self.unknowns.known(self.node, key)
        return value
