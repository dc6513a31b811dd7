"""Turns a master address into a formed group: rank 0 leads on the master port, the others join and retry in silence.

As with torch, two connections per peer: an idle one to the master port (the store), and the fabric, which carries the
steps, to a free port of rank 0. The idle one shows a widow: it stays in CLOSE_WAIT on the master port (evidence 03).
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import struct
import time
from typing import Any

from . import texts
from .log import bare
from .options import Options
from .stages import StageFailed, readable
from .wire import Lost, Wire

RETRY_S = 0.5
CONNECT_S = 3.0
SIOCGIFADDR = 0x8915  # linux/sockios.h


class Group:
    """The connections of a formed group: fabric wires by rank, and the store's, held open for ever."""

    def __init__(self) -> None:
        self.fabric: dict[int, Wire] = {}
        self.held: list[Any] = []


def lead(options: Options, parent: Wire, timeout_s: float) -> Group:
    """Rank 0: listens until every other rank has joined. Raises StageFailed, or Lost when the parent is gone."""
    group = Group()
    if options.nnodes == 1:
        return group
    store = listen(options.master_addr, options.master_port)
    fabric = listen(fabric_address() or options.master_addr, 0)
    newcomers: list[Wire] = []
    end = time.monotonic() + timeout_s
    while len(group.fabric) < options.nnodes - 1:
        ready = readable([store, fabric, parent, *newcomers], end - time.monotonic())
        if not ready:
            raise StageFailed(texts.STORE_TIMEOUT.format(timeout_s + 1, len(group.fabric) + 1, options.nnodes))
        for source in ready:
            if source is parent:
                parent.read()
            elif source is store or source is fabric:
                newcomers.append(Wire(*source.accept()))
            elif admit(group, source, fabric.getsockname()):
                newcomers.remove(source)
    announce(group)
    fabric.close()
    group.held.append(store)
    return group


def announce(group: Group) -> None:
    """Tells every member that all are there; raises StageFailed when one has left already."""
    for wire in group.fabric.values():
        try:
            wire.send({"formed": True})
        except Lost as lost:
            raise StageFailed("RuntimeError: " + texts.GLOO_CLOSED.format(*wire.peer)) from lost


def admit(group: Group, wire: Wire, fabric: tuple[str, int]) -> bool:
    """Takes a newcomer's first words; True once it is dealt with.

    A store client is told the fabric's address and held, a fabric client becomes a member.
    """
    try:
        for hello in wire.read():
            if "fabric" in hello:
                group.fabric[int(hello["fabric"])] = wire
            else:
                wire.send({"fabric": fabric})
                group.held.append(wire)
            return True
    except (Lost, TypeError, ValueError):
        wire.close()  # a port scanner or a rank that died while joining: the group waits on, as the real one does
        return True
    return False


def listen(address: str, port: int) -> socket.socket:
    """A listening socket; raises StageFailed with torch's message when the port is taken."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((address, port))
    except OSError as error:
        sock.close()
        if error.errno == errno.EADDRINUSE:
            raise StageFailed(texts.PORT_TAKEN.format(port)) from error
        raise StageFailed(f"torch.distributed.DistNetworkError: {error}") from error
    sock.listen(64)
    return sock


def fabric_address() -> str | None:
    """The address of the interface GLOO_SOCKET_IFNAME names, None when it names none; raises StageFailed.

    gloo looks it up only once the store has answered (evidence 16e).
    """
    name = os.environ.get("GLOO_SOCKET_IFNAME", "").split(",")[0]
    if not name:
        return None
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        try:
            answer = fcntl.ioctl(sock, SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
        except OSError as error:
            raise StageFailed(texts.GLOO_NO_INTERFACE.format(name)) from error
    return socket.inet_ntoa(answer[20:24])


def join(options: Options) -> Group:
    """A peer: connects to rank 0, for as long as it takes, whatever happens to its parent meanwhile."""
    while True:
        group = Group()
        try:
            store = connect(options.master_addr, options.master_port)
            group.held.append(store)
            store.send({"store": options.rank})
            address, port = store.next()["fabric"]
            fabric_address()
            wire = connect(address, port)
            wire.send({"fabric": options.rank})
            wire.next()
            group.fabric[0] = wire
            return group
        except Lost:
            retry_note(options, group)
        except (OSError, TypeError, ValueError, KeyError):
            pass  # nobody there yet, or no store: torch keeps trying for 30 minutes
        for held in group.held:
            held.close()
        readable([], RETRY_S)


def retry_note(options: Options, group: Group) -> None:
    """torch's words when a store that had accepted it went away (evidence 08)."""
    if not group.held:
        return
    bare(texts.STORE_RETRY.format(time.strftime("%m%d %H:%M:%S"), options.master))


def connect(address: str, port: int) -> Wire:
    """A connection to rank 0, from VLLM_HOST_IP when that is a loopback address (two ranks on one machine)."""
    own = os.environ.get("VLLM_HOST_IP", "")
    source = (own, 0) if own.startswith("127.") else None
    sock = socket.create_connection((address, port), timeout=CONNECT_S, source_address=source)
    sock.settimeout(None)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return Wire(sock, (address, port))
