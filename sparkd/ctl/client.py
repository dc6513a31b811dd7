"""Turns a path of the daemon's API into its JSON: HTTP/1.1 over a Unix socket, by hand.

http.client would pull in the email package and nearly double what `ctl status` costs; one request per connection is all
that is needed. Every wait has a deadline, and so has an answer as a whole; a stream hands out None when nothing came for
`tick_s`. What is behind the socket need not be sparkd.
"""

from __future__ import annotations

import errno
import json
import os
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Any

from sparkd.ctl.errors import Refused, Unreached
from sparkd.ctl.reading import check_schema
from sparkd.ctl.text import clean

DEFAULT_SOCKET = "/run/sparkd/sparkd.sock"
ANSWER_BYTES_MAX = 64 << 20
"""Of an answer, and of one line of a stream."""
HEAD_BYTES_MAX = 65536
QUEUE_PAUSE_S = 0.05
SAFE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~")

FIXES = {
    errno.ENOENT: "is it running? systemctl status sparkd (another socket: --socket PATH or SPARKD_SOCKET)",
    errno.ECONNREFUSED: "it is not running: systemctl status sparkd, then journalctl -u sparkd",
    errno.EACCES: "add yourself to the group sparkd: sudo usermod -aG sparkd $USER, then log in again",
    errno.EPERM: "add yourself to the group sparkd: sudo usermod -aG sparkd $USER, then log in again",
    errno.ENOTSOCK: "this is no socket: give the daemon's with --socket PATH or SPARKD_SOCKET",
}
LOOK = "look at it: systemctl status sparkd, journalctl -u sparkd"


class Api:
    """The daemon behind one socket. Raises Unreached or Refused, nothing else."""

    def __init__(self, path: str = DEFAULT_SOCKET, deadline_s: float = 10.0) -> None:
        self.path = path
        self.deadline_s = deadline_s

    def get(self, path: str, **query: object) -> dict[str, Any]:
        with closing(self._ask("GET", path + _query(query), b"")) as reply:
            return _object(reply.whole())

    def post(self, path: str, body: Mapping[str, object]) -> dict[str, Any]:
        with closing(self._ask("POST", path, json.dumps(body).encode())) as reply:
            return _object(reply.whole())

    def lines(self, path: str, tick_s: float | None = None, **query: object) -> Iterator[str | None]:
        """The body line by line as it comes, connected before this returns. With `tick_s` silence is no error: None is
        handed out whenever that long nothing came."""
        return _lines(self._ask("GET", path + _query(query), b""), tick_s)

    def events(self, tick_s: float) -> Iterator[tuple[str, dict[str, Any]] | None]:
        """(kind, data) of the daemon's event stream, connected before this returns; None after `tick_s` of silence."""
        return _events(self.lines("/api/v1/events", tick_s))

    def _ask(self, method: str, target: str, body: bytes) -> _Reply:
        head = f"{method} {target} HTTP/1.1\r\nHost: sparkd\r\nConnection: close\r\n"
        if method == "POST":
            head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(self.deadline_s)
        try:
            self._connect(connection)
            connection.sendall(head.encode() + b"\r\n" + body)
        except TimeoutError:
            connection.close()
            raise Unreached(f"the daemon accepted nothing on {self.path} within {self.deadline_s:g} s", LOOK) from None
        except OSError as error:
            connection.close()
            why, fix = error.strerror or str(error), FIXES.get(error.errno or 0, LOOK)
            raise Unreached(f"the daemon cannot be reached at {self.path}: {why}", fix) from None
        reply = _Reply(connection, self.deadline_s)
        try:
            reply.read_head()
            if reply.status >= 400:
                raise _refusal(reply)
        except BaseException:
            reply.close()
            raise
        return reply

    def _connect(self, connection: socket.socket) -> None:
        """Raises TimeoutError when there was no place in the daemon's queue: at a full one the kernel never waits."""
        until = time.monotonic() + self.deadline_s
        while True:
            try:
                return connection.connect(self.path)
            except BlockingIOError:
                if time.monotonic() > until:
                    raise TimeoutError from None
                time.sleep(QUEUE_PAUSE_S)


