"""The one HTTP client: health, metrics and streamed completions of an engine, and webhook posts.

Every call has one deadline over everything: connecting, waiting, reading to the end. No connection is kept: the server
closes an idle one after 5 s, at the very period of the loop, and a request that meets the close would read as a failure
of the engine. Proxy variables are ignored: one meant for pip would eat every canary.
"""

from __future__ import annotations

import json
import ssl
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing, contextmanager
from dataclasses import dataclass
from typing import Any

import anyio
import httpx
from anyio.lowlevel import RunVar

from sparkd import __version__, own_time
from sparkd.clause import clause
from sparkd.errors import HostError, Late, Unreachable

MAX_TOKENS = 1 << 31
MAX_BODY_BYTES = 8 * 1024 * 1024
"""No answer of an engine is larger (a vLLM metrics page is some 100 kB); more is cut off and called a failure."""

UNAUTHORIZED = "HTTP 401"
"""How the `why` of a completion begins that was refused for want of a key, or for another than the engine's."""

_clients: RunVar[httpx.AsyncClient] = RunVar("sparkd.http.client")


@dataclass(frozen=True, slots=True)
class Completion:
    """How one completion ended. `ok` only when it was streamed to its end without an error and met what was expected.

    `tokens` is the engine's own count, or that of chunks with text where it gives none. Times: seconds since it was sent.
    """

    ok: bool
    why: str = ""
    text: str = ""
    tokens: int = 0
    first_token_s: float | None = None
    seconds: float = 0.0
    reasoning: str = ""


# ------------------------------------------------------------------------------------------------------------ requests


async def health(base_url: str, deadline_s: float) -> int | None:
    """Status of GET /health; None when the connection was refused: nobody listens.

    Raises Late when there was no answer in time, Unreachable when it could not be asked: neither means that the engine
    is dead.
    """
    try:
        with _as_host_errors(base_url), anyio.fail_after(deadline_s):
            async with _client().stream("GET", f"{base_url}/health") as response:
                return response.status_code
    except _Refused:
        return None


async def metrics_text(base_url: str, deadline_s: float) -> str:
    """The page GET /metrics. Raises Late or Unreachable as `health`, HostError for another status than 200."""
    status, text = await page(base_url, "/metrics", deadline_s)
    if status != 200:
        raise HostError(base_url, f"HTTP {status} for /metrics")
    return text


