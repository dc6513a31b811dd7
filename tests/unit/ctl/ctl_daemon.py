"""A daemon that says what it is told to: the API of docs/interfaces.md on a Unix socket, to drive the real client."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingMixIn, UnixStreamServer
from typing import Any, NamedTuple

Json = dict[str, Any]


class Daemon(ThreadingMixIn, UnixStreamServer):
    """`statuses` and `operations` are handed out one by one, the last for ever; `raw` answers every request."""

    daemon_threads = True

    def __init__(self, socket: str) -> None:
        super().__init__(socket, Conversation)
        self.statuses: list[Json] = []
        self.operations: Sequence[Json | int] = ()
        self.history: list[Json] = []
        self.why: Json = {"schema": 1, "cause": None, "also": []}
        self.checks: Json = {"schema": 1, "checks": []}
        self.logs: list[str] = []
        self.captures: Json = {"schema": 1, "folder": "/var/lib/sparkd/captures/ds4-flash", "captures": []}
        self.capture: Json | None = None
        self.answers: dict[str, Json | tuple[int, Json]] = {}
        """Path, without its query -> what is answered there before anything else is looked for."""
        self.cleanup: Json | None = None
        """None: a daemon of before there was such a path."""
        self.events: list[tuple[str, Json]] = []
        self.refusal: tuple[int, Json] | None = None
        self.raw: bytes | None = None
        self.posted: list[tuple[str, Json]] = []
        self.asked: list[str] = []
        self.hold_streams_open = threading.Event()
        self.followed = threading.Event()
        self.socket_path = socket

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), ConnectionError):  # a client that was interrupted is part of the tests
            super().handle_error(request, client_address)


class Conversation(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Daemon

    def address_string(self) -> str:
        return "unix"

    def log_message(self, *_: object) -> None:
        """Quiet."""

    def do_GET(self) -> None:
        daemon, (path, _, query) = self.server, self.path.partition("?")
        daemon.asked.append(self.path)
        if daemon.raw is not None:
            self.wfile.write(daemon.raw)
            self.close_connection = True
        elif path in daemon.answers:
            found = daemon.answers[path]
            self._answer(*(found if isinstance(found, tuple) else (200, found)))
        else:
            self._known(daemon, path, query)

    def _known(self, daemon: Daemon, path: str, query: str) -> None:
        if path == "/api/v1/status":
            self._answer(200, _next(daemon.statuses))
        elif path.startswith("/api/v1/operations/"):
            answer, *rest = daemon.operations
            daemon.operations = rest or [answer]
            self._answer(*((200, answer) if isinstance(answer, dict) else (answer, error("not_found", "unknown", ""))))
        elif path == "/api/v1/history":
            self._answer(200, {"schema": 1, "events": daemon.history})
        elif path == "/api/v1/events":
            self._stream(f"event: {kind}\ndata: {json.dumps(data)}\n\n" for kind, data in daemon.events)
        elif path.endswith("/cleanup"):
            self._answer(*((200, daemon.cleanup) if daemon.cleanup else (404, error("not_found", "no such path", ""))))
        elif path.endswith("/checks"):
            self._answer(200, daemon.checks)
        elif path.endswith("/why"):
            self._answer(200, daemon.why)
        elif path.endswith("/captures"):
            self._answer(200, daemon.captures)
        elif path.rpartition("/")[0].endswith("/captures"):
            missing = error("not_found", "nothing was saved of generation 9", "saved are: 13")
            self._answer(*((200, daemon.capture) if daemon.capture else (404, missing)))
        elif path.endswith("/logs"):
            self._stream((f"{line}\n" for line in daemon.logs), hold="follow=true" in query)
        else:
            self._answer(404, error("not_found", f"no such path: {path}", ""))

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.posted.append((self.path, body))
        if isinstance(found := self.server.answers.get(self.path), dict):
            self._answer(200, found)
            return
        done = (200, self.server.checks) if self.path.endswith("/checks") else (202, {"schema": 1, "operation": "op-7"})
        self._answer(*(self.server.refusal or done))

    def _answer(self, code: int, body: Json) -> None:
        text = json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def _stream(self, pieces: Iterator[str], hold: bool = True) -> None:
        """Chunked, lines torn in two, as a real server may send them; then silence until the test says so."""
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for piece in pieces:
            half = len(piece) // 2
            for part in (piece[:half].encode(), piece[half:].encode()):
                self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part) if part else b"")
        self.wfile.flush()
        self.server.followed.set()
        if hold:
            self.server.hold_streams_open.wait(30)
        self.wfile.write(b"0\r\n\r\n")
        self.close_connection = True


def _next(answers: list[Any]) -> Any:
    return answers.pop(0) if len(answers) > 1 else answers[0]


def error(code: str, text: str, fix: str) -> Json:
    return {"schema": 1, "error": {"code": code, "text": text, "fix": fix}}


@contextmanager
def daemon(*statuses: Json) -> Iterator[Daemon]:
    with tempfile.TemporaryDirectory() as folder, Daemon(f"{folder}/s") as server:
        server.statuses = list(statuses)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield server
        finally:
            server.hold_streams_open.set()
            server.shutdown()
            thread.join()


def environment(socket: str, **more: str) -> dict[str, str]:
    keep = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLUMNS", "TERM")}
    return {**keep, "TZ": "UTC", "SPARKD_SOCKET": socket, **more}


def sparkd(socket: str, *words: str, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """The real command, in a process of its own, without a terminal."""
    command = [sys.executable, "-W", "error", "-m", "sparkd", *words]
    return subprocess.run(
        command,
        env=environment(socket, **(env or {})),
        text=True,
        capture_output=True,
        stdin=subprocess.DEVNULL,
        check=False,
        timeout=30,
    )


class Session(NamedTuple):
    text: str
    code: int


def on_terminal(
    socket: str, *words: str, env: Mapping[str, str] | None = None, typed: str = "", interrupt_at: str = ""
) -> Session:
    """What the real command writes to a terminal of 80 columns. Once `interrupt_at` was shown ctrl-C is typed."""
    parent, child = pty.openpty()
    full = environment(socket, COLUMNS="80", **{"TERM": "xterm", **(env or {})})
    command = [sys.executable, "-m", "sparkd", *words]
    process = subprocess.Popen(command, env=full, stdin=child, stdout=child, stderr=child, start_new_session=True)
    os.close(child)
    os.write(parent, typed.encode())
    shown = b""
    with contextlib.suppress(OSError):  # EIO: nobody holds the other end any more
        while data := os.read(parent, 65536):
            shown += data
            if interrupt_at and interrupt_at.encode() in shown:
                process.send_signal(signal.SIGINT)
                interrupt_at = ""
    code = process.wait(30)
    os.close(parent)
    return Session(shown.decode(), code)


GOLDEN = Path(__file__).parent / "golden"


def check_golden(name: str, text: str) -> None:
    """Compares with golden/NAME.txt, and writes it where UPDATE_GOLDEN is set; then read what it wrote."""
    file = GOLDEN / f"{name}.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        file.write_text(text)
    assert text == file.read_text(), (
        f"the screen changed: UPDATE_GOLDEN=1 writes {file.name}, read it before keeping it"
    )
