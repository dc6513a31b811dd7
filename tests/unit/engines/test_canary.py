"""Canary, warm-up and the measured request against a real server: what they send, and when their answer is a rate."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from aiohttp import web

from sparkd import http
from sparkd.act.canary import ask_sanity, canary, measure, warm_up
from sparkd.act.hands import ActionFailed, Hands
from sparkd.model.action import AskSanity, SendCanary, WarmUp
from sparkd.model.config import Cluster, Deployment, Node, Warmup
from sparkd.model.rate import rate
from sparkd.model.sanity import CONTINUED, QUESTION, TOKENS, Said
from sparkd.model.snapshot import Canary


class Server:
    """Answers with as many tokens as are asked for, over `seconds` after the first."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.key, self.seconds, self.at_most = "", 0.0, 10_000

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if self.key and request.headers.get("Authorization") != f"Bearer {self.key}":
            return web.json_response({"error": "Unauthorized"}, status=401)
        body = await request.json()
        self.asked.append(body)
        tokens = min(body["max_tokens"], self.at_most)
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        for number in range(tokens):
            chunk = {"choices": [{"index": 0, "delta": {"content": " a"}, "finish_reason": None}]}
            await response.write(f"data: {json.dumps(chunk)}\n\n".encode())
            if number == 0:
                await anyio.sleep(self.seconds)
        await response.write(b"data: [DONE]\n\n")
        return response


