"""Notices to real receivers: a web server that checks the signature, and programs that are started."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
import pytest
import structlog
from aiohttp import web
from aiohttp.test_utils import TestServer

from sparkd import http
from sparkd.model.config import Notify, Webhook
from sparkd.reporting.delivery import call
from sparkd.reporting.metrics import Counters
from sparkd.reporting.notices import Notification, Notifier

from ..waiting import until

NOTE = Notification(kind="down", cluster="desk", at="2027-01-15T08:00:00Z", sentence="It is down.", deployment="ds4")


class Receiver:
    """Keeps what it was sent; answers with the statuses given, then 204."""

    def __init__(self, *statuses: int) -> None:
        self.statuses, self.got = list(statuses), list[tuple[bytes, str, str]]()

    async def take(self, request: web.Request) -> web.Response:
        body = await request.read()
        self.got.append((body, request.headers.get("X-Sparkd-Signature", ""), request.content_type))
        return web.Response(status=self.statuses.pop(0) if self.statuses else 204)


@asynccontextmanager
async def listening(take: Callable[[web.Request], Awaitable[web.StreamResponse]]) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_post("/hook", take)
    async with TestServer(app) as server:
        yield str(server.make_url("/hook"))


@asynccontextmanager
async def delivering(settings: Notify, counters: Counters, **more: float) -> AsyncIterator[Notifier]:
    numbers = {"tries": 3, "queued": 4}
    one = Notifier(settings, counters, first_pause_s=0.01, **numbers, **more)  # type: ignore[arg-type]
    async with anyio.create_task_group() as group:
        group.start_soon(one.run)
        yield one
        group.cancel_scope.cancel()
    one.close()
    await http.aclose()


def outcomes(counters: Counters) -> dict[tuple[str, str], float]:
    return {
        (sample.labels["channel"], sample.labels["outcome"]): sample.value
        for family in counters.registry.collect()
        if family.name == "sparkd_notifications"
        for sample in family.samples
        if sample.name.endswith("_total")
    }


async def test_the_webhook_gets_the_body_signed_with_the_secret_of_that_moment(tmp_path: Path) -> None:
    receiver, counters, secret = Receiver(), Counters(), tmp_path / "secret"
    secret.write_text("first\n")
    async with (
        listening(receiver.take) as url,
        delivering(Notify(webhook=Webhook(url=url, secret_file=str(secret))), counters) as one,
    ):
        one.offer(NOTE)
        await until("the first arrives", lambda: len(receiver.got) == 1)
        secret.write_text("second\n")
        one.offer(Notification(kind="recovered", cluster="desk", at="", sentence="", deployment="ds4"))
        await until("both are counted", lambda: outcomes(counters) == {("webhook", "sent"): 2})
    for (body, signature, content_type), key in zip(receiver.got, (b"first", b"second"), strict=True):
        assert signature == f"sha256={hmac.new(key, body, hashlib.sha256).hexdigest()}"
        assert content_type == "application/json"
    body = json.loads(receiver.got[0][0])
    assert (body["schema"], body["kind"], body["deployment"], body["class"]) == (1, "down", "ds4", None)


async def test_a_receiver_that_stumbles_is_tried_again_and_then_given_up() -> None:
    receiver, counters = Receiver(500, 503, 204, 500, 404, 500), Counters()
    async with listening(receiver.take) as url, delivering(Notify(webhook=Webhook(url=url)), counters) as one:
        one.offer(NOTE)
        await until("it gets through at the third try", lambda: outcomes(counters) == {("webhook", "sent"): 1})
        assert len(receiver.got) == 3
        assert len({body for body, _, _ in receiver.got}) == 1
        one.offer(Notification(kind="held", cluster="desk", at="", sentence="", deployment="ds4"))
        await until("the next is given up", lambda: outcomes(counters).get(("webhook", "failed")) == 1)
        assert len(receiver.got) == 6


async def test_without_its_secret_nothing_is_sent(tmp_path: Path) -> None:
    receiver, counters = Receiver(), Counters()
    async with listening(receiver.take) as url:
        hook = Webhook(url=url, secret_file=str(tmp_path / "missing"))
        async with delivering(Notify(webhook=hook), counters) as one:
            one.offer(NOTE)
            await until("it is given up", lambda: outcomes(counters) == {("webhook", "failed"): 1})
    assert receiver.got == []


def program(folder: Path, name: str, text: str) -> str:
    path = folder / name
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


async def test_a_hook_gets_the_json_and_nothing_of_the_daemons_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", "/run/systemd/notify")
    monkeypatch.setenv("HF_TOKEN", "planted0123")
    out, counters = tmp_path / "out", Counters()
    hook = program(tmp_path, "hook", f"#!/bin/sh\ncat > {out}.new\nenv >> {out}.new\nmv {out}.new {out}\n")
    async with delivering(Notify(exec=(hook,)), counters) as one:
        one.offer(NOTE)
        await until("the hook ran", lambda: outcomes(counters) == {("exec-1", "sent"): 1})
    text = out.read_text()
    assert text.startswith(NOTE.body().decode())
    assert "NOTIFY_SOCKET" not in text
    assert "planted0123" not in text


async def test_a_hook_that_hangs_is_killed_with_all_it_started_and_holds_up_no_other(tmp_path: Path) -> None:
    pid, counters, receiver = tmp_path / "pid", Counters(), Receiver()
    hangs = program(tmp_path, "hangs", f"#!/bin/sh\nsleep 1000 &\necho $! > {pid}\nwait\n")
    async with listening(receiver.take) as url:
        settings = Notify(webhook=Webhook(url=url), exec=(hangs,))
        async with delivering(settings, counters, deadline_s=0.5) as one:
            one.offer(NOTE)
            await until("the webhook is not held up", lambda: outcomes(counters).get(("webhook", "sent")) == 1)
            await until("the hook is given up", lambda: outcomes(counters).get(("exec-1", "failed")) == 1)
    await until("what the hook started is gone", lambda: ended(pid))


def ended(pid: Path) -> bool:
    """Whether the process whose number was written there has."""
    try:
        return Path(f"/proc/{int(pid.read_text())}/stat").read_text().split()[2] == "Z"
    except FileNotFoundError:
        return True


@pytest.mark.parametrize(("end", "outcome"), [("exit 0", "sent"), ("exit 3", "failed")])
@pytest.mark.parametrize("how", ["", "nohup", "setsid", "setsid nohup", "trap '' TERM HUP; setsid"])
async def test_what_a_hook_leaves_in_the_background_ends_with_it(
    tmp_path: Path, end: str, outcome: str, how: str
) -> None:
    """It held our end of its pipes, and went on for ever: one more with every notice."""
    pid, counters = tmp_path / "pid", Counters()
    leaves = program(tmp_path, "leaves", f"#!/bin/sh\n{how} sleep 1000 &\necho $! > {pid}\n{end}\n")
    async with delivering(Notify(exec=(leaves,)), counters, deadline_s=30.0) as one:
        one.offer(NOTE)
        await until("the hook ended by itself", lambda: outcomes(counters) == {("exec-1", outcome): 1})
    await until("its child is gone", lambda: ended(pid))


async def test_a_hook_that_never_reads_a_long_notice_is_delivered_once_it_ends(tmp_path: Path) -> None:
    """Nobody feeds a pipe to what does not read, nor to a child of it in a session of its own that holds its input."""
    pid = tmp_path / "pid"
    leaves = program(tmp_path, "leaves", f"#!/bin/sh\nsetsid sleep 1000 <&0 &\necho $! > {pid}\n")
    try:
        with anyio.fail_after(20):
            await call((leaves,), b"x" * (1 << 20), deadline_s=60.0)
    finally:
        with suppress(ProcessLookupError):
            os.kill(int(pid.read_text()), signal.SIGKILL)


@pytest.mark.parametrize("text", ["#!/bin/sh\nexit 3\n", f"#!/bin/sh\nkill -{signal.SIGKILL.value} $$\n", "no program"])
async def test_a_hook_that_fails_is_counted(tmp_path: Path, text: str) -> None:
    counters = Counters()
    async with delivering(Notify(exec=(program(tmp_path, "hook", text), str(tmp_path / "missing"))), counters) as one:
        one.offer(NOTE)
        both = {("exec-1", "failed"): 1, ("exec-2", "failed"): 1}
        await until("both are given up", lambda: outcomes(counters) == both)


async def test_a_receiver_that_hangs_costs_no_memory_and_no_waiting() -> None:
    release = anyio.Event()
    counters = Counters()

    async def hang(request: web.Request) -> web.Response:
        await release.wait()
        return web.Response()

    async with listening(hang) as url, delivering(Notify(webhook=Webhook(url=url)), counters) as one:
        for number in range(100):
            one.offer(Notification(kind="test", cluster="desk", at=str(number), sentence=""))
        assert one.waiting == {"webhook": 4}
        assert outcomes(counters) == {("webhook", "dropped"): 96}
        release.set()


@pytest.mark.parametrize("program_", ["/bin/a\0b", "/bin/\ud800", "/"])
async def test_a_hook_that_can_be_none_ends_nothing(program_: str) -> None:
    """It ended the daemon with the first notice."""
    counters = Counters()
    async with delivering(Notify(exec=(program_,)), counters) as one:
        one.offer(NOTE)
        await until("it is given up", lambda: outcomes(counters) == {("exec-1", "failed"): 1})


async def test_the_address_of_a_webhook_is_not_logged() -> None:
    """With most services whoever knows it may write there."""
    counters = Counters()
    with structlog.testing.capture_logs() as logged:
        hook = Webhook(url="http://127.0.0.1:9/services/T0SECRET")
        async with delivering(Notify(webhook=hook), counters) as one:
            one.offer(NOTE)
            await until("it is given up", lambda: outcomes(counters) == {("webhook", "failed"): 1})
    assert any("connection refused" in str(line) for line in logged)
    assert "T0SECRET" not in str(logged)


async def test_a_receiver_that_sends_on_or_never_ends_is_no_delivery() -> None:
    async def endless(request: web.Request) -> web.StreamResponse:
        await request.read()
        response = web.StreamResponse(status=302, headers={"Location": str(request.url)})
        await response.prepare(request)
        while True:
            await response.write(b"x" * 65536)

    counters = Counters()
    async with listening(endless) as url, delivering(Notify(webhook=Webhook(url=url)), counters) as one:
        one.offer(NOTE)
        await until("it is given up", lambda: outcomes(counters) == {("webhook", "failed"): 1})
