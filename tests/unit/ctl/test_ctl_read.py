"""watch, why, logs, history, nodes: what they show, and how they end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable

import pytest
from ctl_daemon import Daemon, check_golden, daemon, environment, error, on_terminal, sparkd
from ctl_scenes import Json, held, serving, slow, starting, stopped, two, unknown_node

WHY: Json = {
    "schema": 1,
    "deployment": "ds4-flash",
    "sentence": "held: the same exit twice in a row",
    "reason": "held-permanent",
    "rule": "exit 127 twice in a row is permanent: the command does not exist, and trying again cannot change that",
    "cause": {
        "class": "permanent",
        "signature": "exit-127",
        "text": "the entry point /workspace/start.sh does not exist in the image",
        "confidence": "certain",
        "rank": 1,
        "evidence": [
            {"source": "1@spark2 log", "line": 1, "text": "bash: /workspace/start.sh: No such file or directory"},
            {"source": "inspect", "line": None, "text": "State.ExitCode 127"},
        ],
        "fix": "bake it into the image, or correct `container.entrypoint` in ds4-flash.yaml",
    },
    "also": [],
}


def event(at: str, kind: str, sentence: str, generation: int = 13, **more: object) -> Json:
    return {
        "at": at,
        "deployment": "ds4-flash",
        "generation": generation,
        "kind": kind,
        "sentence": sentence,
        "reason": kind,
        "class": None,
        "signature": None,
        "by": None,
        "message": None,
        **more,
    }


HISTORY = [
    event("2026-11-27T03:10:12Z", "serving", "serving again after 9 min 41 s, canary 37.1 tok/s", 14),
    event(
        "2026-11-27T03:00:31Z",
        "failed",
        "rank 1 on spark2 is gone: its container exited with 137, all ranks are stopped",
    ),
    event("2026-11-26T18:04:00Z", "started", "started as generation 13", by="milo", message="new image"),
]
LOGS = [
    {"at": "2026-11-27T03:00:31.250Z", "rank": 1, "node": "spark2", "stream": "stderr", "text": "second"},
    {
        "at": "2026-11-27T03:00:30.125Z",
        "rank": 0,
        "node": "spark1",
        "stream": "stdout",
        "text": "\x1b[32mfirst\x1b[0m\x07 loading\r90%\r100%",
    },
    {"at": "2026-11-27T03:00:32Z", "rank": 0, "node": "spark1", "stream": "stdout", "text": "\tthird"},
]


def ndjson(*objects: Json) -> list[str]:
    return [json.dumps(one) for one in objects]


def test_why_shows_cause_evidence_rule_and_next_step() -> None:
    with daemon(held()) as server:
        server.why = WHY
        shown = sparkd(server.socket_path, "ctl", "why")
        assert json.loads(sparkd(server.socket_path, "ctl", "why", "--json").stdout) == WHY
    assert shown.returncode == 0
    check_golden("why", shown.stdout)


def test_why_says_how_to_see_what_was_saved() -> None:
    saved = {"source": "saved", "line": None, "text": "/var/lib/sparkd/captures/ds4-flash/g13"}
    with daemon(serving()) as server:
        server.why = {**WHY, "cause": {**WHY["cause"], "evidence": [saved]}}
        shown = " ".join(sparkd(server.socket_path, "ctl", "why").stdout.split())
        server.why = WHY
        without = sparkd(server.socket_path, "ctl", "why").stdout
    assert "logs `sparkd ctl logs ds4-flash --generation 13`" in shown
    assert "--generation" not in without


def test_why_of_what_never_failed() -> None:
    with daemon(serving()) as server:
        shown = sparkd(server.socket_path, "ctl", "why")
    assert "it has not failed" in shown.stdout


def test_nodes_is_one_row_a_node_and_says_why_one_is_unread() -> None:
    with daemon(unknown_node()) as server:
        shown = sparkd(server.socket_path, "ctl", "nodes")
        answer = json.loads(sparkd(server.socket_path, "ctl", "nodes", "--json").stdout)
    assert [one["name"] for one in answer["nodes"]] == ["spark1", "spark2"]
    check_golden("nodes", shown.stdout)


def test_history_is_oldest_first_and_fits() -> None:
    with daemon(serving()) as server:
        server.history = HISTORY
        shown = sparkd(server.socket_path, "ctl", "history", "--limit", "5", "ds4-flash").stdout
        assert "/api/v1/history?deployment=ds4-flash&limit=5" in server.asked
        answer = json.loads(sparkd(server.socket_path, "ctl", "history", "--json").stdout)
    assert answer == {"schema": 1, "events": HISTORY}
    check_golden("history", shown)
    with daemon(two()) as server:
        server.history = HISTORY
        assert "18:04:00 ds4-flash g13  started" in sparkd(server.socket_path, "ctl", "history").stdout


def test_history_of_nothing() -> None:
    with daemon(serving()) as server:
        assert "Nothing has happened yet." in sparkd(server.socket_path, "ctl", "history").stdout


def test_logs_are_interleaved_by_time_with_rank_and_node_and_cannot_move_the_cursor() -> None:
    with daemon(serving()) as server:
        server.logs = ndjson(*LOGS)
        shown = sparkd(server.socket_path, "ctl", "logs", "--tail", "7")
        one = sparkd(server.socket_path, "ctl", "logs", "--rank", "1")
        raw = sparkd(server.socket_path, "ctl", "logs", "--json")
        assert "/api/v1/deployments/ds4-flash/logs?tail=140&follow=false" in server.asked
    assert shown.stdout.splitlines() == [
        "03:00:30.125 0@spark1 100%",
        "03:00:31.250 1@spark2 second",
        "03:00:32.000 0@spark1 \tthird",
    ]
    assert one.stdout == "03:00:31.250 1@spark2 second\n"
    assert sorted(raw.stdout.splitlines()) == sorted(server.logs)


PROBE: Json = {**LOGS[1], "text": 'INFO:     127.0.0.1:50412 - "GET /health HTTP/1.1" 200 OK'}
SICK: Json = {**LOGS[1], "text": 'INFO:     127.0.0.1:50412 - "GET /health HTTP/1.1" 503 Service Unavailable'}


def test_answers_to_probes_are_shown_on_request() -> None:
    with daemon(serving()) as server:
        asked = {
            **PROBE,
            "text": 'INFO:     127.0.0.1:1 - "GET /server_info?config_format=json HTTP/1.1" 404 Not Found',
        }
        server.logs = ndjson(PROBE, asked, SICK, LOGS[0])
        shown = sparkd(server.socket_path, "ctl", "logs", "--tail", "2").stdout
        every = sparkd(server.socket_path, "ctl", "logs", "--all").stdout
    assert [line.split(" ", 2)[2] for line in shown.splitlines()] == [SICK["text"], "second"]
    assert PROBE["text"] in every


def test_logs_of_nothing_say_so() -> None:
    with daemon(serving(), stopped()) as server:
        server.logs = ndjson(PROBE)
        quiet = sparkd(server.socket_path, "ctl", "logs")
        server.logs = []
        gone = sparkd(server.socket_path, "ctl", "logs")
    assert (quiet.returncode, quiet.stdout, gone.returncode, gone.stdout) == (0, "", 0, "")
    assert "--all shows" in quiet.stderr
    assert "`sparkd ctl capture list ds4-flash`" in " ".join(gone.stderr.split())


def test_logs_of_a_rank_that_is_not_there() -> None:
    with daemon(serving()) as server:
        answer = sparkd(server.socket_path, "ctl", "logs", "--rank", "2")
    assert answer.returncode == 2
    assert "its ranks: 0, 1" in answer.stderr


def test_logs_that_end_in_an_error_say_so() -> None:
    with daemon(serving()) as server:
        server.logs = ndjson(
            LOGS[0], error("docker_mute", "docker on spark2: no answer in 5 s", "systemctl status docker")
        )
        answer = sparkd(server.socket_path, "ctl", "logs")
    assert answer.returncode == 1
    assert "docker on spark2: no answer in 5 s" in answer.stderr
    with daemon(serving()) as server:
        server.logs = ["<html>"]
        assert sparkd(server.socket_path, "ctl", "logs").returncode == 3


def follow(
    server: Daemon, *words: str, until: Callable[[str], bool], meanwhile: Callable[[], None] | None = None
) -> tuple[str, int]:
    """Reads lines until `until` accepts one, then types ctrl-C; the text so far and the exit code."""
    command = [sys.executable, "-m", "sparkd", *words]
    env = environment(server.socket_path)
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        rescue = threading.Timer(20, process.kill)
        rescue.start()
        text = ""
        for line in process.stdout:
            text += line
            if meanwhile:
                meanwhile()
                meanwhile = None
            if until(line):
                break
        process.send_signal(signal.SIGINT)
        text += process.stdout.read()
        code = process.wait(20)
        rescue.cancel()
    return text, code


def test_following_logs_shows_lines_as_they_come_and_ends_with_ctrl_c() -> None:
    with daemon(serving()) as server:
        server.logs = ndjson(*LOGS)
        text, code = follow(server, "ctl", "logs", "-f", until=lambda line: "third" in line)
    assert code == 0
    assert [line.split()[1] for line in text.splitlines()] == ["1@spark2", "0@spark1", "0@spark1"]


@pytest.mark.parametrize("as_json", [False, True])
def test_following_history_shows_nothing_twice(as_json: bool) -> None:
    late = event("2026-11-27T06:00:00Z", "restarted", "a late event", 15)
    other = {**late, "deployment": "bge-m3", "sentence": "of another"}
    with daemon(two()) as server:
        server.history = HISTORY
        server.events = [("status", serving()), ("event", HISTORY[0]), ("event", other), ("event", late)]
        words = ("ctl", "history", "ds4-flash", "-f", *(["--json"] if as_json else []))
        text, code = follow(server, *words, until=lambda line: "a late event" in line)
    assert code == 0
    assert text.count("serving again") == 1
    assert "of another" not in text
    if as_json:
        expected = [{"schema": 1, **one} for one in (*reversed(HISTORY), late)]
        assert [json.loads(line) for line in text.splitlines()] == expected


def test_watch_as_json_is_ndjson_of_the_event_stream() -> None:
    with daemon(serving()) as server:
        server.events = [("status", serving()), ("event", HISTORY[0])]
        text, code = follow(server, "ctl", "watch", "--json", until=lambda line: '"event": "event"' in line)
    assert code == 0
    first, second = (json.loads(line) for line in text.splitlines())
    assert first == {**serving(), "event": "status"}
    assert second == {"schema": 1, **HISTORY[0], "event": "event"}


def test_watch_without_a_terminal_says_what_changes() -> None:
    with daemon(serving(), serving(), starting(), starting(), slow(), slow(), stopped()) as server:
        server.events = [("status", serving())] * 6
        text, code = follow(server, "ctl", "watch", until=lambda line: "stopped" in line)
    assert code == 0
    assert [line.partition(" ")[2].split(":")[0].rstrip(".") for line in text.splitlines()] == [
        "ds4-flash is serving",
        "ds4-flash is starting",
        "ds4-flash is starting",
        "ds4-flash is stopped, as wanted",
    ]


def test_watch_names_a_stage_that_takes_too_long() -> None:
    with daemon(starting(), slow(), slow()) as server:
        server.events = [("status", serving())] * 2
        text, code = follow(server, "ctl", "watch", until=lambda line: "too long" in line)
    assert code == 0
    assert text.splitlines()[-1].endswith(
        "ds4-flash is starting: stage weights takes too long, 4 min so far, never more than 1 min 10 s before."
    )


def test_watch_on_a_terminal_redraws_the_screen_in_place() -> None:
    with daemon(serving(), serving(), held()) as server:
        server.events = [("status", serving())] * 2
        session = on_terminal(server.socket_path, "ctl", "watch", interrupt_at="NOT serving")
    assert session.code == 0
    assert session.text.startswith("\x1b[2J\x1b[H")
    assert session.text.count("\x1b[H") >= 2
    assert "Traceback" not in session.text


def test_watch_goes_on_when_sparkd_goes_away() -> None:
    with daemon(serving()) as server:
        server.events = [("status", serving())]

        def away() -> None:
            os.rename(server.socket_path, f"{server.socket_path}.away")
            server.hold_streams_open.set()

        text, code = follow(server, "ctl", "watch", until=lambda line: "cannot be reached" in line, meanwhile=away)
    assert code == 0
    assert text.splitlines()[-1].endswith("No such file or directory")


# --------------------------------------------------------------------------------------------------------- what is saved

SAVED: Json = {
    "schema": 1,
    "folder": "/var/lib/sparkd/captures/ds4-flash",
    "captures": [
        {
            "generation": number,
            "at": f"2026-11-27T0{number - 10}:00:33Z",
            "reason": "failed",
            "folder": f"/var/lib/sparkd/captures/ds4-flash/g{number}",
            "ranks": [{"rank": 0, "node": "spark1", "log_bytes": 90_000}],
        }
        for number in (12, 13)
    ],
}
ONE: Json = {
    **SAVED["captures"][1],
    "schema": 1,
    "ranks": [
        {"rank": 0, "node": "spark1", "inspect": {"State": {"Status": "exited", "ExitCode": 137, "OOMKilled": True}}},
        {"rank": 1, "node": "spark2", "inspect": None},
    ],
}


def test_what_is_saved_is_listed_with_the_command_to_see_it() -> None:
    with daemon(serving()) as server:
        server.captures = SAVED
        shown = sparkd(server.socket_path, "ctl", "capture", "list")
        assert json.loads(sparkd(server.socket_path, "ctl", "capture", "list", "--json").stdout) == SAVED
    assert shown.returncode == 0
    check_golden("captures", shown.stdout)


def test_nothing_saved_says_so() -> None:
    with daemon(serving()) as server:
        assert "Nothing is saved of ds4-flash" in sparkd(server.socket_path, "ctl", "capture", "list").stdout
        none = sparkd(server.socket_path, "ctl", "capture", "show")
        unknown = sparkd(server.socket_path, "ctl", "capture", "show", "--generation", "9")
    assert (none.returncode, "logs are saved when a group fails" in none.stderr) == (2, True)
    assert (unknown.returncode, "saved are: 13" in unknown.stderr) == (2, True)


def test_one_that_is_saved_tells_how_each_rank_ended() -> None:
    with daemon(serving()) as server:
        server.captures, server.capture = SAVED, ONE
        shown = sparkd(server.socket_path, "ctl", "capture", "show").stdout
        assert "/api/v1/deployments/ds4-flash/captures/13" in server.asked
        assert json.loads(sparkd(server.socket_path, "ctl", "capture", "show", "--json").stdout) == ONE
    assert "0@spark1   exited, exit code 137, killed for want of memory" in shown
    assert "1@spark2   its settings were not saved" in shown


UNIT = {"ActiveState": "active", "SubState": "exited", "ExecMainCode": "2", "ExecMainStatus": "9", "Result": "oom-kill"}
ALIVE = {
    "ActiveState": "active",
    "SubState": "running",
    "ExecMainCode": "0",
    "ExecMainStatus": "0",
    "Result": "success",
}
SHIM = {"id": "r", "container": {"state": "exited", "exit_code": 127}}


@pytest.mark.parametrize(
    ("inspect", "told"),
    [(UNIT, "exited, exit code 137, killed for want of memory"), (ALIVE, "running"), (SHIM, "exited, exit code 127")],
)
def test_ranks_without_containers_tell_how_they_ended_too(inspect: Json, told: str) -> None:
    with daemon(serving()) as server:
        server.captures = SAVED
        server.capture = {**ONE, "ranks": [{"rank": 0, "node": "spark1", "inspect": inspect}]}
        shown = sparkd(server.socket_path, "ctl", "capture", "show").stdout
    assert f"0@spark1   {told}\n" in shown


def test_logs_of_a_saved_generation() -> None:
    with daemon(serving()) as server:
        server.logs = ndjson(*LOGS)
        shown = sparkd(server.socket_path, "ctl", "logs", "--generation", "13", "--tail", "2")
        assert "/api/v1/deployments/ds4-flash/captures/13/logs?tail=40" in server.asked
        follow_it = sparkd(server.socket_path, "ctl", "logs", "--generation", "13", "-f")
    assert [line.split(" ", 2)[2] for line in shown.stdout.splitlines()] == ["second", "\tthird"]
    assert (follow_it.returncode, "a saved log does not go on" in follow_it.stderr) == (2, True)


def test_a_file_that_changed_while_nothing_runs_is_pending_for_nobody() -> None:
    """Both nodes rebooted, the start is held: `runs with 4` is said of no rank, and no restart is needed."""
    pending = {"changes": [{"key": "args.max-num-seqs", "running": "4", "file": "2"}], "problems": [], "removed": False}
    for phase, label, said in (
        ("held", "changed", "last ran with 4, its file says 2"),
        ("serve", "pending", "runs with 4, its file says 2"),
    ):
        scene = held() if phase == "held" else serving()
        (one,) = scene["deployments"]
        scene["deployments"] = [{**one, "pending": pending, "restart_pending": phase == "serve"}]
        with daemon(scene) as server:
            server.why = {**WHY, "pending": pending}
            status = sparkd(server.socket_path, "ctl", "status").stdout
            why = sparkd(server.socket_path, "ctl", "why").stdout
        assert ("restart ds4-flash` applies it" in status) is (phase == "serve")
        assert f"\n  {label}" in status
        assert said in " ".join(why.split())
        assert f"\n  {label}" in why
