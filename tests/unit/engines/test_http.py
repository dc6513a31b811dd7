"""The HTTP client against a real server that misbehaves in each way an engine has."""

from __future__ import annotations

import gzip
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import Any

import anyio
import pytest
from aiohttp import web

from sparkd import http
from sparkd.base.errors import HostError, Late, Unreachable

BODY = {"model": "tiny", "messages": [], "stream": True}
CHAT = "/v1/chat/completions"
DEAD = "EngineCore encountered an issue. See stack trace (above) for the root cause."
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Engine:
    """A server on a free port; a test says what each path does. `seen` are the requests that came."""

    def __init__(self) -> None:
        self.handlers: dict[str, Handler] = {}
        self.seen: list[web.Request] = []
        self.peers: set[object] = set()
        self.url = ""
        self.reached = anyio.Event()
        self.gone = anyio.Event()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.seen.append(request)
        self.reached.set()
        try:
            await request.read()
            assert request.transport is not None
            self.peers.add(request.transport.get_extra_info("peername"))
            return await self.handlers[request.path](request)
        finally:
            if request.protocol.transport is None or request.protocol.transport.is_closing():
                self.gone.set()

    def streams(self, *lines: str, path: str = CHAT) -> None:
        async def send(request: web.Request) -> web.StreamResponse:
            response = web.StreamResponse(headers={"content-type": "text/event-stream"})
            await response.prepare(request)
            for line in lines:
                await response.write(f"{line}\n\n".encode())
            return response

        self.handlers[path] = send

    def answers(self, path: str, status: int, text: str = "") -> None:
        async def send(request: web.Request) -> web.StreamResponse:
            return web.Response(status=status, text=text)

        self.handlers[path] = send


@pytest.fixture
async def engine() -> AsyncIterator[Engine]:
    made = Engine()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", made.handle)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    made.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield made
    await http.aclose()
    await runner.cleanup()


def chunk(finish: str | None = None, **delta: Any) -> str:
    return "data: " + json.dumps({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})


