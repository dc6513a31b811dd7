"""check: one table, the trouble in words, the exit code, the list."""

from __future__ import annotations

import json

import pytest
from ctl_daemon import check_golden, daemon, on_terminal, sparkd
from ctl_scenes import Json, held, serving


def row(code: str, node: str | None, status: str = "ok", text: str = "", **more: object) -> Json:
    return {"code": code, "severity": "fail", "status": status, "node": node, "rank": None, "text": text, **more}


GHOST = row(
    "ghost-path",
    "spark2",
    "fail",
    "vllm-worker.service on spark2 starts /workspace/start.sh, which is not in container vllm_ds4",
    evidence=["ExecStart=/usr/bin/docker exec vllm_ds4 bash \x1b[31m/workspace/start.sh"],
    fix="on spark2: systemctl disable --now vllm-worker.service",
)
WELL = [row("ghost-path", "spark1"), row("swap", "spark1"), row("swap", "spark2")]
UNREAD = row("gpu", "spark1", "unknown", "cannot be checked: nvidia-smi did not answer in 8 s")


def checks(*rows: Json) -> Json:
    return {"schema": 1, "deployment": "ds4-flash", "at": "2026-11-27T07:01:02Z", "seconds": 0.42, "checks": list(rows)}


def test_the_table_and_the_trouble() -> None:
    with daemon(serving()) as server:
        server.checks = checks(*WELL, GHOST, UNREAD)
        session = on_terminal(server.socket_path, "ctl", "check", env={"NO_COLOR": "1"})
        assert server.posted == [("/api/v1/deployments/ds4-flash/checks", {})]
    assert session.code == 4
    assert "\x1b" not in session.text
    check_golden("check", session.text.replace("\r\n", "\n"))


def test_a_node_that_cannot_be_asked_is_told_once() -> None:
    mute = [
        row(code, node, "unknown", "cannot be checked: no node service answers")
        for code in ("disk", "swap", "memory")
        for node in ("spark1", "spark2")
    ]
    with daemon(serving()) as server:
        server.checks = checks(*mute)
        said = sparkd(server.socket_path, "ctl", "check").stdout
    assert said.count("cannot be checked") == 1
    assert "\nunknown  disk, swap, memory on spark1 and spark2\n" in said


def test_columns_keep_their_places_whatever_is_worst() -> None:
    with daemon(serving()) as server:
        server.checks = checks(GHOST, *WELL)
        said = sparkd(server.socket_path, "ctl", "check").stdout
    assert said.index("spark1") < said.index("spark2")


def test_what_is_wrong_in_the_same_words_on_two_nodes_is_told_once() -> None:
    fork = [
        {**row("flags", node, "fail", "fork in the file", fix="remove it"), "rank": number}
        for number, node in enumerate(("spark1", "spark2"))
    ]
    other = row("flags", "spark2", "fail", "another", fix="remove it")
    with daemon(serving()) as server:
        server.checks = checks(*fork, other)
        said = sparkd(server.socket_path, "ctl", "check").stdout
    assert said.count("fork in the file") == 1
    assert "\nfail     flags on spark1 rank 0 and spark2 rank 1\n" in said
    assert "\nfail     flags on spark2\n  what       another\n" in said


@pytest.mark.parametrize(
    ("rows", "code"), [(WELL, 0), ([*WELL, GHOST], 4), ([*WELL, UNREAD], 4), ([row("swap", "spark1", "warn", "t")], 0)]
)
def test_warnings_are_allowed(rows: list[Json], code: int) -> None:
    with daemon(serving()) as server:
        server.checks = checks(*rows)
        done = sparkd(server.socket_path, "ctl", "check", "--json")
    assert (done.returncode, json.loads(done.stdout)) == (code, checks(*rows))


def test_what_runs_is_not_what_its_file_says_by_now() -> None:
    pending = {"changes": [{"key": "image", "running": "vllm:1", "file": "vllm:2"}], "problems": [], "removed": False}
    with daemon(serving()) as server:
        server.checks = {**checks(*WELL), "pending": pending}
        shown = sparkd(server.socket_path, "ctl", "check").stdout
    assert "its file has changed (image)" in shown
    assert "checked is what it was started with" in " ".join(shown.split())


def test_a_hold_that_no_check_explains_is_not_kept_quiet() -> None:
    """`nothing found` alone, at 7 a.m., of something that is held."""
    with daemon(held()) as server:
        server.checks = checks(*WELL)
        shown = " ".join(sparkd(server.socket_path, "ctl", "check").stdout.split())
        server.checks = checks(*WELL, GHOST)
        told = sparkd(server.socket_path, "ctl", "check").stdout
    assert shown.endswith("no check sees that now: `sparkd ctl why ds4-flash`")
    assert "no check sees that" not in told


def test_the_list() -> None:
    known = {"code": "swap", "severity": "warn", "description": "Swap in use.", "needs": ["meminfo"]}
    with daemon(serving()) as server:
        server.checks = {"schema": 1, "checks": [known]}
        shown = sparkd(server.socket_path, "ctl", "check", "--list").stdout
        as_json = json.loads(sparkd(server.socket_path, "ctl", "check", "--list", "--json").stdout)
        assert "/api/v1/checks" in server.asked
    assert shown == "CHECK  LEVEL  WHAT IT LOOKS FOR\nswap   warn   Swap in use.\n"
    assert as_json == server.checks
