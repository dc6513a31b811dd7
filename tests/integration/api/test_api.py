"""The HTTP interface over its real listeners, asked by a real client."""

from __future__ import annotations

import getpass
import grp
import json
import os
import socket
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from sparkd.api import SocketBusy, listen, streams
from sparkd.api.listen import bind_unix
from sparkd.api.page import PAGE
from sparkd.journal import Event
from sparkd.model.decision import Watch
from sparkd.reporting.status import status
from sparkd.verbs import verbs

from .api_world import Daemon, a_view, later, running, short_folder

EVENT = Event(
    id=7, at=1.8e9, kind="failed", deployment="qwen", generation=3, sentence="rank 0 is gone", cls="transient"
)


async def ask(session: Any, method: str, path: str, **more: Any) -> tuple[int, dict[str, Any]]:
    async with session.request(method, path, **more) as answer:
        assert answer.content_type == "application/json"
        body = await answer.json()
    assert body["schema"] == 1
    return answer.status, body


async def test_both_listeners_answer_alike() -> None:
    view = a_view()
    async with running(Daemon(look=lambda: view)) as place, place.unix() as local, place.tcp() as remote:
        for session in (local, remote):
            assert await ask(session, "GET", "/api/v1/status") == (200, status(view))
            code, nodes = await ask(session, "GET", "/api/v1/nodes")
            assert (code, nodes["nodes"]) == (200, status(view)["nodes"])
            assert (await ask(session, "GET", "/healthz"))[0] == 200


async def test_ready_is_a_question_of_its_own_for_every_name() -> None:
    async with running() as place, place.unix() as session:
        code, body = await ask(session, "GET", "/ready/ds4-flash")
        assert (code, body["phase"]) == (200, "serve")
        async with session.get("/ready/qwen") as answer:
            body = await answer.json()
            assert answer.status == 503
            assert answer.headers["Retry-After"] == str(body["retry_after_s"])
        assert 240 <= body["retry_after_s"] <= 250
        assert (body["phase"], body["sentence"]) == ("backoff", "rank 0 is gone; restarting the group in 4 min")
        code, body = await ask(session, "GET", "/ready/ds4flash")
        assert (code, body["error"]["code"], body["error"]["fix"]) == (404, "not_found", "did you mean ds4-flash?")


async def test_ready_is_503_while_requests_fail_whatever_the_phase() -> None:
    view = a_view()
    watch = Watch(canary_failing_since=view.at - 40, canary_failures=2)
    states = {**view.states, "ds4-flash": replace(view.states["ds4-flash"], watch=watch)}
    async with running(Daemon(look=lambda: replace(view, states=states))) as place, place.unix() as session:
        assert (await ask(session, "GET", "/ready/ds4-flash"))[0] == 503
        async with session.get("/metrics") as answer:
            assert 'sparkd_deployment_serving{deployment="ds4-flash"} 0.0' in await answer.text()


async def test_a_loop_that_hangs_shows() -> None:
    async with running(Daemon(look=lambda: later(16.0))) as place, place.unix() as session:
        assert (await ask(session, "GET", "/healthz"))[0] == 503
        assert (await ask(session, "GET", "/ready/ds4-flash"))[0] == 200
    async with running(Daemon(look=lambda: later(61.0))) as place, place.unix() as session:
        code, body = await ask(session, "GET", "/ready/ds4-flash")
        assert (code, body["sentence"]) == (503, "sparkd has not looked for 61 s")


async def test_history_can_be_asked_for_by_name_and_number() -> None:
    daemon = Daemon(events=[EVENT])
    async with running(daemon) as place, place.unix() as session:
        code, body = await ask(session, "GET", "/api/v1/history", params={"deployment": "qwen", "limit": "5"})
        assert (code, len(body["events"])) == (200, 1)
        assert body["events"][0]["class"] == "transient"
        code, body = await ask(session, "GET", "/api/v1/outages")
        assert (code, body["schema"], [one["deployment"] for one in body["outages"]]) == (200, 1, ["qwen"])
        assert (body["outages"][0]["cause"]["code"], body["outages"][0]["ended"]) == ("exit-137", None)
        assert (await ask(session, "GET", "/api/v1/outages?deployment=ds4-flash"))[1]["outages"] == []
        assert (await ask(session, "GET", "/api/v1/history?after=7"))[1]["events"] == []
        for query in ("limit=0", "limit=1001", "limit=many", "limit=%C2%B2", "after=-1", f"after={'9' * 400}"):
            code, body = await ask(session, "GET", f"/api/v1/history?{query}")
            assert (code, body["error"]["code"]) == (400, "usage"), query