class _Reply:
    """One answer on its own connection."""

    def __init__(self, connection: socket.socket, deadline_s: float) -> None:
        self._connection = connection
        self._deadline_s = deadline_s
        self._ends: float | None = time.monotonic() + deadline_s
        self._buffer = b""
        self._ended = False
        self.tick_s: float | None = None
        self.status = 0
        self._headers: dict[str, str] = {}

    def close(self) -> None:
        self._connection.close()

    def read_head(self) -> None:
        first, *rest = self._until(b"\r\n\r\n").decode("latin-1").split("\r\n")
        version, _, words = first.partition(" ")
        code = words.partition(" ")[0]
        if not version.startswith("HTTP/1.") or not code.isdigit():
            raise Unreached(
                "what answers on the socket is not sparkd: it speaks no HTTP", "check --socket and SPARKD_SOCKET"
            )
        self.status = int(code)
        self._ends = None  # a stream may go on for as long as something comes
        pairs = (line.partition(":") for line in rest)
        self._headers = {name.strip().lower(): value.strip() for name, _, value in pairs}

    def whole(self) -> bytes:
        """Raises Unreached when it is longer than any answer, or does not come to its end in time."""
        self._ends = time.monotonic() + self._deadline_s
        found, size = [], 0
        for chunk in self.body():
            found.append(chunk or b"")
            size += len(found[-1])
            if size > ANSWER_BYTES_MAX:
                raise _cut_off()
        return b"".join(found)

    def body(self) -> Iterator[bytes | None]:
        """Raises Unreached when the body ends before its announced length."""
        if self._headers.get("transfer-encoding", "").lower() == "chunked":
            yield from self._chunks()
        elif (length := self._headers.get("content-length", "")).isdigit():
            yield from self._exactly(int(length))
        else:
            while not self._ended:
                yield from self._more()
                taken, self._buffer = self._buffer, b""
                yield taken

    def _chunks(self) -> Iterator[bytes | None]:
        while True:
            while b"\r\n" not in self._buffer:
                if len(self._buffer) > HEAD_BYTES_MAX:
                    raise _cut_off()
                yield from self._more(must=True)
            size, _, self._buffer = self._buffer.partition(b"\r\n")
            try:
                length = int(size.split(b";")[0], 16)
            except ValueError:
                raise _cut_off() from None
            if length < 0:
                raise _cut_off()
            if length == 0:
                return
            yield from self._exactly(length)
            while len(self._buffer) < 2:
                yield from self._more(must=True)
            self._buffer = self._buffer[2:]

    def _exactly(self, length: int) -> Iterator[bytes | None]:
        if length > ANSWER_BYTES_MAX:
            raise _cut_off()
        while length:
            if not self._buffer:
                yield from self._more(must=True)
            taken, self._buffer = self._buffer[:length], self._buffer[length:]
            length -= len(taken)
            yield taken

    def _until(self, mark: bytes) -> bytes:
        while mark not in self._buffer:
            if len(self._buffer) > HEAD_BYTES_MAX:
                raise _cut_off()
            for _ in self._more(must=True):
                pass
        found, _, self._buffer = self._buffer.partition(mark)
        return found

    def _more(self, must: bool = False) -> Iterator[None]:
        """Receives until something came, with a None for every silent tick."""
        while True:
            left = self.tick_s or (self._deadline_s if self._ends is None else self._ends - time.monotonic())
            try:
                if left <= 0:
                    raise TimeoutError
                self._connection.settimeout(left)
                data = self._connection.recv(65536)
                break
            except TimeoutError:
                if self.tick_s is None:
                    raise Unreached(f"the daemon did not answer within {self._deadline_s:g} s", LOOK) from None
                yield None
            except OSError:
                raise _cut_off() from None
        self._buffer += data
        self._ended = not data
        if self._ended and must:
            raise _cut_off()


def _lines(reply: _Reply, tick_s: float | None) -> Iterator[str | None]:
    with closing(reply):
        reply.tick_s = tick_s
        rest = b""
        for chunk in reply.body():
            if chunk is None:
                yield None
                continue
            *whole, rest = (rest + chunk).split(b"\n")
            if len(rest) > ANSWER_BYTES_MAX:
                raise _cut_off()
            yield from (line.decode(errors="replace") for line in whole)
        if rest:
            yield rest.decode(errors="replace")


def _events(lines: Iterator[str | None]) -> Iterator[tuple[str, dict[str, Any]] | None]:
    """Server-sent events; a comment (`: keep-alive`) is an empty field and falls through."""
    kind, data = "", ""
    for line in lines:
        if line is None:
            yield None
            continue
        field, _, value = line.rstrip("\r").partition(":")
        if field == "event":
            kind = value.strip()
        elif field == "data":
            data += value.removeprefix(" ")
        elif not line.strip() and data:
            yield kind, _object(data.encode())
            kind, data = "", ""


def default_socket() -> str:
    return os.environ.get("SPARKD_SOCKET") or DEFAULT_SOCKET


def quote(name: str) -> str:
    """One path segment, whatever was typed."""
    return "".join(char if char in SAFE else "".join(f"%{byte:02X}" for byte in os.fsencode(char)) for char in name)


def _query(query: Mapping[str, object]) -> str:
    pairs = "&".join(f"{name}={quote(str(value))}" for name, value in query.items() if value is not None)
    return f"?{pairs}" if pairs else ""


def _object(text: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(text)
    except (ValueError, RecursionError):
        raise Unreached(f"the daemon's answer is no JSON: {text[:60].decode(errors='replace')!r}", LOOK) from None
    if not isinstance(answer, dict):
        raise Unreached("the daemon's answer is no JSON object", LOOK)
    check_schema(answer)
    return answer


def _refusal(reply: _Reply) -> Exception:
    try:
        error = json.loads(reply.whole())["error"]
        text, fix = clean(str(error["text"])), clean(str(error.get("fix") or ""))
        return Refused(text, fix, str(error.get("code", "failed")), reply.status)
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError):
        # Not written by sparkd's own error path: the status is all that can be told.
        return Refused(f"the daemon answered with HTTP status {reply.status}, no reason", LOOK, "failed", reply.status)


def _cut_off() -> Unreached:
    return Unreached("the daemon's answer was cut off", LOOK)
