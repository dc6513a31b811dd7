"""Garbage with every light green, as a person and a router meet it: the whole daemon on the fast engine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sparkd.demo.stand import Stand, stand

pytestmark = pytest.mark.slow


@pytest.fixture
def made(folder: Path) -> Iterator[Stand]:
    with stand() as one:
        one.api.post("/api/v1/deployments/demo/start", {})
        one.until("it serves", lambda: shown(one)["serving"], 40.0)
        yield one


def shown(made: Stand) -> dict[str, Any]:
    return dict(made.api.get("/api/v1/status")["deployments"][0])


def ready(made: Stand) -> tuple[int, dict[str, Any]]:
    try:
        with urllib.request.urlopen(f"http://{made.layout.page}/ready/demo", timeout=10) as answer:
            return int(answer.status), {}
    except urllib.error.HTTPError as refused:
        return refused.code, json.loads(refused.read())


def ctl(made: Stand, *words: str) -> tuple[int, str]:
    environment = {**os.environ, "SPARKD_SOCKET": str(made.layout.socket)}
    argv = [sys.executable, "-m", "sparkd", "ctl", *words]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60, env=environment)
    return done.returncode, " ".join((done.stdout + done.stderr).split())


def fault(made: Stand, **faults: Any) -> None:
    whole = made.layout.faults.with_suffix(".new")
    whole.write_text(json.dumps(faults))
    whole.replace(made.layout.faults)


def test_f18_nonsense_is_out_of_service_for_routers_scripts_and_people_until_it_makes_sense(made: Stand) -> None:
    made.until("the first answer was judged", lambda: (shown(made)["sanity"] or {}).get("ok"), 30.0)
    known = {"text": "lantern 4729 copper Paris", "generation": 1}
    assert shown(made)["sanity"]["known_good"].items() >= known.items()
    made.api.post("/api/v1/deployments/demo/known-good", {"note": "well"})
    record = made.api.get("/api/v1/deployments/demo/known-good/1")
    assert record["answer"]["text"] == known["text"]
    assert "lantern 4729 copper Paris" in record["text"]

    fault(made, nonsense=True)
    made.until("it is found", lambda: shown(made)["reason"] == "nonsense", 60.0)
    with urllib.request.urlopen(f"{made.layout.engine_url}/health", timeout=10) as health:
        assert health.status == 200
    code, body = ready(made)
    assert (code, "answers nonsense: '!' again and again" in body["sentence"]) == (503, True)
    status, text = ctl(made, "status")
    assert (status, "its answers make no sense" in text) == (4, True)
    assert '"lantern 4729 copper Paris"' in text
    assert "Two answers in a row to one fixed question made no sense" in ctl(made, "why")[1]
    assert "does not serve well now" in ctl(made, "bless", "-m", "no")[1]
    assert shown(made)["outage"]["cause"]["code"] == "nonsense"
    assert "nonsense" in [event["kind"] for event in made.api.get("/api/v1/history", limit=50)["events"]]

    made.daemon.kill()
    made.daemon.wait(10)
    made._start_daemon()
    made.until("a new sparkd says the same", lambda: shown(made)["reason"] == "nonsense", 40.0)
    fault(made)
    made.until("it serves again", lambda: shown(made)["serving"], 60.0)
    assert (ready(made)[0], ctl(made, "status")[0]) == (200, 0)
    one = shown(made)
    assert (one["generation"], one["last_outage"]["cause"]["code"], one["sanity"]["ok"]) == (1, "nonsense", True)
