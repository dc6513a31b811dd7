"""Addresses -> one ICMP echo each, all at once: `ADDRESS ok MS`, `ADDRESS lost` or `ADDRESS error WHY`, one a line."""

from __future__ import annotations

import os
import re
import select
import socket
import struct
import time
from typing import Any, Mapping, NamedTuple, Sequence

from sparkd.node import arguments

ADDRESS = re.compile(r"[0-9A-Fa-f:.]{2,45}")
MAX_TIMEOUT_S = 10.0


class Family(NamedTuple):
    number: int
    protocol: int
    request: int
    reply: int


IPV4 = Family(socket.AF_INET, socket.IPPROTO_ICMP, 8, 0)
IPV6 = Family(socket.AF_INET6, socket.IPPROTO_ICMPV6, 128, 129)


class Volley:
    """The echoes of one family, sent through one socket.

    A reply counts by its address, sequence number and our random token: a raw socket sees the answers to everybody's
    pings, and on a datagram socket the kernel chooses the identifier.
    """

    def __init__(self, family: Family) -> None:
        self.waiting: dict[int, tuple[str, float]] = {}
        """Sequence number -> address and time of sending."""
        self._family = family
        self._token = os.urandom(8)
        self._raw = True
        self._socket = self._open()

    def send(self, address: str) -> None:
        """Raises OSError without a route, for something that is no address, and where it is forbidden."""
        socket.inet_pton(self._family.number, address)  # never a name: sendto would ask the resolver
        sequence = len(self.waiting) + 1
        head = struct.pack("!BBHHH", self._family.request, 0, 0, os.getpid() & 0xFFFF, sequence)
        # For IPv6 the kernel computes the checksum: it covers addresses that only the kernel knows.
        total = checksum(head + self._token) if self._family is IPV4 else 0
        sent_at = time.monotonic()
        self._socket.sendto(head[:2] + struct.pack("!H", total) + head[4:] + self._token, (address, 0))
        self.waiting[sequence] = (address, sent_at)

    def receive(self) -> dict[str, str]:
        """The address that answered and its result, or nothing when the packet was not for us."""
        packet, sender = self._socket.recvfrom(2048)
        now = time.monotonic()
        if self._raw and self._family is IPV4:
            packet = packet[(packet[0] & 15) * 4 :]  # a raw IPv4 socket delivers the IP header as well
        if len(packet) < 16 or packet[0] != self._family.reply or packet[8:16] != self._token:
            return {}
        sequence = struct.unpack("!H", packet[6:8])[0]
        address, sent_at = self.waiting.get(sequence, ("", now))
        if not address or not self._same(address, str(sender[0])):
            return {}
        del self.waiting[sequence]
        return {address: f"ok {(now - sent_at) * 1000:.3f}"}

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        self._socket.close()

    def _same(self, asked: str, answered: str) -> bool:
        """IPv6 has many spellings of one address, and a link-local answer carries its interface."""
        bare = answered.partition("%")[0]
        return socket.inet_pton(self._family.number, asked) == socket.inet_pton(self._family.number, bare)

    def _open(self) -> socket.socket:
        try:
            return socket.socket(self._family.number, socket.SOCK_RAW, self._family.protocol)
        except PermissionError:  # without CAP_NET_RAW (the demo): allowed where net.ipv4.ping_group_range says so
            self._raw = False
            return socket.socket(self._family.number, socket.SOCK_DGRAM, self._family.protocol)


def probe(args: Mapping[str, Any], deadline_s: float) -> str:
    addresses = arguments.items(args, "addresses", ADDRESS)
    timeout_s = min(arguments.number(args, "timeout_s", 0.001, MAX_TIMEOUT_S, default=1.0), deadline_s)
    results = dict.fromkeys(addresses, "lost")
    until = time.monotonic() + timeout_s
    volleys: list[Volley] = []
    try:
        for family in (IPV4, IPV6):
            chosen = [address for address in results if (":" in address) == (family is IPV6)]
            if chosen:
                results.update(_fire(family, chosen, volleys))
        results.update(_collect(volleys, until))
    finally:
        for volley in volleys:
            volley.close()
    return "".join(f"{address} {result}\n" for address, result in results.items())


def _fire(family: Family, addresses: Sequence[str], volleys: list[Volley]) -> dict[str, str]:
    """Sends everything and adds the volley to `volleys`; returns what could not even be sent."""
    try:
        volley = Volley(family)
    except OSError as error:
        return dict.fromkeys(addresses, f"error {error}")
    volleys.append(volley)
    failed = {}
    for address in addresses:
        try:
            volley.send(address)
        except OSError as error:
            failed[address] = f"error {error}"
    return failed


def _collect(volleys: Sequence[Volley], until: float) -> dict[str, str]:
    answered: dict[str, str] = {}
    while any(volley.waiting for volley in volleys):
        ready = select.select(volleys, [], [], max(0.0, until - time.monotonic()))[0]
        if not ready:
            break
        for volley in ready:
            answered.update(volley.receive())
    return answered


def checksum(packet: bytes) -> int:
    """RFC 1071, over an even number of bytes."""
    total: int = sum(struct.unpack(f"!{len(packet) // 2}H", packet))
    total = (total >> 16) + (total & 0xFFFF)
    return ~(total + (total >> 16)) & 0xFFFF
