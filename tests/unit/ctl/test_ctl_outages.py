"""`ctl history --outages`: the table, the sum of each month, and that both fit a terminal."""

from __future__ import annotations

import json

from ctl_daemon import check_golden, daemon, sparkd
from ctl_scenes import Json, backoff, serving, two


def outage(began: str, ended: str | None, seconds: float, code: str, text: str, **more: object) -> Json:
    known = {
        "deployment": "ds4-flash",
        "down_s": seconds,
        "unread_s": 0.0,
        "generation": 13,
        "answered": 14,
        "starts": 1,
    }
    cause = {"code": code, "class": None, "text": text}
    about = {"asked": code == "operator", "unwatched": False, "cause": cause}
    return {"began": began, "ended": ended, "seconds": seconds, **known, **about, **more}


OUTAGES: list[Json] = [
    outage("2025-12-03T04:00:00Z", "2025-12-05T08:10:00Z", 187800.0, "rebooted", "spark1 and spark2 rebooted", starts=12),
    outage("2026-10-02T10:00:00Z", "2026-10-02T10:07:00Z", 420.0, "operator", "restart asked by milo: new image"),
    outage("2026-11-01T10:00:00Z", "2026-11-01T10:07:05Z", 425.0, "unread", "spark1 could not be read (no route)",
           starts=0, unread_s=425.0, down_s=0.0),
    outage("2026-11-20T10:00:00Z", "2026-11-20T10:20:00Z", 1200.0, "exit-137", "rank 1 on spark2 was killed (SIGKILL)",
           unread_s=300.0, down_s=900.0, unwatched=True),
    outage("2026-11-21T10:00:00Z", "2026-11-21T10:01:00Z", 60.0, "stalled", "requests fail", answered=None),
    outage("2026-11-27T06:58:52Z", None, 130.0, "exit-137", "rank 1 on spark2 was killed (SIGKILL)", answered=None),
]  # fmt: skip
MONTHS: list[Json] = [
    {"month": "2025-12", "outages": 1, "down_s": 187800.0, "longest_s": 187800.0, "unread_s": 0.0, "asked": 0, "asked_s": 0.0},
    {"month": "2026-10", "outages": 0, "down_s": 0.0, "longest_s": 0.0, "unread_s": 0.0, "asked": 1, "asked_s": 420.0},
    {"month": "2026-11", "outages": 3, "down_s": 1090.0, "longest_s": 900.0, "unread_s": 725.0, "asked": 0, "asked_s": 0.0},
]  # fmt: skip
ANSWER: Json = {"schema": 1, "outages": OUTAGES, "months": MONTHS}


def test_outages_are_a_table_and_a_sum_for_each_month() -> None:
    with daemon(backoff()) as server:
        server.answers["/api/v1/outages"] = ANSWER
        shown = sparkd(server.socket_path, "ctl", "history", "--outages", "ds4-flash").stdout
        assert "/api/v1/outages?deployment=ds4-flash" in server.asked
        assert json.loads(sparkd(server.socket_path, "ctl", "history", "--outages", "--json").stdout) == ANSWER
    assert all(len(line) <= 80 for line in shown.splitlines())
    check_golden("outages", shown)


def test_a_limit_shortens_the_table_and_no_sum() -> None:
    with daemon(backoff()) as server:
        server.answers["/api/v1/outages"] = ANSWER
        shown = sparkd(server.socket_path, "ctl", "history", "--outages", "--limit", "1").stdout
    assert "rebooted" not in shown
    assert "goes on: rank 1 on" in shown
    assert "2025-12" in shown


def test_of_several_deployments_each_is_named() -> None:
    other = outage("2026-11-27T06:00:00Z", "2026-11-27T06:01:00Z", 60.0, "exit-1", "it ended", deployment="qwen")
    with daemon(two()) as server:
        server.answers["/api/v1/outages"] = {**ANSWER, "outages": [*OUTAGES[:1], other]}
        shown = sparkd(server.socket_path, "ctl", "history", "--outages").stdout
    assert "ds4-flash: spark1" in shown
    assert "qwen: it ended" in shown


def test_no_outage_is_said_and_following_is_refused() -> None:
    with daemon(serving()) as server:
        server.answers["/api/v1/outages"] = {"schema": 1, "outages": [], "months": []}
        assert sparkd(server.socket_path, "ctl", "history", "--outages").stdout == "No outage is recorded.\n"
        followed = sparkd(server.socket_path, "ctl", "history", "--outages", "-f")
    assert (followed.returncode, followed.stdout) == (2, "")
    assert "--outages cannot be followed" in followed.stderr


def test_how_much_of_it_nobody_could_tell_is_said_beside_how_long_it_is_down() -> None:
    scene = backoff()
    scene["deployments"][0].update(down_since=OUTAGES[-1]["began"], outage={**OUTAGES[-1], "unread_s": 45.0})
    with daemon(scene) as server:
        shown = sparkd(server.socket_path, "ctl", "status").stdout
        why = sparkd(server.socket_path, "ctl", "why").stdout
    for said in (shown, why):
        assert "2 min 10 s, since 06:58:52; for 45 s of it nobody could tell" in said