def usage(tokens: int) -> str:
    return "data: " + json.dumps({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": tokens}})


ROLE = chunk(role="assistant", content="")
DONE = "data: [DONE]"
ERROR = "data: " + json.dumps({"error": {"message": DEAD, "type": "InternalServerError", "code": 500}})


async def complete(engine: Engine, **more: Any) -> http.Completion:
    return await http.complete(engine.url, CHAT, BODY, more.pop("deadline_s", 5.0), **more)


async def test_a_whole_answer(engine: Engine) -> None:
    engine.streams(ROLE, chunk(content="re"), ": a comment", chunk(content="ady"), chunk("stop"), usage(5), DONE)
    found = await complete(engine)
    assert (found.ok, found.why, found.text, found.tokens) == (True, "", "ready", 5)
    assert found.first_token_s is not None
    assert 0 < found.first_token_s <= found.seconds < 5
    assert await engine.seen[0].json() == BODY


async def test_chunks_count_where_the_engine_does_not(engine: Engine) -> None:
    engine.streams(ROLE, chunk(content="a"), chunk(content="b"), chunk("length"), DONE)
    assert (await complete(engine)).tokens == 2


async def test_a_text_completion(engine: Engine) -> None:
    text = "data: " + json.dumps({"choices": [{"text": "hi", "finish_reason": "length"}]})
    engine.streams(text, usage(1), DONE, path="/v1/completions")
    found = await http.complete(engine.url, "/v1/completions", {}, 5)
    assert (found.ok, found.text) == (True, "hi")


@pytest.mark.parametrize("name", ["reasoning", "reasoning_content"])
async def test_reasoning_under_both_names(engine: Engine, name: str) -> None:
    engine.streams(chunk(**{name: "hm"}), chunk(content="51"), usage(4), DONE)
    found = await complete(engine, expect={"reasoning": True, "contains": "51"})
    assert (found.ok, found.reasoning, found.text) == (True, "hm", "51")


async def test_a_lone_token_without_text_is_an_answer(engine: Engine) -> None:
    engine.streams(ROLE, chunk("length", content=""), usage(1), DONE)
    found = await complete(engine)
    assert (found.ok, found.tokens, found.text) == (True, 1, "")
    assert found.first_token_s is not None


@pytest.mark.parametrize(
    ("lines", "expect", "why"),
    [
        ((ROLE, chunk(content="a"), ERROR, DONE), {}, f"error chunk under status 200, after 1 tokens: {DEAD}"),
        (('data: {"object": "error", "message": "no"}', DONE), {}, "error chunk under status 200, after 0 tokens: no"),
        ((ROLE, chunk(content="a"), chunk("stop"), usage(1)), {}, "the stream ended without [DONE]"),
        ((), {}, "the stream ended without [DONE]"),
        ((ROLE, chunk("stop"), usage(0), DONE), {}, "an empty answer"),
        ((DONE,), {}, "an empty answer"),
        (("data: {oops", DONE), {}, "a chunk is not JSON: '{oops'"),
        (("data: [1]", DONE), {}, "a chunk is not an object: '[1]'"),
        ((chunk(content="a"), DONE), {"reasoning": True}, "the answer has no reasoning text"),
        ((chunk(content="a"), DONE), {"contains": "b"}, "the answer does not contain 'b'"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_what_is_no_answer(engine: Engine, lines: tuple[str, ...], expect: dict[str, Any], why: str) -> None:
    engine.streams(*lines)
    found = await complete(engine, expect=expect)
    assert (found.ok, found.why) == (False, why)


@pytest.mark.parametrize(
    "data",
    [
        '{"choices": 5}',
        '{"choices": [null]}',
        '{"choices": [{"delta": [], "text": 5}]}',
        '{"usage": []}',
        '{"usage": {}}',
    ],
)
async def test_odd_chunks_are_passed_over(engine: Engine, data: str) -> None:
    engine.streams(f"data: {data}", chunk(content="a"), DONE)
    assert (await complete(engine)).ok


@pytest.mark.parametrize(
    ("status", "text", "why"),
    [
        (500, json.dumps({"error": {"message": DEAD, "code": 500}}), f"HTTP 500: {DEAD}"),
        (400, json.dumps({"object": "error", "message": "too long"}), "HTTP 400: too long"),
        (404, "not here", "HTTP 404: not here"),
        (503, "", "HTTP 503: no body"),
        (307, "", "HTTP 307: no body"),
    ],
)
async def test_another_status(engine: Engine, status: int, text: str, why: str) -> None:
    engine.answers(CHAT, status, text)
    assert (await complete(engine)).why == why


async def test_a_plain_body_where_a_stream_was_asked_for(engine: Engine) -> None:
    engine.answers(CHAT, 200, json.dumps({"choices": [{"message": {"content": "hi"}}]}))
    assert (await complete(engine)).why == "the stream ended without [DONE]"


def stall(before: tuple[str, ...]) -> Handler:
    async def send(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        if before:
            await response.prepare(request)
        for line in before:
            await response.write(f"{line}\n\n".encode())
        await anyio.sleep_forever()
        return response

    return send


@pytest.mark.parametrize("before", [(), (ROLE,), (ROLE, chunk(content="a"))], ids=["headers", "first token", "stream"])
async def test_the_deadline_covers_everything(engine: Engine, before: tuple[str, ...]) -> None:
    """A frozen peer: tokens stop and nothing closes the connection for 300 s (evidence 04)."""
    engine.handlers[CHAT] = stall(before)
    with anyio.fail_after(5):
        found = await complete(engine, deadline_s=0.2)
        assert (found.ok, found.why) == (False, "not finished within 0.2 s")
        if engine.seen:  # on a busy machine the deadline can pass before the request has arrived
            await engine.gone.wait()


async def test_the_deadline_holds_against_a_slow_trickle(engine: Engine) -> None:
    async def trickle(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b": still here\n\n")
            await anyio.sleep(0.01)

    engine.handlers[CHAT] = trickle
    with anyio.fail_after(5):
        assert (await complete(engine, deadline_s=0.2)).why == "not finished within 0.2 s"


async def test_a_reset_in_mid_stream(engine: Engine) -> None:
    async def reset(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(f"{chunk(content='a')}\n\n".encode())
        assert request.transport is not None
        request.transport.abort()
        return response

    engine.handlers[CHAT] = reset
    found = await complete(engine)
    assert (found.ok, found.tokens) == (False, 1)
    assert found.why.startswith("connection lost")


async def test_an_endless_answer_is_cut_off(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PAGE", "STREAM"):
        monkeypatch.setattr(http, name, replace(getattr(http, name), total_bytes=10_000))
    engine.streams("data: " + "x" * 20_000)
    assert (await complete(engine)).why == "the answer is longer than 10000 bytes"
    engine.answers("/metrics", 200, "x" * 20_000)
    with pytest.raises(HostError, match="longer than"):
        await http.metrics_text(engine.url, "/metrics", 5)


async def test_nobody_listens(engine: Engine, unused_url: str) -> None:
    assert await http.health(unused_url, "/health", 5) is None
    assert (await http.complete(unused_url, CHAT, BODY, 5)).why == "connection refused"
    with pytest.raises(Unreachable, match="connection refused"):
        await http.metrics_text(unused_url, "/metrics", 5)
    with pytest.raises(Unreachable, match="connection refused"):
        await http.post_json(unused_url, b"{}", {}, 5)


@pytest.fixture
async def unused_url() -> str:
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = listener.extra(anyio.abc.SocketAttribute.local_port)
    await listener.aclose()
    return f"http://127.0.0.1:{port}"


async def test_a_name_with_several_addresses_refused_on_all(engine: Engine, unused_url: str) -> None:
    assert await http.health(unused_url.replace("127.0.0.1", "localhost"), "/health", 5) is None


@pytest.mark.parametrize("url", ["http://no-such-host.invalid:1", "nonsense", "http://[::bad"])
async def test_what_cannot_be_asked_is_unknown_and_never_refused(engine: Engine, url: str) -> None:
    with pytest.raises(Unreachable):
        await http.health(url, "/health", 5)
    assert not (await http.complete(url, CHAT, BODY, 5)).ok


@pytest.mark.parametrize("status", [200, 503, 404, 307])
async def test_health_is_the_status(engine: Engine, status: int) -> None:
    engine.answers("/health", status)
    assert await http.health(engine.url, "/health", 5) == status


async def test_a_mute_server_is_late(engine: Engine) -> None:
    engine.handlers["/health"] = engine.handlers["/metrics"] = engine.handlers["/hook"] = stall(())
    for ask in (
        http.health(engine.url, "/health", 0.1),
        http.metrics_text(engine.url, "/metrics", 0.1),
        http.post_json(f"{engine.url}/hook", b"{}", {}, 0.1),
    ):
        with pytest.raises(Late):
            await ask


async def test_a_server_that_hangs_up_is_unreachable(engine: Engine) -> None:
    async def hang_up(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    engine.handlers["/health"] = hang_up
    with pytest.raises(Unreachable, match="connection lost"):
        await http.health(engine.url, "/health", 5)


async def test_metrics(engine: Engine) -> None:
    engine.answers("/metrics", 200, "vllm:generation_tokens_total 5\n")
    assert await http.metrics_text(engine.url, "/metrics", 5) == "vllm:generation_tokens_total 5\n"
    engine.answers("/metrics", 404)
    with pytest.raises(HostError, match="HTTP 404"):
        await http.metrics_text(engine.url, "/metrics", 5)


async def test_a_post(engine: Engine) -> None:
    engine.answers("/hook", 204)
    assert await http.post_json(f"{engine.url}/hook", b'{"a": 1}', {"x-sparkd-signature": "s"}, 5) == 204
    request = engine.seen[0]
    assert (await request.read(), request.headers["x-sparkd-signature"]) == (b'{"a": 1}', "s")
    assert request.headers["content-type"] == "application/json"


async def test_a_token_travels_as_bearer(engine: Engine) -> None:
    engine.streams(chunk(content="a"), DONE)
    await complete(engine, token="secret")
    assert engine.seen[0].headers["authorization"] == "Bearer secret"


async def test_proxies_are_ignored(engine: Engine, unused_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, unused_url)
    await http.aclose()
    engine.answers("/health", 200)
    assert await http.health(engine.url, "/health", 5) == 200


async def test_no_connection_is_kept(engine: Engine) -> None:
    engine.answers("/health", 200)
    for _ in range(3):
        await http.health(engine.url, "/health", 5)
    assert len(engine.peers) == 3


async def test_many_at_once_share_one_client(engine: Engine) -> None:
    engine.streams(chunk(content="a"), DONE)
    found: list[http.Completion] = []

    async def one() -> None:
        found.append(await complete(engine))

    async with anyio.create_task_group() as group:
        for _ in range(20):
            group.start_soon(one)
    assert [completion.ok for completion in found] == [True] * 20


async def test_cancelled_from_outside_it_lets_go(engine: Engine) -> None:
    engine.handlers[CHAT] = stall((ROLE,))
    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(partial(complete, engine, deadline_s=60))
            await engine.reached.wait()
            group.cancel_scope.cancel()
        await engine.gone.wait()


# ------------------------------------------------------------------------------------------------- answers that mean harm


@pytest.mark.parametrize("count", ["1" + "0" * 400, "true", "-5", "NaN", "1e999", '"7"'])
async def test_a_count_of_tokens_that_is_none_does_not_count(engine: Engine, count: str) -> None:
    """A rate is made of it: 400 digits ended the action as a bug in sparkd."""
    text = json.dumps({"choices": [{"delta": {"content": "x"}}]})
    engine.streams(f"data: {text}", f'data: {{"choices":[],"usage":{{"completion_tokens":{count}}}}}', "data: [DONE]")
    done = await http.complete(engine.url, CHAT, BODY, 5.0)
    assert (done.ok, done.tokens, type(done.tokens)) == (True, 1, int)


@pytest.mark.parametrize("status", [200, 500])
async def test_the_words_of_an_engine_can_be_shown_and_written_down(engine: Engine, status: int) -> None:
    """They become a sentence in the journal and on a terminal; half a character has no bytes for either."""
    error = '{"error":{"message":"\\u001b[2Jdead\\n\\ud800' + "x" * 5000 + '"}}'
    if status == 200:
        engine.streams(f"data: {error}", "data: [DONE]")
    else:
        engine.answers(CHAT, status, error)
    done = await http.complete(engine.url, CHAT, BODY, 5.0)
    assert "[2Jdead x" in done.why
    assert done.why.isprintable()
    assert len(done.why) <= 300


async def test_nothing_is_unpacked(engine: Engine) -> None:
    """We ask for plain text; a megabyte that becomes a gigabyte held up the loop."""

    async def packed(request: web.Request) -> web.Response:
        return web.Response(body=gzip.compress(b"vllm:x 1\n" * 100), headers={"content-encoding": "gzip"})

    engine.handlers["/metrics"] = packed
    assert "vllm" not in await http.metrics_text(engine.url, "/metrics", 5.0)