# ------------------------------------------------------------------------------------------------------------ change


async def test_a_wish_is_written_down_with_who_and_why() -> None:
    async with running() as place, place.unix() as session:
        wish = {"message": "new flags", "assume_lost": ["spark2"], "clean": False, "to": None}
        async with session.post("/api/v1/deployments/ds4-flash/stop", json=wish) as answer:
            assert answer.status == 202
            assert answer.headers["Location"] == "/api/v1/operations/op-1"
            assert await answer.json() == {"schema": 1, "operation": "op-1"}
        [(name, verb, asked)] = place.daemon.asked
        given = {"assume_lost": ("spark2",)}
        assert (name, verb, asked.message, asked.options) == ("ds4-flash", "stop", "new flags", given)
        assert asked.by == getpass.getuser()
        assert (await ask(session, "POST", "/api/v1/deployments/ds4-flash/start"))[0] == 202
        assert (await ask(session, "GET", "/api/v1/operations/op-1"))[1]["state"] == "running"
        assert (await ask(session, "GET", "/api/v1/operations/op-9"))[0] == 404


DEEP = "[" * 30_000 + "]" * 30_000


@pytest.mark.parametrize(
    ("path", "body", "code", "words"),
    [
        ("ds4-flash/start", '{"mesage": "x"}', "usage", "did you mean message?"),
        ("ds4-flash/start", "[]", "usage", "an object with"),
        ("ds4-flash/start", "{", "usage", "an object with"),
        ("ds4-flash/start", "\xff\xfe", "usage", "an object with"),
        ("ds4-flash/start", DEEP, "usage", "an object with"),
        ("ds4-flash/start", '{"clean": 1}', "usage", "true or false"),
        ("ds4-flash/start", '{"clean": NaN}', "usage", "leave it out"),
        ("ds4-flash/start", '{"message": "a", "message": "b"}', "usage", "every key once"),
        ("ds4-flash/start", '{"message": "a\\u001b[2Jb"}', "usage", "one line of text"),
        ("ds4-flash/start", json.dumps({"message": "x" * 501}), "usage", "at most 500"),
        ("ds4-flash/start", '{"message": 3}', "usage", "one line of text"),
        ("ds4-flash/stop", '{"assume_lost": "spark2"}', "usage", "an array of node names"),
        ("ds4-flash/stop", '{"assume_lost": ["spark3"]}', "not_found", "did you mean spark"),
        ("ds4-flash/pause", '{"assume_lost": ["spark2"]}', "usage", "sparkd ctl stop ds4-flash --assume-lost NODE"),
        ("ds4-flash/start", '{"clean": true}', "usage", "sparkd ctl restart ds4-flash --clean"),
        ("ds4-flash/stop", '{"to": "latency"}', "usage", "leave it out"),
        ("ds4-flash/profile", '{"to": "latency"}', "not_found", f"verbs: {', '.join(sorted(verbs()))}"),
        ("ds4-flash/pause", "", "conflict", "nothing to do"),
        ("ds4-flash/resume", "", "unwritable", "free some space"),
        ("ds4-flash/strat", "", "not_found", "did you mean start?"),
        ("ds4-flash/rm%20-rf", "", "not_found", f"verbs: {min(verbs())}"),
        ("ds4/start", "", "not_found", "did you mean ds4-flash?"),
        ("x%00y/start", "", "not_found", "deployments: broken"),
        ("ds4-flash/start", json.dumps({"message": "x" * 70_000}), "too_large", "send less"),
    ],
)
async def test_what_makes_no_sense_is_refused_with_what_to_write_instead(
    path: str, body: str, code: str, words: str
) -> None:
    statuses = {"usage": 400, "not_found": 404, "conflict": 409, "too_large": 413, "unwritable": 503}
    async with running() as place, place.unix() as session:
        url = f"/api/v1/deployments/{path}"
        found, answer = await ask(session, "POST", url, data=body.encode("latin-1"))
        assert (found, answer["error"]["code"]) == (statuses[code], code)
        assert words in answer["error"]["fix"]
        assert place.daemon.asked == []


async def test_errors_have_one_shape_everywhere() -> None:
    async with running() as place, place.unix() as session:
        code, body = await ask(session, "GET", "/api/v2/status")
        assert (code, body["error"]["code"]) == (404, "not_found")
        async with session.delete("/api/v1/status") as answer:
            assert (answer.status, answer.headers["Allow"]) == (405, "GET, HEAD")
            assert (await answer.json())["error"]["code"] == "method"
        code, body = await ask(session, "GET", "/api/v1/deployments/broken/why")
        assert (code, body["error"]["code"]) == (500, "internal")
        assert "secret" not in json.dumps(body)


