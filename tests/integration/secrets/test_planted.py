"""Planted secrets, looked for in everything that sparkd keeps and shows while an engine prints them in every way it can."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from sparkd.demo.layout import plan
from sparkd.demo.stand import READY_S, Stand

from .head import SECRETS
from .spoken import found_in, lines

VALUES = ("hf_plainPLANTED0123456789", 'p"l\\a/n+t%e d PLANTED', "plé'nted&<PLANTED>$x`y`=:@?#")
PATIENCE_S = 60.0


class Talking(Stand):
    """A demo with the engine of `head`."""

    def _start_daemon(self) -> None:
        self.daemon = self._spawn("tests.integration.secrets.head", str(self.layout.folder), log=self.layout.log)
        self.until("sparkd answers", self._answers, READY_S)

    def ctl(self, *words: str) -> str:
        env = {**os.environ, "SPARKD_SOCKET": str(self.layout.socket), "NO_COLOR": "1", "COLUMNS": "300"}
        argv = [sys.executable, "-m", "sparkd", "ctl", *words]
        done = subprocess.run(
            argv, capture_output=True, text=True, timeout=PATIENCE_S, check=False, env=env, stdin=subprocess.DEVNULL
        )
        assert "Traceback" not in done.stderr
        return done.stdout + done.stderr

    def reached(self, kind: str) -> list[dict[str, object]]:
        events = json.loads(self.ctl("history", "--json"))["events"]
        return [one for one in events if one["kind"] == kind]


@pytest.fixture
def talking() -> Iterator[Talking]:
    folder = Path(tempfile.mkdtemp(prefix="sparkd-planted-"))
    (folder / "secrets").mkdir()
    for name, value in zip(SECRETS, VALUES, strict=True):
        (folder / "secrets" / name).write_text(value + "\n", "utf-8")
    one = Talking(plan(folder))
    try:
        one.start()
        yield one
    finally:
        one.end()
        shutil.rmtree(folder)


def kept(folder: Path) -> dict[str, bytes]:
    """All files of the demo, but the secrets' own and what the ranks themselves write."""
    files = [one for one in folder.rglob("*") if one.is_file() and "secrets" not in one.parts]
    return {str(one): one.read_bytes() for one in files if "ranks" not in one.parts or one.name == "record.json"}


def test_the_search_finds_every_way_in_which_they_are_spoken() -> None:
    """A search that finds nothing proves nothing."""
    for name, value in zip(SECRETS, VALUES, strict=True):
        assert [line for line in lines(name, value) if not found_in(line.encode(), value)] == []


@pytest.mark.slow
def test_no_secret_is_in_anything_that_is_kept_or_shown(talking: Talking) -> None:
    talking.ctl("start", "--yes")
    talking.until("the first generation has failed", lambda: talking.reached("failed"), PATIENCE_S)
    shown = {"logs of the failed": talking.ctl("logs", "--generation", "1", "--tail", "300")}
    talking.until("the second serves", lambda: talking.reached("serving"), PATIENCE_S)
    asked = [
        *(("status",), ("status", "--json"), ("why",), ("why", "--json"), ("history",), ("history", "--json")),
        *(("logs", "--tail", "500"), ("check", "--json"), ("bless", "-m", "good"), ("drift", "--json")),
        *(("known-good", "show"), ("known-good", "list", "--json"), ("capture",), ("capture", "--json"), ("nodes",)),
        ("drift", "--against", "wanted", "--json"),
    ]
    shown |= {" ".join(words): talking.ctl(*words) for words in asked}
    for path in ("/", "/metrics", "/api/v1/status", "/api/v1/history"):
        with urllib.request.urlopen(f"http://{talking.layout.page}{path}", timeout=10) as page:
            shown[path] = page.read().decode()
    files = kept(talking.layout.folder)
    for expected in ("journal.db", "known-good", "captures", "sparkd.log", "service.log", "record.json"):
        assert any(expected in name for name in files), expected
    assert "cannot log in" in shown["history --json"], "the error of the engine is told"
    assert "<redacted>" in shown["logs of the failed"]
    places = {**files, **{f"shown by {name}": text.encode() for name, text in shown.items()}}
    leaked = {
        (name, place): how
        for place, data in places.items()
        for name, value in zip(SECRETS, VALUES, strict=True)
        if (how := found_in(data, value))
    }
    assert leaked == {}
    assert not [place for place, data in places.items() if b"PLANTED" in data], "nor a piece of one"
