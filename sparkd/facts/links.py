"""`links` probe -> the node's network interfaces and RDMA ports."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sparkd.facts import Fact, FactError, lines
from sparkd.model.printed import WHOLE

_IF = re.compile(rf"if (\S+) (\S+) (-?{WHOLE}) ({WHOLE}) (\S+)")
_RDMA = re.compile(rf"rdma (\S+) ({WHOLE}) (\S+) (\S+) (\S+)")


@dataclass(frozen=True, slots=True)
class Interface:
    """`speed_mbps` is -1 where the link is down or has no speed of its own; `state` is the kernel's (up, down, unknown)."""

    name: str
    state: str
    speed_mbps: int
    mtu: int
    addresses: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RdmaPort:
    """`gids` are `INDEX:GID:TYPE`, the filled ones only."""

    device: str
    port: int
    state: str
    interface: str | None
    gids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Links:
    interfaces: tuple[Interface, ...]
    rdma: tuple[RdmaPort, ...]

    def having(self, address: str) -> Interface | None:
        return next((one for one in self.interfaces if address in one.addresses), None)


def parse(text: str) -> Links:
    interfaces, rdma = [], []
    for line in lines(text):
        if match := _IF.fullmatch(line):
            name, state, speed, mtu, addresses = match.groups()
            interfaces.append(Interface(name, state, int(speed), int(mtu), _listed(addresses)))
        elif match := _RDMA.fullmatch(line):
            device, port, state, netdev, gids = match.groups()
            rdma.append(RdmaPort(device, int(port), state, None if netdev == "-" else netdev, _listed(gids)))
        else:
            raise FactError(f"unexpected line {line[:80]!r}")
    if not interfaces:
        raise FactError("no interface in it")
    return Links(tuple(interfaces), tuple(rdma))


def _listed(text: str) -> tuple[str, ...]:
    return () if text == "-" else tuple(text.split(","))


LINKS: Fact[Links] = Fact("links", parse)