@asynccontextmanager
async def engine(tmp_path: Path, key: str | None = None, **warmup: Any) -> AsyncIterator[tuple[Server, Hands]]:
    server, app = Server(), web.Application()
    app.router.add_route("*", "/{path:.*}", server.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    secrets = {}
    if key is not None:
        secrets["VLLM_API_KEY"] = str(tmp_path / "api_key")
        (tmp_path / "api_key").write_text(key)
    node = Node(name="spark1", address="local")
    port = runner.addresses[0][1]
    deployment = Deployment(
        name="ds4", engine="vllm", nodes=("spark1",), model="/m", port=port, secrets=secrets, warmup=Warmup(**warmup)
    )
    try:
        yield server, Hands(Cluster(cluster="desk", nodes={"spark1": node}), deployment, "us", {}, {}, tmp_path)
    finally:
        await http.aclose()
        await runner.cleanup()


# ----------------------------------------------------------------------------------------------------------------- rates


@pytest.mark.parametrize(
    ("tokens", "first", "seconds", "found"),
    [
        (4, 0.1, 0.10008, None),  # read as 37,841 tok/s once
        (4, 0.1, 60.0, None),
        (31, 0.1, 60.0, None),
        (32, 0.5, 1.49, None),
        (32, None, 0.99, None),
        (10_000, 0.1, 1.0, None),
        (32, 0.5, 1.5, 31.0),
        (101, 1.0, 3.0, 50.0),
        (0, None, 0.0, None),
    ],
)
def test_a_rate_is_measured_over_a_second_and_32_tokens(
    tokens: int, first: float | None, seconds: float, found: float | None
) -> None:
    assert rate(tokens, first, seconds) == found


async def test_a_warm_up_of_a_few_tokens_is_an_answer_and_no_rate(tmp_path: Path) -> None:
    async with engine(tmp_path, max_tokens=4) as (_, hands):
        done = await warm_up(hands, WarmUp(3, 5.0))
        assert (done.ok, done.tokens, done.tokens_per_second) == (True, 4, None)


async def test_a_long_answer_in_one_burst_is_no_rate_either(tmp_path: Path) -> None:
    async with engine(tmp_path, max_tokens=500) as (_, hands):
        done = await warm_up(hands, WarmUp(3, 5.0))
        assert (done.ok, done.tokens, done.tokens_per_second) == (True, 500, None)


async def test_a_warm_up_that_is_long_enough_tells_a_rate(tmp_path: Path) -> None:
    async with engine(tmp_path, max_tokens=32) as (server, hands):
        server.seconds = 1.05
        done = await warm_up(hands, WarmUp(3, 5.0))
        assert done.tokens_per_second is not None
        assert 1 < done.tokens_per_second < 31 / 1.05


async def test_what_is_measured_is_asked_for_until_it_is_a_rate(tmp_path: Path) -> None:
    async with engine(tmp_path, max_tokens=4, expect={"contains": "never"}) as (server, hands):
        assert (await measure(hands, 3, 5.0)).tokens_per_second is None
        assert [(one["max_tokens"], one["ignore_eos"]) for one in server.asked] == [
            (64, True),
            (256, True),
            (1024, True),
        ]
        server.asked.clear()
        server.seconds = 1.05
        done = await measure(hands, 3, 5.0)
        assert (done.ok, done.tokens, len(server.asked)) == (True, 64, 1)
        assert done.tokens_per_second


async def test_an_engine_that_ends_early_is_not_asked_for_more(tmp_path: Path) -> None:
    async with engine(tmp_path) as (server, hands):
        server.at_most = 5
        assert (await measure(hands, 3, 5.0)).tokens_per_second is None
        assert len(server.asked) == 1


@pytest.mark.parametrize(("api", "question"), [("chat", QUESTION), ("completions", CONTINUED)])
async def test_the_fixed_question_is_the_same_every_time_and_brings_its_answer(
    tmp_path: Path, api: str, question: str
) -> None:
    async with engine(tmp_path, api=api) as (server, hands):
        for _ in range(2):
            done = await ask_sanity(hands, AskSanity(3, 5.0))
            assert (done.ok, done.tokens, done.said) == (True, TOKENS, Said(" a" * TOKENS))
        first, second = server.asked
        assert first == second
        assert (first["temperature"], first["max_tokens"]) == (0, TOKENS)
        asked = first["messages"][0]["content"] if api == "chat" else first["prompt"]
        assert asked == question
        assert (await canary(hands, SendCanary(3, 5.0))).said is None, "of a canary nothing is kept"


# ------------------------------------------------------------------------------------------------------------------- keys


async def every_request(hands: Hands) -> list[Canary]:
    return [await canary(hands, SendCanary(3, 5.0)), await warm_up(hands, WarmUp(3, 5.0)), await measure(hands, 3, 5.0)]


@pytest.mark.parametrize("written", ["sk-1", "sk-1\n", "sk-1\r\n"])
async def test_an_engine_that_wants_a_key_is_given_it_by_every_request(tmp_path: Path, written: str) -> None:
    async with engine(tmp_path, written) as (server, hands):
        server.key = "sk-1"
        assert {done.ok for done in await every_request(hands)} == {True}


async def test_a_key_that_is_wanted_and_not_there_is_said_with_what_to_write(tmp_path: Path) -> None:
    async with engine(tmp_path) as (server, hands):
        server.key = "sk-1"
        for done in await every_request(hands):
            assert not done.ok
            assert done.why.startswith("the engine wants a key (HTTP 401): write `secrets: {VLLM_API_KEY: {file:")


async def test_another_key_than_the_engines_is_said(tmp_path: Path) -> None:
    async with engine(tmp_path, "sk-2") as (server, hands):
        server.key = "sk-1"
        for done in await every_request(hands):
            assert "refuses the key in " in done.why
            assert "sk-" not in done.why


@pytest.mark.parametrize("written", ["sk\n1", "schlüssel", "sk\x001", " sk-1", "sk-1 "])
async def test_what_no_header_can_hold_is_refused_and_not_shown(tmp_path: Path, written: str) -> None:
    async with engine(tmp_path, written) as (server, hands):
        with pytest.raises(ActionFailed, match=r"printable ASCII|zero byte") as refused:
            await every_request(hands)
        assert "sk" not in str(refused.value).replace(str(tmp_path), "")
        assert not server.asked