async def test_tcp_only_reads_unless_there_is_a_token(tmp_path: Path) -> None:
    path = "/api/v1/deployments/ds4-flash/start"
    async with running() as place, place.tcp() as session:
        code, body = await ask(session, "POST", path)
        assert (code, body["error"]["code"]) == (403, "forbidden")
    token = tmp_path / "token"
    async with running(token_file=str(token)) as place, place.tcp() as session:
        right = {"Authorization": "Bearer correct-horse-battery"}
        assert (await ask(session, "POST", path, headers=right))[0] == 403  # no file yet
        token.write_text("short\n")
        assert (await ask(session, "POST", path, headers={"Authorization": "Bearer short"}))[0] == 403
        token.write_text("correct-horse-battery\n")
        for wrong in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic correct-horse-battery"}):
            assert (await ask(session, "POST", path, headers=wrong))[0] == 403
        assert (await ask(session, "POST", path, headers=right))[0] == 202
        assert place.daemon.asked[0][2].by == "token from 127.0.0.1"


@pytest.mark.parametrize(
    ("host", "code"),
    [
        ("127.0.0.1:9477", 200),
        ("localhost", 200),
        ("[::1]:9477", 200),
        ("spark1:9477", 200),
        ("SPARK2.local", 200),
        (socket.gethostname(), 200),
        ("evil.example", 403),
        ("spark1.evil.example:9477", 403),
        ("127.0.0.1.evil.example", 403),
    ],
)
async def test_a_page_of_another_site_cannot_ask_through_dns(host: str, code: int) -> None:
    async with running() as place, place.tcp() as session, place.unix() as local:
        assert (await ask(session, "GET", "/api/v1/status", headers={"Host": host}))[0] == code
        assert (await ask(local, "GET", "/api/v1/status", headers={"Host": host}))[0] == 200


async def test_the_page_loads_nothing_from_elsewhere() -> None:
    async with running() as place, place.tcp() as session, session.get("/") as answer:
        assert (answer.status, answer.content_type) == (200, "text/html")
        assert await answer.text() == PAGE
        policy = answer.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "Access-Control-Allow-Origin" not in answer.headers
    assert not any(word in PAGE for word in ("http:", "https:", "@import", "url(", "innerHTML")) or PAGE.count(
        "http:"
    ) == PAGE.count("http://www.w3.org/2000/svg")


# ----------------------------------------------------------------------------------------------------------- streams


async def next_event(answer: Any) -> tuple[str, dict[str, Any]]:
    """The next server-sent event, as a browser would read it."""
    kind, data = "", ""
    with anyio.fail_after(15):
        while True:
            text = (await answer.content.readline()).decode().rstrip("\n")
            if text.startswith("event: "):
                kind = text[7:]
            elif text.startswith("data: "):
                data = text[6:]
            elif not text and data:
                return kind, json.loads(data)


async def test_events_begin_with_the_status_and_go_on() -> None:
    async with running() as place, place.unix() as session, session.get("/api/v1/events") as answer:
        assert answer.headers["Content-Type"] == "text/event-stream"
        kind, body = await next_event(answer)
        assert (kind, body["cluster"]) == ("status", "desk")
        place.daemon.hub.publish("event", {"id": 8, "kind": "failed"})
        assert await next_event(answer) == ("event", {"schema": 1, "id": 8, "kind": "failed"})


async def test_silence_is_filled_with_signs_of_life(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "BEAT_S", 0.05)
    async with running() as place, place.unix() as session, session.get("/api/v1/events") as answer:
        await next_event(answer)
        with anyio.fail_after(10):
            while await answer.content.readline() != b": alive\n":
                pass


async def test_a_listener_that_is_too_slow_is_let_go_and_nobody_else_notices() -> None:
    async with running() as place, place.unix() as session, session.get("/api/v1/events") as good:
        await next_event(good)
        lazy = socket.socket(socket.AF_UNIX)
        lazy.connect(str(place.sock))
        lazy.sendall(b"GET /api/v1/events HTTP/1.1\r\nHost: x\r\n\r\n")
        with anyio.fail_after(10):
            while len(place.daemon.hub._listeners) < 2:
                await anyio.sleep(0.01)
        with anyio.fail_after(60):
            for number in range(20_000):  # far more than its queue and both socket buffers hold
                place.daemon.hub.publish("event", {"id": number, "text": "x" * 2000})
                assert (await next_event(good))[1]["id"] == number
                if len(place.daemon.hub._listeners) == 1:
                    break
        assert len(place.daemon.hub._listeners) == 1
        lazy.close()


