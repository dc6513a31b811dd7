"""A verb is one file: one that lies in a folder of the tests is seen wherever people meet verbs."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from ctl_daemon import Daemon, daemon, environment
from ctl_scenes import paused, serving, stopped

import sparkd.verbs
from sparkd.api import Invalid, NotFound, parse

TESTS = Path(__file__).parents[2]
FOLDER = Path(__file__).parents[1] / "verbs" / "made_up"
FOUND = f"import sparkd.verbs; sparkd.verbs.__path__.append({str(FOLDER)!r});"


def python(script: str, server: Daemon | None = None, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    """A program that finds the verbs of FOLDER too."""
    path = {"PYTHONPATH": f"{TESTS}:{TESTS.parent}", "COLUMNS": "100", **env}
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", f"{FOUND} {script}", *words],
        env=environment(server.socket_path if server else "/nowhere", **path),
        text=True,
        capture_output=True,
        stdin=subprocess.DEVNULL,
        check=False,
        timeout=60,
    )


def ctl(server: Daemon | None, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    return python("from sparkd.__main__ import main; main()", server, *(("ctl", *words) if words else ()), **env)


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> Iterator[sparkd.verbs.Verb]:
    """The same in this process, until the test is over."""
    monkeypatch.setattr(sparkd.verbs, "__path__", [*sparkd.verbs.__path__, str(FOLDER)])
    sparkd.verbs.verbs.cache_clear()
    yield sparkd.verbs.verbs()["refresh"]
    sparkd.verbs.verbs.cache_clear()
    del sys.modules["sparkd.verbs.refresh"]


def test_the_help_has_it_at_its_place() -> None:
    listed = [line.split()[0] for line in ctl(None, "--help").stdout.partition("Commands:")[2].splitlines() if line]
    assert listed[listed.index("restart") :][:3] == ["restart", "refresh", "pause"]
    shown = ctl(None, "refresh", "--help").stdout
    assert "  Start it anew with empty caches.\n\n  Nobody needs that.\n\n  sparkd ctl refresh --wait\n" in shown
    for words in ("--gently", "Leave its caches as they are.", "--wait", "--dry-run", "--message"):
        assert words in shown


def test_the_tab_key_and_a_typo_find_it() -> None:
    def offered(*words: str) -> list[str]:
        whole = ("sparkd", "ctl", *words)
        asked = {"COMP_WORDS": " ".join(whole), "COMP_CWORD": str(len(whole) - 1)}
        shown = ctl(None, _SPARKD_COMPLETE="bash_complete", **asked)
        return [line.removeprefix("plain,") for line in shown.stdout.splitlines()]

    assert offered("ref") == ["refresh"]
    assert offered("refresh", "--g") == ["--gently"]
    assert "did you mean `sparkd ctl refresh`?" in " ".join(ctl(None, "refrsh").stderr.split())


def test_the_generated_pages_explain_it() -> None:
    made = python("from docs.manual import manual, markdown; print(markdown(), manual())")
    assert made.returncode == 0, made.stderr
    assert "* [`sparkd ctl refresh`](#sparkd-ctl-refresh): Start it anew with empty caches." in made.stdout
    assert "| `--gently` | Leave its caches as they are. |" in made.stdout
    assert ".SS sparkd ctl refresh [OPTIONS] [NAME]" in made.stdout


def test_it_asks_says_its_effect_and_is_sent() -> None:
    with daemon(serving()) as server:
        refused = ctl(server, "refresh", "--gently")
        dry = ctl(server, "refresh", "--gently", "--dry-run")
        assert server.posted == []
        done = ctl(server, "refresh", "--gently", "--yes", "-m", "why not")
        body = {"message": "why not", "gently": True}
        assert server.posted == [("/api/v1/deployments/ds4-flash/refresh", body)]
    effect = "refresh ds4-flash on spark1 and spark2 as generation 15"
    assert (refused.returncode, f"nothing was changed: {effect}" in " ".join(refused.stderr.split())) == (2, True)
    assert f"would {effect}." in " ".join(dry.stdout.split())
    assert "Its caches stay as they are." in " ".join(dry.stdout.split())
    assert (done.returncode, "The refresh of ds4-flash is under way." in done.stdout) == (0, True)


def test_a_dry_run_knows_its_conflict_and_its_goal() -> None:
    warm = stopped()
    warm["deployments"][0].update(phase="warmup", wanted="up")
    with daemon(paused()) as server:
        refused = ctl(server, "refresh", "--dry-run")
    with daemon(warm) as server:
        there = ctl(server, "refresh", "--dry-run")
    assert (refused.returncode, "it is paused, and stays stale" in refused.stderr) == (1, True)
    assert "would do nothing: ds4-flash is already fresh." in there.stdout


def test_the_wait_ends_at_its_goal_when_the_daemon_has_forgotten_the_wish() -> None:
    warm = serving()
    warm["deployments"][0].update(phase="warmup", serving=False)
    with daemon(serving(), serving(), warm) as server:
        server.operations = (404,)
        done = ctl(server, "refresh", "--yes", "--wait", "--json")
    outcome = json.loads(done.stdout)
    assert (outcome["verb"], outcome["outcome"], outcome["deployment"]["phase"]) == ("refresh", "done", "warmup")


def test_the_api_takes_it_with_what_it_takes(found: sparkd.verbs.Verb) -> None:
    asked = parse.operation(b'{"message": "old", "gently": true}', found, "ds4", ["spark1"], "milo")
    assert (asked.options, asked.message, asked.by) == ({"gently": True}, "old", "milo")
    with pytest.raises(Invalid) as refused:
        parse.operation(b'{"gently": true}', sparkd.verbs.verbs()["stop"], "ds4", ["spark1"], "milo")
    said = ("gently goes with refresh only", "sparkd ctl refresh ds4 --gently")
    assert (refused.value.text, refused.value.fix) == said
    with pytest.raises(NotFound, match="no verb is called 'refrsh'") as unknown:
        parse.known_name("refrsh", sparkd.verbs.verbs(), "verb")
    assert unknown.value.fix == "did you mean refresh?"
