"""Planned work on a node of the real demo: drained, stopped, held over a restart of sparkd, gone on with by a word or by its time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from sparkd.ctl.errors import CtlError
from sparkd.demo.layout import load
from sparkd.demo.scene import Scene, kill

from .demo_world import demo_on_a_terminal, place

WAIT_S = 60.0


@pytest.fixture
def scene() -> Iterator[Scene]:
    with place() as folder, demo_on_a_terminal():
        (made,) = (each for each in folder.iterdir() if each.is_dir())
        yield Scene(load(made))


def ctl(scene: Scene, *words: str) -> subprocess.CompletedProcess[str]:
    """The real command; it must end well."""
    environment = {**os.environ, "SPARKD_SOCKET": str(scene.layout.socket), "COLUMNS": "200"}
    argv = [sys.executable, "-m", "sparkd", "ctl", *words]
    return subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=WAIT_S, check=False)


def until(what: str, holds: Callable[[], bool]) -> None:
    ends = time.monotonic() + WAIT_S
    while time.monotonic() < ends:
        try:
            if holds():
                return
        except CtlError:  # sparkd was killed, and is being started again
            pass
        time.sleep(0.1)
    raise AssertionError(what)


def long_request(scene: Scene) -> tuple[threading.Thread, list[Any]]:
    """A streamed answer that takes some seconds; the chunks that came, or the error."""
    body = {"model": "tiny-llm", "messages": [{"role": "user", "content": "Count."}], "max_tokens": 240, "stream": True}
    request = urllib.request.Request(
        f"http://127.0.0.1:{scene.layout.api_port}/v1/chat/completions",
        json.dumps({**body, "ignore_eos": True}).encode(),
        {"Content-Type": "application/json"},
    )
    came: list[Any] = []

    def ask() -> None:
        try:
            with urllib.request.urlopen(request, timeout=WAIT_S) as answer:
                for line in answer:
                    came.extend([line] * line.startswith(b"data:"))
        except OSError as error:
            came.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    return thread, came


def events(scene: Scene, after: int) -> list[str]:
    return [one["kind"] for one in scene.api.get("/api/v1/history", after=after, limit=1000)["events"]]


@pytest.mark.slow
def test_maintenance_drains_stops_holds_and_goes_on(scene: Scene) -> None:
    began, generation = scene.last_event(), scene.deployment()["generation"]
    thread, came = long_request(scene)
    until("its answer has begun", lambda: bool(came))
    done = ctl(scene, "maintenance", "spark2", "--for", "1h", "--wait", "-y", "-m", "new firmware")
    assert done.returncode == 0, done.stdout + done.stderr
    thread.join(WAIT_S)
    assert came, "the request was answered"
    assert came[-1].strip() == b"data: [DONE]", came[-3:]
    assert not any(b'"error"' in chunk for chunk in came), "what was being answered was finished first"
    held = scene.deployment()
    assert (held["phase"], held["hold"]["fact"], held["wanted"]) == ("held", "maintenance:spark2", "up")
    until("its ranks are gone", lambda: all(one["state"] == "absent" for one in scene.deployment()["ranks"]))
    box = next(one for one in scene.status()["nodes"] if one["name"] == "spark2")
    assert box["maintenance"]["message"] == "new firmware"
    assert "under maintenance until" in ctl(scene, "nodes").stdout
    refused = ctl(scene, "restart", "-y")
    assert (refused.returncode, "sparkd ctl maintenance spark2 --end" in refused.stderr) == (1, True)

    kill(scene.daemon())
    until("sparkd is back and holds it still", lambda: scene.deployment()["reason"] == "maintenance")
    assert scene.status()["nodes"][1]["maintenance"] == box["maintenance"]
    assert scene.deployment()["generation"] == generation, "nothing was started"

    assert ctl(scene, "maintenance", "spark2", "--end").returncode == 0
    until("it serves again", lambda: bool(scene.deployment()["serving"]))
    assert scene.deployment()["generation"] == generation + 1
    assert scene.ask("Who are you?")
    kinds = events(scene, began)
    assert "failed" not in kinds
    assert [one for one in kinds if one.startswith("maintenance")] == [
        "maintenance-begun",
        "maintenance",
        "maintenance-over",
    ]
    (outage,) = [one for one in scene.api.get("/api/v1/outages")["outages"] if one["began"] >= held["since"][:16]][-1:]
    assert (outage["asked"], outage["cause"]["code"]) == (True, "operator")

    assert ctl(scene, "maintenance", "spark1", "--for", "4s", "-y").returncode == 0
    until("it is held for the other node", lambda: scene.deployment()["phase"] == "held")
    until("it goes on when the time is over", lambda: bool(scene.deployment()["serving"]))
    assert scene.deployment()["generation"] == generation + 2
    said = [one["sentence"] for one in scene.api.get("/api/v1/history", after=began, limit=1000)["events"]]
    assert "the maintenance of spark1 is over: its time is over" in said
    assert scene.status()["nodes"][0]["maintenance"] is None
    refused = ctl(scene, "maintenance", "spark1", "--end")
    assert (refused.returncode, "spark1 is not under maintenance" in refused.stderr) == (1, True)