async def test_streams_are_limited_for_one_client_and_free_again_when_it_goes() -> None:
    async with running() as place, place.unix() as session:
        opened = [await session.get("/api/v1/events") for _ in range(streams.STREAMS_EACH)]
        code, body = await ask(session, "GET", "/api/v1/events")
        assert (code, body["error"]["code"]) == (503, "busy")
        for answer in opened:
            await next_event(answer)
            answer.close()
        with anyio.fail_after(10):
            while True:
                place.daemon.hub.publish("status", {})
                async with session.get("/api/v1/events") as answer:
                    if answer.status == 200:
                        break
                await anyio.sleep(0.02)


async def test_logs_come_line_by_line_and_tell_when_they_break_off() -> None:
    async with running() as place, place.unix() as session:
        async with session.get("/api/v1/deployments/ds4-flash/logs?tail=2") as answer:
            assert answer.headers["Content-Type"] == "application/x-ndjson"
            lines = [json.loads(line) async for line in answer.content]
        assert [line["rank"] for line in lines] == [0, 1]
        async with session.get("/api/v1/deployments/qwen/logs") as answer:
            *_, last = [json.loads(line) async for line in answer.content]
        assert last["error"] == {"code": "failed", "text": "docker on spark1: no answer in 5 s", "fix": ""}
        async with session.get("/api/v1/deployments/ds4-flash/logs?follow=true&tail=1") as answer:
            with anyio.fail_after(10):
                texts = [json.loads(await answer.content.readline())["text"][:4] for _ in range(5)]
        assert texts == ["xxxx", "more", "more", "more", "more"]
        for query in ("tail=0", "tail=10001", "follow=perhaps"):
            assert (await ask(session, "GET", f"/api/v1/deployments/ds4-flash/logs?{query}"))[0] == 400


# ----------------------------------------------------------------------------------------------------------- sockets


async def test_the_socket_belongs_to_the_group_and_goes_with_the_daemon() -> None:
    async with running() as place:
        mode = stat.S_IMODE(place.sock.stat().st_mode)
        known = {one.gr_name for one in grp.getgrall()}
        assert mode == (0o660 if "sparkd" in known and os.geteuid() == 0 else 0o600)
    assert not place.sock.exists()


def test_the_socket_is_given_to_a_group_that_exists_and_to_nobody_else() -> None:
    mine = grp.getgrgid(os.getegid()).gr_name
    with short_folder() as folder:
        with bind_unix(folder / "a.sock", group=mine):
            assert stat.S_IMODE((folder / "a.sock").stat().st_mode) == 0o660
            assert (folder / "a.sock").stat().st_gid == os.getegid()
        with bind_unix(folder / "b.sock", group="no-such-group"):
            assert stat.S_IMODE((folder / "b.sock").stat().st_mode) == 0o600


def test_only_a_socket_that_nobody_answers_on_is_replaced() -> None:
    with short_folder() as folder:
        path = folder / "sparkd.sock"
        with bind_unix(path), pytest.raises(SocketBusy):
            bind_unix(path)
        assert path.exists()  # left behind, as by a kill
        with bind_unix(path):
            pass
        path.unlink()
        path.write_text("not a socket")
        with pytest.raises(FileExistsError):
            bind_unix(path)
        assert path.read_text() == "not a socket"


@pytest.mark.slow
def test_a_daemon_whose_socket_is_taken_says_so_in_one_line_and_ends_with_7() -> None:
    with short_folder() as folder, bind_unix(folder / "sparkd.sock"):
        (folder / "sparkd.yaml").write_text(
            f"cluster: desk\nnodes: {{spark1: {{address: local}}}}\npaths: {{run: {folder}, state: {folder}/state}}\n"
        )
        argv = [sys.executable, "-m", "sparkd", "run", "--config", str(folder)]
        ended = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    last = ended.stderr.splitlines()[-1]
    assert (ended.returncode, last) == (7, f"sparkd: another process answers on {folder}/sparkd.sock"), ended.stderr
    assert "Traceback" not in ended.stderr


