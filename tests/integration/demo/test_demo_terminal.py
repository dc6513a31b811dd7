"""A person at two terminals: starts the demo, opens the page, asks for the status, breaks something, presses ctrl-C."""

from __future__ import annotations

import json
import os
import re
import urllib.request
from pathlib import Path

import pytest

from sparkd.demo.cli import FAULT_NAMES

from .demo_world import Terminal, demo_on_a_terminal, processes, run

pytestmark = pytest.mark.slow

COLOURS = re.compile(r"\x1b\[[0-9;]*m")
CONTROL = re.compile(r"\x1b\[[0-9;]*[a-zA-Z]")


def fetch(url: str, body: object = None) -> bytes:
    request = urllib.request.Request(url, None if body is None else json.dumps(body).encode())
    request.add_header("Content-Type", "application/json")
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=10) as response:
        content: bytes = response.read()
    return content


def test_a_person_at_two_terminals(folder: Path) -> None:
    shm = set(os.listdir("/dev/shm"))
    with demo_on_a_terminal() as demo:
        socket = demo.found(r"SPARKD_SOCKET=(\S+)")
        assert b"<html" in fetch(demo.found(r"page +(http://\S+)"))
        assert b"sparkd_deployment_serving" in fetch(demo.found(r"metrics +(http://\S+)"))
        assert json.loads(fetch(demo.found(r"sparkd API +(http://\S+)")))["deployments"][0]["serving"] is True
        question = {"messages": [{"role": "user", "content": "Are you there?"}], "max_tokens": 4}
        assert json.loads(fetch(demo.found(r"engine API +(http://\S+)"), question))["choices"]
        assert all(name in demo.text for name in FAULT_NAMES)

        second = Terminal("ctl", "status", env={"SPARKD_SOCKET": socket})
        assert second.end() == 0
        assert "demo is serving" in second.text
        assert COLOURS.search(second.text)

        second = Terminal("demo", "fault", "kill-worker")
        second.until("What you will see: ")
        second.until("ended by itself")
        second.until("serving: generation 3")
        assert second.end() == 0

        again = run("--once")
        assert (again.returncode, again.stdout) == (1, "")
        assert f"a demo is running already (process {demo.pid})" in again.stderr
        assert processes(str(folder))
    assert set(os.listdir("/dev/shm")) <= shm


def test_what_it_says_fits_a_narrow_terminal(folder: Path) -> None:
    """Its own words; the tables of `sparkd ctl` are another matter, and paths stay whole: fit to paste."""
    with demo_on_a_terminal(columns=40) as demo:
        fault = Terminal("demo", "fault", "kill-worker", columns=40)
        assert fault.end() == 0
    said = CONTROL.sub("", demo.text.partition("$ sparkd ctl")[0] + fault.text)
    assert "What you will see" in said
    assert not [line for line in said.splitlines() if len(line) > 40 and str(folder) not in line]


def test_no_colours_where_nobody_wants_them(folder: Path) -> None:
    demo = Terminal("demo", "--once", env={"NO_COLOR": "1"})
    assert demo.end() == 0
    assert not COLOURS.search(demo.text)


def test_a_closed_window_ends_it(folder: Path) -> None:
    demo = Terminal("demo")
    demo.until("sparkd's log ")
    assert demo.hang_up() == 0