async def page(base_url: str, path: str, deadline_s: float, token: str | None = None) -> tuple[int, str]:
    """(status, text) of the page GET `path`. Raises Late or Unreachable as `health`."""
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
    `token` is sent as bearer token, for an engine that was started with VLLM_API_KEY.
    """
    answer = _Answer(anyio.current_time())
    try:
        with _as_host_errors(base_url), own_time.fail_after(deadline_s):
            why = await _read(f"{base_url}{path}", body, token, answer) or answer.judge(expect or {})
    except Late:
        why = f"not finished within {deadline_s:g} s"
    except HostError as error:
        why = error.why
    return answer.completion(why)


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
            limits=httpx.Limits(max_connections=64, max_keepalive_connections=0),
            timeout=None,  # the caller's deadline covers the whole call; httpx would count each read alone
            trust_env=False,
            verify=ssl.create_default_context(),
        )
        _clients.set(client)
    return client


# -------------------------------------------------------------------------------------------------------------- errors


class _Refused(Unreachable):
    """Nobody listens on that port."""


@contextmanager
def _as_host_errors(url: str) -> Iterator[None]:
    try:
        yield
    except TimeoutError as error:
        raise Late(url, "no answer in time") from error
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


async def _read(url: str, body: Mapping[str, Any], token: str | None, answer: _Answer) -> str:
    """Stream into `answer`; returns why it failed, or nothing."""
    async with _client().stream("POST", url, json=dict(body), headers=_bearer(token)) as response:
        if response.status_code != 200:
            return f"HTTP {response.status_code}: {_message(await _body(response))}"
        async with aclosing(_events(response)) as events:
            async for data in events:
                if data == "[DONE]":
                    return ""
                if why := answer.take(data):
                    return why
    return "the stream ended without [DONE]"


async def _events(response: httpx.Response) -> AsyncGenerator[str]:
    """The `data:` of server-sent events."""
    rest = b""
    async with aclosing(_chunks(response)) as chunks:
        async for chunk in chunks:
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                if line.startswith(b"data:"):
                    yield line[5:].decode("utf-8", "replace").strip()


async def _body(response: httpx.Response) -> str:
    async with aclosing(_chunks(response)) as chunks:
        return b"".join([chunk async for chunk in chunks]).decode("utf-8", "replace")


async def _chunks(response: httpx.Response) -> AsyncGenerator[bytes]:
    size = 0
    async for chunk in response.aiter_raw():  # asked for as it is; a bomb would be unpacked at once
        size += len(chunk)
        if size > MAX_BODY_BYTES:
            raise HostError(str(response.url), f"the answer is longer than {MAX_BODY_BYTES} bytes")
        yield chunk


@dataclass(slots=True)
class _Answer:
    """What a stream has brought so far; every chunk may be anything."""

    started: float
    text: str = ""
    reasoning: str = ""
    chunks: int = 0
    counted: int | None = None
    first: float | None = None

    def take(self, data: str) -> str:
        """Add one chunk; returns why the stream has failed, or nothing."""
        try:
            chunk = json.loads(data)
        except (ValueError, RecursionError):
            return f"a chunk is not JSON: {data[:80]!r}"
        if not isinstance(chunk, dict):
            return f"a chunk is not an object: {data[:80]!r}"
        if chunk.get("error") or chunk.get("object") == "error":
            return f"error chunk under status 200, after {self.tokens} tokens: {_message(data)}"
        count = _mapping(chunk.get("usage")).get("completion_tokens")
        # Anything can stand there, a number of 400 digits too, and a rate is made of it.
        self.counted = count if type(count) is int and 0 <= count < MAX_TOKENS else self.counted
        choices = chunk.get("choices")
        if isinstance(choices, list) and choices:
            self._choice(_mapping(choices[0]))
        return ""

    def _choice(self, choice: Mapping[str, Any]) -> None:
        delta = _mapping(choice.get("delta"))
        text = _string(delta.get("content")) + _string(choice.get("text"))
        # `reasoning_content` became `reasoning` in newer vLLM.
        reasoning = _string(delta.get("reasoning")) or _string(delta.get("reasoning_content"))
        self.text += text
        self.reasoning += reasoning
        self.chunks += bool(text or reasoning)
        if self.first is None and (text or reasoning or choice.get("finish_reason")):
            self.first = anyio.current_time() - self.started

    @property
    def tokens(self) -> int:
        return self.chunks if self.counted is None else self.counted

    def judge(self, expect: Mapping[str, Any]) -> str:
        """Why a stream that came to its end is no answer, or nothing.

        An empty text with a token is one: a lone token may be half a character, or the mark that opens the reasoning.
        """
        if not self.tokens:
            return "an empty answer"
        if expect.get("reasoning") is True and not self.reasoning:
            return "the answer has no reasoning text"
        wanted = expect.get("contains")
        if isinstance(wanted, str) and wanted not in self.text:
            return f"the answer does not contain {wanted!r}"
        return ""

    def completion(self, why: str) -> Completion:
        return Completion(
            ok=not why,
            why=clause(why),
            text=self.text,
            tokens=self.tokens,
            first_token_s=self.first,
            seconds=anyio.current_time() - self.started,
            reasoning=self.reasoning,
        )


def _message(body: str) -> str:
    """The message of an error body, or how the body begins."""
    try:
        parsed = _mapping(json.loads(body))
    except (ValueError, RecursionError):
        parsed = {}
    found = _mapping(parsed.get("error")).get("message") or parsed.get("message") or parsed.get("error")
    return _string(found) or body.strip() or "no body"


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _string(value: Any) -> str:
    return value if isinstance(value, str) else ""
