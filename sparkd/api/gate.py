"""Who may ask what on which listener, and every error as JSON: what stands between the network and the routes."""

from __future__ import annotations

import asyncio
import hmac
import json
import math
import pwd
import socket
import struct
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache, partial
from ipaddress import ip_address
from typing import Any

import anyio
import anyio.lowlevel
import structlog
from aiohttp import web
from aiohttp.typedefs import Middleware

from sparkd.api.service import Forbidden, Refusal
from sparkd.base import files
from sparkd.base.guarded import HINT
from sparkd.base.one_line import clause

log = structlog.get_logger("sparkd.api")

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]

SEND_S = 15.0
"""For a client to take an answer; one that reads no further is cut off, or it would hold memory for ever."""
FILE_S = 2.0
RETRY_S = (1, 3600)
HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """The rules of one listener. On the Unix socket the file's mode says who may write, so everything is allowed."""

    unix: bool
    names: frozenset[str] = frozenset()
    """Host names by which the TCP listener may be asked, beside addresses."""
    token_file: str | None = None

    def check_host(self, request: web.Request) -> None:
        """Raises Forbidden for a foreign Host: a page of another site whose name was pointed here (DNS rebinding)."""
        name = _name(request.headers.get("Host", ""))
        if self.unix or not name or name.lower() in self.names or _is_address(name):
            return
        raise Forbidden(f"this is not {name[:100]}", "ask by address, or by the name of a node")

    async def writer(self, request: web.Request) -> str:
        """Who asks for a change. Raises Forbidden where this listener may not."""
        if self.unix:
            return await _peer(request)
        if self.token_file is None:
            raise Forbidden("this listener is read only", "use the Unix socket (sparkd ctl), or set http.token_file")
        kind, _, token = request.headers.get("Authorization", "").partition(" ")
        if kind.lower() != "bearer" or not _same(token, await self._token()):
            raise Forbidden("the bearer token is missing or wrong", "send Authorization: Bearer TOKEN")
        return f"token from {request.remote}"

    async def _token(self) -> bytes:
        try:
            token = (await files.aside(partial(files.read, str(self.token_file), patience_s=FILE_S))).strip()
        except OSError as error:
            raise Forbidden("the token file cannot be read", f"make {self.token_file} readable") from error
        if len(token) < 16:
            raise Forbidden("the token file holds no token of 16 bytes or more", f"write one to {self.token_file}")
        return token


def _same(token: str, wanted: bytes) -> bool:
    """In constant time. A header may hold any bytes; those that are no UTF-8 come as lone surrogates."""
    return hmac.compare_digest(token.strip().encode("utf-8", "surrogateescape"), wanted)


def _name(host: str) -> str:
    """The name or address in `NAME:PORT` or `[ADDRESS]:PORT`; anything after the bracket but a port is part of the name."""
    if host.startswith("["):
        address, _, rest = host[1:].partition("]")
        return address if not rest or rest.startswith(":") else host
    return host.partition(":")[0]


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def peer_id(transport: asyncio.BaseTransport | None) -> str:
    """The client that a connection counts for: the user on the Unix socket, the address on TCP."""
    name = transport.get_extra_info("peername") if transport is not None else None
    if isinstance(name, tuple):
        return str(name[0])
    credentials = _credentials(transport)
    return f"uid {credentials[1]}" if credentials else "unknown"


