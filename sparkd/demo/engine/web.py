"""Turns HTTP requests into engine requests and back: the routes of vLLM's API server that outsiders rely on."""

from __future__ import annotations

import json
import queue
import select
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from . import answers, texts
from .answers import Answer, Ask, Refused, compact
from .client import EngineClient, EngineDead, Stream
from .faults import Faults
from .log import Log, emit
from .options import VERSION, Options

# uvicorn closes an idle connection after this long.
KEEP_ALIVE_S = 5
# How often a request that waits for tokens looks whether its client is still there.
CLIENT_LOOK_S = 1.0
ERROR_CHUNK_AFTER = 2
DEAD_BODY = answers.error_body(texts.ENGINE_DEAD, "InternalServerError", None, 500)


class ClientGone(Exception):
    """The client closed its connection before the answer was complete."""


class Api:
    """What the request threads share."""

    def __init__(self, options: Options, engine: EngineClient, faults: Faults, log: Log) -> None:
        self.options = options
        self.engine = engine
        self.faults = faults
        self.log = log
        self.created = int(time.time())
        self._active = 0
        self._changed = threading.Condition()

    @contextmanager
    def request(self) -> Iterator[None]:
        """Counts a completion while it is being answered."""
        with self._changed:
            self._active += 1
        try:
            yield
        finally:
            with self._changed:
                self._active -= 1
                self._changed.notify_all()

    def drain(self, timeout_s: float) -> None:
        """Waits until no completion is being answered."""
        with self._changed:
            self._changed.wait_for(lambda: self._active == 0, timeout_s)


