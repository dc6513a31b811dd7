"""The kernel's TCP sockets on given ports -> rows. Asked over netlink, read from /proc/net/tcp where that is missing.

Each read of /proc/net/tcp walks the whole hash table (measured: 2.2 ms for 262,144 empty buckets, four walks a look for
both families; a Spark has twice the buckets). The same question over netlink takes 0.3 ms.
"""

from __future__ import annotations

import socket
import struct
from typing import Container, Iterator, NamedTuple

from sparkd.node import procfs

STATES = (
    "",
    "ESTABLISHED",
    "SYN_SENT",
    "SYN_RECV",
    "FIN_WAIT1",
    "FIN_WAIT2",
    "TIME_WAIT",
    "CLOSE",
    "CLOSE_WAIT",
    "LAST_ACK",
    "LISTEN",
    "CLOSING",
    "NEW_SYN_RECV",
)
"""By the kernel's number, include/net/tcp_states.h."""

TABLES = ("/proc/net/tcp", "/proc/net/tcp6")

_NETLINK_SOCK_DIAG = 4
_GET_TCP = 18  # the older request; unlike SOCK_DIAG_BY_FAMILY it lists both families in one walk
_REQUEST_DUMP = 0x301
_ERROR, _DONE = 2, 3
_HEADER = struct.Struct("=IHHII")
_REQUEST = struct.Struct("=BBBB48sII")
_MESSAGE = struct.Struct("=BBBB2s2s16s16s12x4xIIII")
"""struct inet_diag_msg: family, state, timer, retransmits, ports, addresses; receive queue, send queue, uid, inode."""


class Row(NamedTuple):
    """`tx_queue` in bytes not yet acknowledged, `retransmits` of the oldest; inode 0 where no process has it open."""

    state: str
    local: str
    local_port: int
    remote: str
    remote_port: int
    tx_queue: int
    retransmits: int
    inode: int


def rows(ports: Container[int]) -> list[Row]:
    """Those with a local or remote port among `ports`, in this network namespace.

    Without TIME_WAIT: nobody holds such a socket any more, it stops nobody from listening, and a busy API port has
    thousands of them (reading 10,000 would hold up the head's loop for 50 ms).
    """
    try:
        found = list(_by_netlink())
    except OSError:  # a kernel without inet_diag
        found = list(_by_proc())
    return [row for row in found if row.state != "TIME_WAIT" and (row.local_port in ports or row.remote_port in ports)]


def _by_netlink() -> Iterator[Row]:
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _NETLINK_SOCK_DIAG) as link:
        every_state = (1 << len(STATES)) - 1
        request = _REQUEST.pack(socket.AF_INET, 0, 0, 0, bytes(48), every_state, 0)
        link.send(_HEADER.pack(_HEADER.size + len(request), _GET_TCP, _REQUEST_DUMP, 1, 0) + request)
        while True:
            answer = link.recv(1 << 16)
            at = 0
            while at < len(answer):
                length, kind = _HEADER.unpack_from(answer, at)[:2]
                if kind == _DONE:
                    return
                if kind == _ERROR:
                    raise OSError(-struct.unpack_from("=i", answer, at + _HEADER.size)[0], "no list of TCP sockets")
                yield _diagnosed(answer, at + _HEADER.size)
                at += (length + 3) & ~3


def _diagnosed(answer: bytes, at: int) -> Row:
    fields = _MESSAGE.unpack_from(answer, at)
    family, number, _, retransmits, local_port, remote_port, local, remote, _, tx_queue, _, inode = fields
    state = STATES[number]
    return Row(
        state=state,
        local=_address(family, local),
        local_port=int.from_bytes(local_port, "big"),
        remote=_address(family, remote),
        remote_port=int.from_bytes(remote_port, "big"),
        tx_queue=0 if state == "LISTEN" else tx_queue,  # there it would be the length of the accept queue's limit
        retransmits=retransmits,
        inode=inode,
    )


def _by_proc() -> Iterator[Row]:
    for table in TABLES:
        try:
            lines = procfs.read(table).decode("ascii").split("\n")
        except FileNotFoundError:  # a kernel without IPv6
            continue
        yield from (parsed(line) for line in lines[1:] if line)


def parsed(line: str) -> Row:
    """One line of /proc/net/tcp or tcp6."""
    fields = line.split(None, 10)
    local, local_port = fields[1].split(":")
    remote, remote_port = fields[2].split(":")
    return Row(
        state=STATES[int(fields[3], 16)],
        local=_hexadecimal(local),
        local_port=int(local_port, 16),
        remote=_hexadecimal(remote),
        remote_port=int(remote_port, 16),
        tx_queue=int(fields[4].split(":")[0], 16),
        retransmits=int(fields[6], 16),
        inode=int(fields[9]),
    )


def _hexadecimal(digits: str) -> str:
    """The kernel prints 32-bit words in its own byte order (little-endian on every Spark)."""
    raw = bytes.fromhex(digits)
    packed = b"".join(raw[at : at + 4][::-1] for at in range(0, len(raw), 4))
    return _address(socket.AF_INET if len(packed) == 4 else socket.AF_INET6, packed)


def _address(family: int, packed: bytes) -> str:
    """IPv4-mapped becomes IPv4: a dual-stack listener shows its IPv4 clients that way."""
    if family == socket.AF_INET:
        return socket.inet_ntop(family, packed[:4])
    if packed.startswith(b"\0" * 10 + b"\xff\xff"):
        return socket.inet_ntop(socket.AF_INET, packed[12:])
    return socket.inet_ntop(family, packed)