async def test_a_taken_tcp_port_does_not_end_the_daemon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listen, "RETRY_S", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        opened = anyio.Event()
        async with anyio.create_task_group() as group, running() as place:
            async with place.unix() as session:
                app = place_app(place.daemon)
                group.start_soon(listen.tcp_server, app, f"127.0.0.1:{port}", lambda _: opened.set())
                assert (await ask(session, "GET", "/healthz"))[0] == 200
                assert not opened.is_set()
            taken.close()
            with anyio.fail_after(10):
                await opened.wait()
            group.cancel_scope.cancel()


def place_app(daemon: Daemon) -> Any:
    from sparkd.api.gate import Gate
    from sparkd.api.routes import Routes
    from sparkd.reporting.exporter import Exporter
    from sparkd.reporting.metrics import Counters

    return Routes(daemon, Exporter(daemon.shown, Counters()), Gate(unix=False)).app()


async def test_a_reload_is_for_those_who_may_write_and_says_every_problem() -> None:
    async with running() as place:
        async with place.tcp() as session, session.post("/api/v1/reload") as answer:
            assert answer.status == 403
        async with place.unix() as session:
            async with session.post("/api/v1/reload", json={"message": "longer context"}) as answer:
                assert (answer.status, (await answer.json())["deployments"]) == (200, [])
            async with session.post("/api/v1/reload", json={"message": "broken"}) as answer:
                error = (await answer.json())["error"]
                assert (answer.status, error["code"]) == (422, "config")
                assert error["text"].splitlines()[1:] == [
                    "sparkd.yaml:3: polcy: unknown key `polcy`",
                    "sparkd.yaml:9: nodes: no nodes",
                ]
            async with session.post("/api/v1/reload", json={"mesage": "x"}) as answer:
                assert (answer.status, (await answer.json())["error"]["fix"]) == (400, "did you mean message?")
        assert [message for _, message in place.daemon.reloads] == ["longer context"]
        assert all(by for by, _ in place.daemon.reloads)


async def test_checks_are_read_by_everybody_and_run_by_those_who_may_write() -> None:
    path = "/api/v1/deployments/ds4-flash/checks"
    async with running() as place, place.tcp() as tcp, place.unix() as unix:
        code, found = await ask(tcp, "GET", path)
        assert (code, [(row["code"], row["node"], row["status"]) for row in found["checks"]]) == (
            200,
            [("ghost-path", "spark2", "fail"), ("ghost-path", "spark1", "ok"), ("flags", None, "warn")],
        )
        assert (await ask(tcp, "POST", path))[0] == 403
        assert await ask(unix, "POST", path) == (200, found)
        assert (await ask(tcp, "GET", "/api/v1/deployments/nobody/checks"))[0] == 404
        code, known = await ask(tcp, "GET", "/api/v1/checks")
        assert (code, known["schema"]) == (200, 1)
        assert {"code", "severity", "description", "needs"} == set(known["checks"][0])


async def test_drift_and_what_worked_are_for_operators() -> None:
    base = "/api/v1/deployments/ds4-flash"
    async with running() as place, place.unix() as local, place.tcp() as remote:
        for query in (None, "wanted", "known-good", "12"):
            asked = f"{base}/drift" + (f"?against={query}" if query else "")
            assert (await ask(local, "GET", asked))[1] == {"schema": 1, "drift": "ds4-flash", "against": query}
            assert (await ask(remote, "GET", asked))[0] == 403
        assert (await ask(local, "GET", f"{base}/drift?against=yesterday"))[0] == 400
        assert (await ask(local, "GET", f"{base}/known-good/12"))[0] == 200
        assert (await ask(local, "GET", f"{base}/known-good/13"))[0] == 404
        assert (await ask(remote, "GET", f"{base}/known-good/12"))[0] == 403, "it holds a deployment file"
        assert (await ask(remote, "GET", f"{base}/known-good"))[1]["known_good"] == []
        assert (await ask(local, "GET", f"{base}/known-good/12/diff/14"))[1]["apart"] == [12, 14]
        code, body = await ask(local, "POST", f"{base}/known-good", json={"generation": 12, "note": "as it was"})
        assert (code, body["blessed"]) == (200, [12, "as it was"])
        assert (await ask(local, "POST", f"{base}/known-good"))[1]["blessed"] == [None, ""]
        for wrong in ({"generation": -1}, {"generation": True}, {"note": "a\nb"}, {"pin": 1}):
            assert (await ask(local, "POST", f"{base}/known-good", json=wrong))[0] == 400
        assert (await ask(remote, "POST", f"{base}/known-good"))[0] == 403
        assert (await ask(local, "GET", "/api/v1/deployments/nobody/drift"))[0] == 404