class Server(ThreadingHTTPServer):
    """The threaded server on a socket that was bound long before it may listen."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, sock: socket.socket, api: Api) -> None:
        super().__init__(sock.getsockname()[:2], Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = sock
        self.api = api

    def start(self) -> None:
        self.socket.listen(2048)
        threading.Thread(target=self.serve_forever, args=(3600.0,), daemon=True).start()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away in the middle of a request is nobody's news."""


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    timeout = KEEP_ALIVE_S
    server: Server

    def version_string(self) -> str:
        return "uvicorn"

    def setup(self) -> None:
        self.request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        super().setup()

    def do_GET(self) -> None:
        self.route()

    do_POST = do_HEAD = do_PUT = do_DELETE = do_OPTIONS = do_GET

    def route(self) -> None:
        """Finds the route; 404, 405 and 401 as FastAPI and vLLM answer them."""
        path = self.path.partition("?")[0]
        methods = {method for method, known in ROUTES if known == path}
        allowed = {f"Bearer {key}" for key in self.server.api.options.api_keys}
        if allowed and path.startswith("/v1") and self.headers.get("Authorization") not in allowed:
            self.answer(401, {"error": "Unauthorized"})
        elif self.command in methods:
            try:
                ROUTES[self.command, path](self)
            except Refused as refused:
                self.answer(refused.status, refused.body)
        elif methods:
            self.answer(405, {"detail": "Method Not Allowed"})
        else:
            self.answer(404, {"detail": "Not Found"})

    # Plain routes.

    def health(self) -> None:
        """200 with a green face for anything but a dead engine: no token is made for it."""
        self.answer(503 if self.server.api.engine.dead else 200, None)

    def ping(self) -> None:
        self.body()
        self.health()

    def version(self) -> None:
        self.answer(200, {"version": VERSION})

    def load(self) -> None:
        self.answer(200, {"server_load": self.server.api.engine.in_flight})

    def metrics(self) -> None:
        page = self.server.api.engine.metrics.page() + str(self.server.api.faults.now().get("metrics", ""))
        self.reply(200, "text/plain; version=0.0.4; charset=utf-8", page.encode())

    def models(self) -> None:
        api = self.server.api
        common = {"object": "model", "created": api.created, "owned_by": "vllm", "root": api.options.model}
        common |= {"parent": None, "max_model_len": api.options.max_model_len}
        data = [{"id": name, **common} for name in api.options.names]
        self.answer(200, {"object": "list", "data": data})

    # Completions.

    def completions(self) -> None:
        self.complete(chat=False)

    def chat(self) -> None:
        self.complete(chat=True)

    def complete(self, chat: bool) -> None:
        """One completion, streamed or not; a dead engine is a 500, and the last thing it does."""
        api = self.server.api
        with api.request():
            ask = answers.read(self.json(), chat, api.options, api.faults.now().get("nonsense"))
            try:
                stream = api.engine.submit("chatcmpl-" if chat else "cmpl-", ask.prompt_tokens, ask.target, ask.reason)
                self.deliver(ask, stream)
            except EngineDead:
                self.answer(500, DEAD_BODY)
                api.engine.on_failure()

    def deliver(self, ask: Ask, stream: Stream) -> None:
        """Hands the tokens over; a client that leaves takes its request with it."""
        answer = Answer(ask, stream.id)
        try:
            if ask.stream:
                self.send_stream(answer, stream)
            else:
                self.send_whole(answer, stream)
        except (ClientGone, OSError):
            self.close_connection = True
            self.server.api.engine.abort(stream)

    def send_whole(self, answer: Answer, stream: Stream) -> None:
        reason = None
        while reason is None:
            count, reason = self.take(stream)
            answer.made += count
            if self.cut_short(answer, stream):
                return self.answer(500, DEAD_BODY)
        return self.answer(200, answer.whole(reason))

    def send_stream(self, answer: Answer, stream: Stream) -> None:
        """Server-sent events; a dying engine ends them with an error chunk and [DONE] under 200 (evidence 02)."""
        first = self.take(stream)
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for opening in answer.opening():
            self.event(compact(opening))
        try:
            count, reason = first
            while True:
                self.event(compact(answer.chunk(count, reason)))
                if reason:
                    break
                if self.cut_short(answer, stream):
                    raise EngineDead
                count, reason = self.take(stream)
            for closing in answer.closing():
                self.event(compact(closing))
        except EngineDead:
            self.stream_failed(answer)
        self.event("[DONE]")
        self.wfile.write(b"0\r\n\r\n")

    def stream_failed(self, answer: Answer) -> None:
        kind = "chat completion" if answer.ask.chat else "completion"
        title = f"Error in {kind} stream generator."
        self.server.api.log.failure("serving.py:500", title, texts.OUTPUT_FRAMES, texts.ENGINE_DEAD_ERROR)
        self.event(json.dumps(DEAD_BODY))

    def cut_short(self, answer: Answer, stream: Stream) -> bool:
        """Whether the control file wants this answer to fail now."""
        if answer.made < ERROR_CHUNK_AFTER or not self.server.api.faults.now().get("error_chunk"):
            return False
        self.server.api.engine.abort(stream)
        return True

    def take(self, stream: Stream) -> tuple[int, str | None]:
        """The next tokens; raises EngineDead, or ClientGone when nobody waits for them any more."""
        while True:
            try:
                return stream.take(CLIENT_LOOK_S)
            except queue.Empty:
                self.check_client()

    def check_client(self) -> None:
        looker = select.poll()
        looker.register(self.connection, select.POLLIN)
        if looker.poll(0) and not self.connection.recv(1, socket.MSG_PEEK):
            raise ClientGone

    # Plumbing.

    def body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def json(self) -> dict[str, Any]:
        """The request's JSON object; raises Refused."""
        try:
            value = json.loads(self.body())
        except ValueError as error:
            raise Refused(400, "Bad Request", f"JSON decode error: {error}") from None
        if not isinstance(value, dict):
            raise Refused(400, "Bad Request", "the body must be a JSON object")
        return value

    def event(self, data: str) -> None:
        payload = f"data: {data}\n\n".encode()
        self.wfile.write(b"%x\r\n%b\r\n" % (len(payload), payload))

    def answer(self, status: int, value: Any) -> None:
        self.reply(status, "application/json", b"" if value is None else compact(value).encode())

    def reply(self, status: int, content_type: str, payload: bytes) -> None:
        self.send_response(status)
        if payload:
            self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(payload)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(payload)

    def log_request(self, code: Any = "-", size: Any = "-") -> None:
        """uvicorn's access line."""
        if self.server.api.options.access_log:
            phrase = HTTPStatus(int(code)).phrase
            address, port = self.client_address[:2]
            emit(1, f'INFO:     {address}:{port} - "{self.requestline}" {int(code)} {phrase}')

    def log_message(self, format: str, *args: Any) -> None:
        """Everything else http.server would say, uvicorn does not."""


ROUTES = {
    ("GET", "/health"): Handler.health,
    ("GET", "/ping"): Handler.ping,
    ("POST", "/ping"): Handler.ping,
    ("GET", "/version"): Handler.version,
    ("GET", "/load"): Handler.load,
    ("GET", "/metrics"): Handler.metrics,
    ("GET", "/v1/models"): Handler.models,
    ("POST", "/v1/completions"): Handler.completions,
    ("POST", "/v1/chat/completions"): Handler.chat,
}
