"""Turns a stream socket into a sequence of JSON values, one a line; a lost peer becomes the exception Lost."""

from __future__ import annotations

import errno
import json
import socket
import threading
from collections import deque
from typing import Any


class Lost(Exception):
    """The other end is gone: `reset` tells a reset connection from a closed one."""

    def __init__(self, reset: bool = False) -> None:
        super().__init__("reset" if reset else "closed")
        self.reset = reset


class Wire:
    """One connection, to `peer` when it is TCP. `send` may be called from any thread, reading belongs to one."""

    def __init__(self, sock: socket.socket, peer: tuple[str, int] = ("", 0)) -> None:
        self.sock = sock
        self.peer = peer
        self._partial = b""
        self._whole: deque[Any] = deque()
        self._lock = threading.Lock()

    def fileno(self) -> int:
        return self.sock.fileno()

    def send(self, value: Any) -> None:
        """Writes one value; raises Lost when the other end is known to be gone."""
        data = json.dumps(value, separators=(",", ":")).encode() + b"\n"
        try:
            with self._lock:
                self.sock.sendall(data)
        except OSError as error:
            raise Lost(error.errno == errno.ECONNRESET) from error

    def read(self) -> list[Any]:
        """Takes what has arrived, waiting for the first byte; raises Lost at the end and on what is not JSON."""
        if not self._whole:
            self._receive()
        values = list(self._whole)
        self._whole.clear()
        return values

    def next(self) -> Any:
        """Waits for one value; raises Lost at the end."""
        while not self._whole:
            self._receive()
        return self._whole.popleft()

    def close(self) -> None:
        self.sock.close()

    def _receive(self) -> None:
        try:
            data = self.sock.recv(65536)
        except OSError as error:
            raise Lost(error.errno == errno.ECONNRESET) from error
        if not data:
            raise Lost
        *lines, self._partial = (self._partial + data).split(b"\n")
        try:
            self._whole.extend(json.loads(line) for line in lines)
        except ValueError:
            raise Lost from None  # a foreign client on the master port: no peer of ours


def pair() -> tuple[Wire, Wire]:
    """Two connected wires, for a parent and its child."""
    one, other = socket.socketpair()
    return Wire(one), Wire(other)