def _credentials(transport: asyncio.BaseTransport | None) -> tuple[int, int, int] | None:
    sock = transport.get_extra_info("socket") if transport is not None else None
    if sock is None or sock.family != socket.AF_UNIX:
        return None
    pid, uid, gid = struct.unpack("3i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return pid, uid, gid


async def _peer(request: web.Request) -> str:
    credentials = _credentials(request.transport)
    if credentials is None:
        return "unknown"
    # The user database may be on the network (LDAP): off the loop, and not for long.
    with anyio.move_on_after(FILE_S):
        return await anyio.to_thread.run_sync(_user, credentials[1], abandon_on_cancel=True)
    return f"uid {credentials[1]}"


@lru_cache(maxsize=64)
def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"


def answer(body: Mapping[str, Any], status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    """A JSON object as a response."""
    return json_page(encoded(body), status, headers)


def encoded(body: Mapping[str, Any]) -> bytes:
    """A JSON object on one line."""
    return json.dumps(body, separators=(",", ":"), default=str).encode() + b"\n"


def json_page(body: bytes, status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    """A JSON object that is encoded already."""
    return web.Response(
        body=body, status=status, content_type="application/json", charset="utf-8", headers=dict(headers or {})
    )


def refusal(code: str, text: str, fix: str, status: int, headers: Mapping[str, str] | None = None) -> web.Response:
    """An error in the one shape that all errors have."""
    return answer({"schema": 1, "error": {"code": code, "text": text, "fix": fix}}, status, headers)


def boundary(gate: Gate) -> Middleware:
    """The outermost middleware: nothing leaves as a trace, and nobody who stops reading is waited for.

    Requests are begun one after another, each in a turn of the loop that it has to itself: hundreds that come at once
    would otherwise all be answered in one, and everything else (a look at the nodes takes many turns) would wait as long
    at every step.
    """
    turn = anyio.Lock()

    @web.middleware
    async def through(request: web.Request, handler: Answer) -> web.StreamResponse:
        try:
            async with turn:
                await anyio.lowlevel.checkpoint()
            if request.transport is None or request.transport.is_closing():
                raise ConnectionError  # nobody waits any more
            gate.check_host(request)
            response = await handler(request)
        except Refusal as error:
            response = refusal(error.code, error.text, error.fix, error.status)
        except web.HTTPException as error:
            response = _http(error)
        except web.RequestPayloadError:
            response = refusal("usage", "the body cannot be read", "send it whole, and not compressed", 400)
        except ConnectionError:  # it went away while its request was read; there is nobody to answer
            cut_off(request)
            response = refusal("gone", "the client went away", "", 400)
        except Exception:
            log.exception("request failed", path=request.path, hint=HINT)
            response = refusal("internal", "sparkd failed to answer this; its log has the trace", "", 500)
        if not response.prepared:
            response.headers.update({name: text for name, text in HEADERS.items() if name not in response.headers})
            await _send(request, response)
        return response

    return through


async def _send(request: web.Request, response: web.StreamResponse) -> None:
    with anyio.move_on_after(SEND_S) as scope:
        await response.prepare(request)
        await response.write_eof()
    if scope.cancelled_caught:
        cut_off(request)


def cut_off(request: web.Request) -> None:
    """End a connection without waiting for the client."""
    if request.transport is not None:
        request.transport.abort()


async def expect(request: web.Request) -> web.Response | None:
    """What aiohttp does of itself, outside of every middleware; its refusal is plain text."""
    wanted = request.headers.get("Expect", "")
    if request.version < (1, 1):
        return None  # RFC 9110, 10.1.1: it is ignored there
    if wanted.lower() != "100-continue":
        return refusal(
            "usage", f"nobody here does what Expect: {clause(wanted)} asks for", "leave it out", 417, HEADERS
        )
    await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    request.writer.output_size = 0  # the answer itself has not begun
    return None


_HTTP = {
    404: ("not_found", "there is nothing at this path", "see docs/interfaces.md for the paths"),
    405: ("method", "this path does not take that method", ""),
    413: ("too_large", "the body is larger than 64 KiB", "send less"),
}


def _http(error: web.HTTPException) -> web.Response:
    code, text, fix = _HTTP.get(error.status, ("http", error.reason, ""))
    if isinstance(error, web.HTTPMethodNotAllowed):
        allowed = ", ".join(sorted(error.allowed_methods))
        return refusal(code, text, f"use {allowed}", error.status, {"Allow": allowed})
    return refusal(code, text, fix, error.status)


def retry_after(deployment: Mapping[str, Any], at: float) -> int:
    """Seconds until asking again may be worth it: the planned restart, or the end of the start under way."""
    start, planned = deployment["start"], deployment["next"]
    wait: float | None = None
    if isinstance(start, dict):
        wait = start["eta_s"]
    elif isinstance(planned, dict):
        wait = datetime.fromisoformat(planned["at"]).timestamp() - at
    return min(max(math.ceil(5 if wait is None else wait), RETRY_S[0]), RETRY_S[1])
