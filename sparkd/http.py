"""The one HTTP client: health, metrics and streamed completions of an engine, and webhook posts.

Every call has one deadline over everything: connecting, waiting, reading to the end. No connection is kept: the server
closes an idle one after 5 s, at the very period of the loop, and a request that meets the close would read as a failure
of the engine. Proxy variables are ignored: one meant for pip would eat every canary.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import aclosing, contextmanager
from typing import Any

import anyio
import httpcore
import httpx
from anyio.lowlevel import RunVar

from sparkd import __version__
from sparkd.base import bounded_bytes, own_time
from sparkd.base.bounded_bytes import MIB, Bounds, TooMuch
from sparkd.base.errors import HostError, Late, Unreachable
from sparkd.base.one_line import clause
from sparkd.base.streamed_answer import Answer, Failing, message
from sparkd.base.streamed_answer import Completion as Completion

PAGE = Bounds(total_bytes=2 * MIB, pieces=4096, line_bytes=2 * MIB)
"""For a page: those of vLLM have some 100 kB, and come in one chunk or a few."""
STREAM = Bounds(total_bytes=8 * MIB, pieces=200_000, line_bytes=256 * 1024)
"""For a completion. A token is a chunk of two lines with 300 bytes, or some kB with log probabilities: this is room for
thirty thousand tokens, and canaries and warm-ups ask for a few."""
REFUSAL_BYTES = 64 * 1024
"""For the body of an answer whose status is not 200; two MiB of JSON held up the loop for 0.1 s."""
READ_BYTES = 4096
HEAD_BYTES = 16 * 1024
"""For one HTTP head, and for the line before each chunk; all that comes before a body is at most twice as long."""
WIRE_BYTES = 4 * STREAM.total_bytes
"""For a body with HTTP's own marks between its chunks."""

UNAUTHORIZED = "HTTP 401"
"""The `why` of a completion begins so when the engine refused it for a missing or a wrong key."""

_clients: RunVar[httpx.AsyncClient] = RunVar("sparkd.http.client")


# ------------------------------------------------------------------------------------------------------------ requests


async def health(base_url: str, path: str, deadline_s: float) -> int | None:
    """Status of GET `path`; None when the connection was refused: no process listens there.

    Raises Late when there was no answer in time, Unreachable when it could not be asked: neither means that the engine
    is dead.
    """
    try:
        with _as_host_errors(base_url), anyio.fail_after(deadline_s):
            async with _client().stream("GET", f"{base_url}{path}") as response:
                return response.status_code
    except _Refused:
        return None


async def metrics_text(base_url: str, path: str, deadline_s: float) -> str:
    """The page of metrics, GET `path`. Raises Late or Unreachable as `health`, HostError for another status than 200."""
    status, text = await page(base_url, path, deadline_s)
    if status != 200:
        raise HostError(base_url, f"HTTP {status} for {path}")
    return text


async def page(base_url: str, path: str, deadline_s: float, token: str | None = None) -> tuple[int, str]:
    """GET `path` -> (status, text of the page). Raises Late or Unreachable as `health`."""
    with _as_host_errors(base_url), anyio.fail_after(deadline_s):
        async with _client().stream("GET", f"{base_url}{path}", headers=_bearer(token)) as response:
            return response.status_code, await _body(response)


def _bearer(token: str | None) -> dict[bytes, bytes]:  # servers read Latin-1; httpx writes texts in ASCII
    return {b"authorization": b"Bearer " + token.encode("latin-1", "replace")} if token else {}


async def post_json(url: str, body: bytes, headers: Mapping[str, str], deadline_s: float) -> int:
    """POST a JSON body and return the status. Raises Late or Unreachable when it was not delivered."""
    sent = {"content-type": "application/json", **headers}
    with _as_host_errors(url), anyio.fail_after(deadline_s):
        async with _client().stream("POST", url, content=body, headers=sent) as response:
            return response.status_code


async def send(method: str, url: str, body: bytes, headers: Mapping[str, str], deadline_s: float) -> tuple[int, str]:
    """One request -> (status, beginning of the answer). Raises Late or Unreachable when there was no answer."""
    sent = {name.encode("ascii", "replace"): value.encode("latin-1", "replace") for name, value in headers.items()}
    with _as_host_errors(url), anyio.fail_after(deadline_s):
        async with _client().stream(method, url, content=body or None, headers=sent) as response:
            return response.status_code, await _refusal(response)


async def complete(
    base_url: str,
    path: str,
    body: Mapping[str, Any],
    deadline_s: float,
    expect: Mapping[str, Any] | None = None,
    token: str | None = None,
) -> Completion:
    """One completion, streamed to its end. Raises nothing: what goes wrong is the `why` of a Completion that is not ok.

    Status 200 and `[DONE]` prove nothing: an engine that dies in mid-stream ends it with an `error` chunk and both
    (evidence 02).
    `expect`: `reasoning: true` wants a reasoning text, `contains: TEXT` wants that text in the answer.
    `token` is sent as bearer token, for an engine that was started to want one.
    """
    answer = Answer(anyio.current_time())
    kind: Failing = ""
    try:
        with _as_host_errors(base_url), own_time.fail_after(deadline_s):
            why = await _read(f"{base_url}{path}", body, token, answer) or answer.judge(expect or {})
            kind = "error" if why else ""
    except Late:
        why, kind = f"not finished within {deadline_s:g} s", "late"
    except HostError as error:
        why = error.why
    return answer.completion(why, kind)


