"""`sparkd ctl` against what is no daemon, or one that quotes somebody who means harm."""

from __future__ import annotations

import copy
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from ctl_daemon import daemon, environment, error, on_terminal, sparkd
from ctl_scenes import serving

from sparkd.ctl import client
from sparkd.ctl.client import Api
from sparkd.ctl.errors import Unreached

ESCAPE = "\x1b]0;pwned\x07\x1b[2J\x9b31m\u202e"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


@contextmanager
def babbling(folder: Path, first: bytes, then: bytes, pause_s: float = 0.0) -> Iterator[str]:
    """A daemon that answers `first`, and then says `then` again and again until the client leaves."""
    ended = threading.Event()

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(65536)
            try:
                connection.sendall(first)
                while not ended.wait(pause_s):
                    connection.sendall(then)
            except OSError:
                return

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "s"))
        listener.listen()
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield str(folder / "s")
        finally:
            ended.set()
            thread.join(30)


@pytest.mark.parametrize(
    ("first", "then"),
    [
        (CHUNKED, b"5" * 4096),
        (CHUNKED + b"-5\r\n", b"x" * 4096),
        (CHUNKED, b"10000\r\n" + b"x" * 0x10000 + b"\r\n"),
        (b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 65536),
        (b"HTTP/1.1 200 OK\r\n", b"X: y\r\n" * 4096),
    ],
    ids=["endless chunk size", "negative chunk", "endless chunks", "endless body", "endless head"],
)
def test_an_answer_without_an_end_is_cut_off(
    first: bytes, then: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "ANSWER_BYTES_MAX", 1 << 20)
    with babbling(tmp_path, first, then) as path, pytest.raises(Unreached, match="cut off"):
        Api(path).get("/api/v1/status")


def test_a_line_without_an_end_is_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "ANSWER_BYTES_MAX", 1 << 20)
    chunk = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
    with babbling(tmp_path, CHUNKED, chunk) as path, pytest.raises(Unreached, match="cut off"):
        list(Api(path).lines("/api/v1/deployments/ds4-flash/logs"))


@pytest.mark.parametrize("first", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n\r\n"], ids=["head", "body"])
def test_a_daemon_that_drips_is_given_up_on(first: bytes, tmp_path: Path) -> None:
    """Each wait was short enough; a thousand of them were not."""
    with (
        babbling(tmp_path, first, b"x", pause_s=0.01) as path,
        pytest.raises(Unreached, match=r"did not answer within 0\.3 s"),
    ):
        Api(path, deadline_s=0.3).get("/api/v1/status")


@pytest.mark.parametrize("status", [b"200 OK", b"409 Conflict"])
def test_an_answer_nested_without_end_is_one_sentence(status: bytes) -> None:
    with daemon() as server:
        server.raw = b"HTTP/1.1 " + status + b"\r\nContent-Length: 100000\r\n\r\n" + b"[" * 100_000
        answer = sparkd(server.socket_path, "ctl", "status")
    assert answer.returncode in (1, 3)
    assert "Traceback" not in answer.stderr


def test_a_full_queue_is_waited_for(tmp_path: Path) -> None:
    """A burst of others, or a daemon that hangs: the kernel refuses at once, and that is not "not running"."""
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as other:
        listener.bind(str(tmp_path / "s"))
        listener.listen(0)
        other.connect(str(tmp_path / "s"))
        with pytest.raises(Unreached, match=r"accepted nothing .* within 0\.2 s"):
            Api(str(tmp_path / "s"), deadline_s=0.2).get("/api/v1/status")


@pytest.mark.parametrize("words", [("status",), ("why",), ("history",), ("nodes",), ("stop", "--yes")])
def test_nobody_who_is_quoted_gets_hold_of_the_terminal(words: tuple[str, ...]) -> None:
    """An engine's error text, a container's name, a node's reason: each ends in a sentence of sparkd's."""
    answer = copy.deepcopy(serving())
    one = answer["deployments"][0]
    one.update(phase="held", serving=False, sentence=f"{ESCAPE}sentence")
    one["hold"] = {"class": "permanent", "fact": "x", "text": f"{ESCAPE}hold", "fix": ESCAPE, "heals_itself": False}
    one["last_failure"] = {**(one["last_failure"] or {}), "generation": 1, "class": "transient", "signature": "x"}
    one["last_failure"].update(text=f"{ESCAPE}failed", at=answer["at"], outage_s=None)
    answer["nodes"][0].update(state="unknown", why=f"{ESCAPE}why")
    answer["verdict"] = f"{ESCAPE}verdict"
    event = {"schema": 1, "id": 1, "at": answer["at"], "deployment": one["name"], "kind": "failed", "reason": "x"}
    with daemon(answer) as server:
        server.history = [{**event, "sentence": f"{ESCAPE}happened", "by": ESCAPE, "message": ESCAPE}]
        evidence = [{"source": ESCAPE, "line": None, "text": ESCAPE}]
        cause = {
            "class": "transient",
            "signature": "x",
            "text": ESCAPE,
            "confidence": "likely",
            "rank": 0,
            "fix": ESCAPE,
        }
        server.why = {
            "schema": 1,
            "cause": {**cause, "evidence": evidence},
            "also": [],
            "sentence": ESCAPE,
            "rule": ESCAPE,
        }
        exact = sparkd(server.socket_path, "ctl", "status", "--json")
        server.refusal = (409, error("conflict", f"{ESCAPE}no", ESCAPE))
        shown = on_terminal(server.socket_path, "ctl", *words).text
        piped = sparkd(server.socket_path, "ctl", *words)
    assert json.loads(exact.stdout)["verdict"] == f"{ESCAPE}verdict", "for scripts every byte is kept"
    assert "\x1b" not in exact.stdout
    for text in (shown, piped.stdout + piped.stderr):
        assert text.strip()
        assert not {"\x1b]", "\x9b", "\u202e", "\x07", "\x1b[2J"} & {part for part in FORBIDDEN if part in text}


FORBIDDEN = ("\x1b]", "\x9b", "\u202e", "\x07", "\x1b[2J")


def test_a_name_of_any_bytes_is_only_unknown() -> None:
    with daemon(serving()) as server:
        command: list[bytes] = [*map(os.fsencode, (sys.executable, "-m", "sparkd", "ctl", "why")), b"ds4\xff"]
        env = environment(server.socket_path)
        answer = subprocess.run(command, env=env, capture_output=True, text=True, timeout=30, check=False)
    assert answer.returncode == 2
    assert "Traceback" not in answer.stderr
    assert client.quote("\udcff") == "%FF"
    assert client.quote("a/b\0") == "a%2Fb%00"
