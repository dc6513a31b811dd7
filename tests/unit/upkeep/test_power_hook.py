"""The power hook itself: a real program and a real web server stand for the plug."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from sparkd import http
from sparkd.act.power import Done, described, take
from sparkd.model.power import Power


def program(folder: Path, script: str) -> tuple[str, ...]:
    path = folder / "cycle.sh"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return (str(path), "outlet 3", "$HOME")


async def test_a_program_gets_its_arguments_as_they_are_and_the_node_and_nothing_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARKD_HTTP__TOKEN_FILE", "/etc/sparkd/token")
    command = program(tmp_path, f'echo "$# $1 $2"; env > {tmp_path}/env; cat; echo done >&2')
    assert await take("spark2", Power(command=command)) == Done(True, "exit code 0: 2 outlet 3 $HOME done")
    environment = (tmp_path / "env").read_text()
    assert "SPARKD_NODE=spark2\n" in environment
    assert "TOKEN" not in environment


async def test_a_program_that_fails_says_how(tmp_path: Path) -> None:
    command = program(tmp_path, "echo 'no such outlet' >&2; exit 3")
    assert await take("spark2", Power(command=command)) == Done(False, "exit code 3: no such outlet")
    gone = Power(command=(str(tmp_path / "nothing"),))
    assert await take("spark2", gone) == Done(False, "it cannot be run: No such file or directory")
    (tmp_path / "plain").write_text("x")
    plain = Power(command=(str(tmp_path / "plain"),))
    assert await take("spark2", plain) == Done(False, "it cannot be run: Permission denied")


async def test_a_program_that_does_not_end_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    command = program(tmp_path, f"sleep 600 & echo $! > {tmp_path}/child; echo on its way; sleep 600")
    began = time.monotonic()
    assert await take("spark2", Power(command=command, timeout=1.0)) == Done(False, "not done within 1 s")
    assert time.monotonic() - began < 30
    child = int((tmp_path / "child").read_text())
    assert not _runs(child)


async def test_what_a_program_leaves_in_the_background_is_not_waited_for(tmp_path: Path) -> None:
    command = program(tmp_path, f"sleep 600 & echo $! > {tmp_path}/child; echo off")
    assert await take("spark2", Power(command=command)) == Done(True, "exit code 0: off")
    assert not _runs(int((tmp_path / "child").read_text()))


def _runs(pid: int) -> bool:
    """An orphan of ours may be a zombie for a moment, until init has read how it ended."""
    for _ in range(100):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return False
        if state == "Z":
            return False
        time.sleep(0.05)
    return True


async def test_what_it_prints_is_bounded_and_holds_no_secret(tmp_path: Path) -> None:
    command = program(tmp_path, "head -c 3000000 /dev/zero | tr '\\0' x; echo; echo '--password hunter2222'")
    done = await take("spark2", Power(command=command))
    assert done.ok
    assert len(done.text) < 400
    assert "hunter2222" not in done.text


# ----------------------------------------------------------------------------------------------------------- smart plugs


class Plug(ThreadingHTTPServer):
    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.asked: list[tuple[str, str, str, str | None]] = []
        self.status, self.said, self.hang = 200, b'{"ison":false}', threading.Event()
        self.hang.set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/relay/0?turn=off&timer=10"


class _Answer(BaseHTTPRequestHandler):
    server: Plug

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        self.server.asked.append((self.command, self.path, body, self.headers.get("Authorization")))
        self.server.hang.wait(30)
        self.send_response(self.server.status)
        self.send_header("Content-Length", str(len(self.server.said)))
        self.end_headers()
        self.wfile.write(self.server.said)

    do_GET = do_POST

    def log_message(self, *_: object) -> None:
        """Quiet."""


@contextmanager
def plugged() -> Iterator[Plug]:
    plug = Plug()
    thread = threading.Thread(target=plug.serve_forever)
    thread.start()
    try:
        yield plug
    finally:
        plug.hang.set()
        plug.shutdown()
        plug.server_close()
        thread.join()


async def sent(power: Power) -> Done:
    try:
        return await take("spark2", power)
    finally:
        await http.aclose()


async def test_a_plug_is_asked_once_and_its_answer_is_told() -> None:
    with plugged() as plug:
        assert await sent(Power(url=plug.url, method="GET")) == Done(True, 'HTTP 200: {"ison":false}')
        assert plug.asked == [("GET", "/relay/0?turn=off&timer=10", "", None)]


async def test_a_header_comes_from_its_file_and_is_never_told(tmp_path: Path) -> None:
    token = tmp_path / "plug"
    token.write_text("Bearer 0123456789abcdef\n")
    with plugged() as plug:
        plug.said = b"your token is Bearer 0123456789abcdef"
        power = Power(url=plug.url, body='{"on": false}', headers={"Authorization": str(token)})
        done = await sent(power)
        assert plug.asked == [("POST", "/relay/0?turn=off&timer=10", '{"on": false}', "Bearer 0123456789abcdef")]
        assert done.ok
        assert "0123456789abcdef" not in done.text
        assert described(power) == f'POST {plug.url}, header Authorization from {token}, body {{"on": false}}'
        token.unlink()
        unread = await sent(power)
        assert (unread.ok, len(plug.asked)) == (False, 1), "without its key nothing is sent"
        assert unread.text.startswith("a header's value cannot be read: there is no such file")


async def test_a_plug_that_refuses_hangs_or_is_not_there() -> None:
    with plugged() as plug:
        plug.status, plug.said = 401, b""
        assert await sent(Power(url=plug.url)) == Done(False, "HTTP 401")
        plug.hang.clear()
        assert await sent(Power(url=plug.url, timeout=0.5)) == Done(False, "not done within 0.5 s")
        url = plug.url
    assert await sent(Power(url=url)) == Done(False, "connection refused")


def test_what_would_be_done_in_words() -> None:
    assert described(Power(command=("/srv/cycle", "3"))) == "run /srv/cycle 3"
    assert "hunter2222" not in described(Power(url="http://plug/", body='{"password": "hunter2222"}'))