async def aclose() -> None:
    """Close this event loop's client; the next call makes a new one."""
    client = _clients.get(None)
    if client is not None:
        await client.aclose()


def _client() -> httpx.AsyncClient:
    client = _clients.get(None)
    if client is None or client.is_closed:
        client = httpx.AsyncClient(
            headers={"accept-encoding": "identity", "user-agent": f"sparkd/{__version__}"},
            timeout=None,  # the caller's deadline covers the whole call; httpx would count each read alone
            trust_env=False,
            transport=_Transport(),
        )
        _clients.set(client)
    return client


class _Transport(httpx.AsyncHTTPTransport):
    """httpx has no argument for how its connections are read, httpcore below it has."""

    def __init__(self) -> None:
        super().__init__(trust_env=False)
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=ssl.create_default_context(),
            max_connections=64,
            max_keepalive_connections=0,
            network_backend=_Wires(),
        )
        httpcore.AsyncHTTP11Connection.MAX_INCOMPLETE_EVENT_SIZE = HEAD_BYTES


# -------------------------------------------------------------------------------------------------------------- errors


class _Refused(Unreachable):
    """No process listens on that port."""


@contextmanager
def _as_host_errors(url: str) -> Iterator[None]:
    try:
        yield
    except TimeoutError as error:
        raise Late(url, "no answer in time") from error
    except TooMuch as error:
        raise HostError(url, str(error)) from error
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        if any(isinstance(cause, ConnectionRefusedError) for cause in _causes(error)):
            raise _Refused(url, "connection refused") from error
        raise Unreachable(url, clause(_why(error))) from error


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error and all it came from; anyio groups the attempts where a name has several addresses."""
    yield error
    inner = error.exceptions if isinstance(error, BaseExceptionGroup) else ()
    for cause in (*inner, error.__cause__ or error.__context__):
        if cause is not None:
            yield from _causes(cause)


def _why(error: Exception) -> str:
    if isinstance(error, httpx.ConnectError):
        return f"cannot connect ({error})" if str(error) else "cannot connect"
    return f"connection lost ({error})" if str(error) else "connection lost"


# ------------------------------------------------------------------------------------------------------------- reading


async def _read(url: str, body: Mapping[str, Any], token: str | None, answer: Answer) -> str:
    """Stream into `answer`; returns why it failed, or nothing."""
    async with _client().stream("POST", url, json=dict(body), headers=_bearer(token)) as response:
        if response.status_code != 200:
            return f"HTTP {response.status_code}: {message(await _refusal(response))}"
        async with aclosing(bounded_bytes.lines(_raw(response), STREAM)) as lines:
            async for line in lines:
                if not line.startswith(b"data:"):
                    continue  # what else server-sent events have
                data = line[5:].decode("utf-8", "replace").strip()
                if data == "[DONE]":
                    return ""
                if why := answer.take(data):
                    return why
    return "the stream ended without [DONE]"


async def _refusal(response: httpx.Response) -> str:
    """The beginning of its body. Its status is the answer, whatever the rest of the body is."""
    return (await bounded_bytes.beginning(_raw(response), REFUSAL_BYTES)).decode("utf-8", "replace")


async def _body(response: httpx.Response) -> str:
    return (await bounded_bytes.body(_raw(response), PAGE)).decode("utf-8", "replace")


def _raw(response: httpx.Response) -> AsyncIterator[bytes]:
    """Its bytes, as they are: they were asked for so, and a bomb would be unpacked at once."""
    response.extensions["network_stream"].left = WIRE_BYTES
    return response.aiter_raw()


class _Wire(httpcore.AsyncNetworkStream):
    """A connection that is read in small parts, and not without end; `left` are the bytes that may still come.

    The HTTP library parses all that one read brings in one step of the loop, be it a thousand chunks of a byte or as many
    interim answers (1xx), of which it takes any number.
    """

    def __init__(self, stream: httpcore.AsyncNetworkStream) -> None:
        self._stream, self.left = stream, 2 * HEAD_BYTES

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        data = await self._stream.read(min(max_bytes, READ_BYTES), timeout)
        self.left -= len(data)
        if self.left < 0:
            raise httpcore.ReadError("it sends without end")
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        await self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.AsyncNetworkStream:
        return _Wire(await self._stream.start_tls(ssl_context, server_hostname, timeout))

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


class _Wires(httpcore.AnyIOBackend):
    async def connect_tcp(self, *args: Any, **options: Any) -> httpcore.AsyncNetworkStream:
        return _Wire(await super().connect_tcp(*args, **options))
