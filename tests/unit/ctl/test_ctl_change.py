"""start, stop, restart, pause, resume, release: the question, the request, the wait, the exit code."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from ctl_daemon import check_golden, daemon, error, on_terminal, sparkd
from ctl_scenes import (
    Json,
    backoff,
    broken,
    deployment,
    empty,
    held,
    node,
    paused,
    serving,
    starting,
    status,
    stopped,
    two,
    unknown_node,
)

from sparkd.ctl import wait
from sparkd.ctl.client import Api
from sparkd.ctl.errors import Unreached
from sparkd.verbs import verbs

ASKING = ("stop", "restart", "pause")
FREE = ("start", "resume", "release")


def operation(state: str, sentence: str = "") -> Json:
    return {"schema": 1, "operation": "op-7", "state": state, "sentence": sentence}


@pytest.mark.parametrize("verb", ASKING)
def test_what_takes_something_away_is_refused_without_a_terminal(verb: str) -> None:
    with daemon(serving()) as server:
        answer = sparkd(server.socket_path, "ctl", verb)
        assert server.posted == []
    assert answer.returncode == 2
    assert "not confirmed" in answer.stderr
    assert "--yes" in answer.stderr


@pytest.mark.parametrize("verb", FREE)
def test_what_takes_nothing_away_is_done_at_once(verb: str) -> None:
    with daemon(serving()) as server:
        answer = sparkd(server.socket_path, "ctl", verb, "-m", "because")
        body = {"message": "because"}
        assert server.posted == [(f"/api/v1/deployments/ds4-flash/{verb}", body)]
    assert answer.returncode == 0
    assert "sparkd ctl watch ds4-flash" in answer.stdout


@pytest.mark.parametrize("verb", ASKING)
def test_yes_is_yes(verb: str) -> None:
    with daemon(serving()) as server:
        assert sparkd(server.socket_path, "ctl", verb, "--yes").returncode == 0
        assert [path for path, _ in server.posted] == [f"/api/v1/deployments/ds4-flash/{verb}"]


def test_options_reach_the_daemon() -> None:
    with daemon(serving()) as server:
        sparkd(server.socket_path, "ctl", "stop", "--assume-lost", "spark1", "--assume-lost", "spark2", "-y")
        assert server.posted[0][1]["assume_lost"] == ["spark1", "spark2"]


@pytest.mark.parametrize(("typed", "code", "posts"), [("y\n", 0, 1), ("n\n", 2, 0), ("\n", 2, 0), ("\x04", 2, 0)])
def test_the_question(typed: str, code: int, posts: int) -> None:
    with daemon(serving()) as server:
        session = on_terminal(server.socket_path, "ctl", "restart", typed=typed)
        assert len(server.posted) == posts
    assert session.code == code
    said = " ".join(session.text.split())
    assert "Restart ds4-flash: its ranks on spark1 and spark2 end together and start again as generation 15." in said
    assert "It is serving since 03:10" in said
    assert ("nothing was changed" in said) is (code == 2)


def test_assume_lost_asks_even_on_top_of_an_unknown_node_and_warns_when_it_answers() -> None:
    with daemon(unknown_node()) as server:
        session = on_terminal(server.socket_path, "ctl", "stop", "--assume-lost", "spark2", typed="n\n")
        assert "spark2 is declared lost" in session.text
        assert "answers right now" not in session.text
        session = on_terminal(server.socket_path, "ctl", "stop", "--assume-lost", "spark1", typed="n\n")
        assert "But spark1 answers right now." in session.text
        assert server.posted == []


@pytest.mark.parametrize(
    ("verb", "effect"),
    [
        ("start", "would start ds4-flash on spark1 and spark2 and keep it up."),
        (
            "stop",
            "would stop ds4-flash: its ranks on spark1 and spark2 end, and it stays down until somebody starts it.",
        ),
        ("release", "would release ds4-flash from its hold"),
    ],
)
def test_dry_run_says_and_does_nothing(verb: str, effect: str) -> None:
    with daemon(held()) as server:
        said = sparkd(server.socket_path, "ctl", verb, "--dry-run")
        as_json = sparkd(server.socket_path, "ctl", verb, "--dry-run", "--json")
        assert server.posted == []
    assert said.returncode == as_json.returncode == 0
    assert max(map(len, said.stdout.splitlines())) <= 80
    assert " ".join(said.stdout.split()).startswith(effect)
    assert "Nothing was changed." in said.stdout
    assert json.loads(as_json.stdout)["dry_run"] is True


@pytest.mark.parametrize(
    ("verb", "scene", "said", "fix"),
    [
        ("release", serving, "ds4-flash: it is not held, its phase is serve", ""),
        ("resume", serving, "ds4-flash: it is not paused", ""),
        ("start", paused, "ds4-flash: it is paused: sparkd acts on nothing", "sparkd ctl resume ds4-flash"),
        ("stop", paused, "ds4-flash: it is paused: sparkd acts on nothing", "sparkd ctl resume ds4-flash"),
        ("restart", broken, "ds4-flash is held: ds4-flash.yaml cannot be used", "sparkd config check"),
    ],
)
def test_dry_run_refuses_what_the_daemon_refuses(verb: str, scene: Callable[[], Json], said: str, fix: str) -> None:
    with daemon(scene()) as server:
        answer = sparkd(server.socket_path, "ctl", verb, "--dry-run")
    assert (answer.returncode, answer.stdout) == (1, "")
    assert answer.stderr.splitlines()[0] == f"sparkd: {said}"
    assert answer.stderr.splitlines()[1:] == ([f"   fix: {fix}"] if fix else [])


@pytest.mark.parametrize(
    ("verb", "scene", "state"),
    [("start", serving, "serving"), ("stop", stopped, "stopped"), ("pause", paused, "paused")],
)
def test_dry_run_says_what_is_so_already(verb: str, scene: Callable[[], Json], state: str) -> None:
    with daemon(scene()) as server:
        answer = sparkd(server.socket_path, "ctl", verb, "--dry-run")
    assert answer.returncode == 0
    assert answer.stdout.startswith(f"would do nothing: ds4-flash is already {state}.\n")


def test_what_is_said_on_a_terminal_breaks_between_words() -> None:
    with daemon(serving()) as server:
        session = on_terminal(server.socket_path, "ctl", "stop", typed="n\n")
    assert max(map(len, session.text.splitlines())) <= 80
    assert "spark2 end, and it stays down until" in " ".join(session.text.split())


def test_names() -> None:
    with daemon(two()) as server:
        several = sparkd(server.socket_path, "ctl", "start")
        typo = sparkd(server.socket_path, "ctl", "start", "ds4-flsh")
        foreign = sparkd(server.socket_path, "ctl", "start", "?/../x")
        lost = sparkd(server.socket_path, "ctl", "stop", "bge-m3", "--assume-lost", "sprk2", "-y")
        verb = sparkd(server.socket_path, "ctl", "strat")
        assert server.posted == []
    assert [one.returncode for one in (several, typo, foreign, lost, verb)] == [2] * 5
    assert "name one of bge-m3, ds4-flash" in several.stderr
    assert "did you mean ds4-flash?" in typo.stderr
    assert "there is: bge-m3, ds4-flash" in foreign.stderr
    assert "did you mean spark2?" in lost.stderr
    assert "start" in verb.stderr
    with daemon(empty()) as server:
        assert sparkd(server.socket_path, "ctl", "start").returncode == 2


@pytest.mark.parametrize(("http", "code"), [(409, 1), (404, 2), (400, 2), (503, 1), (403, 1)])
def test_a_refusal_shows_reason_and_fix(http: int, code: int) -> None:
    with daemon(paused()) as server:
        server.refusal = http, error("conflict", "it is paused: sparkd acts on nothing", "resume it first")
        answer = sparkd(server.socket_path, "ctl", "start")
        as_json = sparkd(server.socket_path, "ctl", "start", "--json")
    assert answer.returncode == as_json.returncode == code
    assert answer.stderr == "sparkd: it is paused: sparkd acts on nothing\n   fix: resume it first\n"
    assert json.loads(as_json.stdout) == server.refusal[1]


def test_the_operation_as_json() -> None:
    with daemon(serving()) as server:
        answer = sparkd(server.socket_path, "ctl", "start", "--json")
    assert json.loads(answer.stdout) == {"schema": 1, "operation": "op-7"}


# ---------------------------------------------------------------- --wait


def test_wait_shows_a_line_a_change_and_ends_with_the_verdict() -> None:
    early = starting()
    early["deployments"][0].update(phase="cleanup", start=None)
    with daemon(serving(), early, early, starting(), serving()) as server:
        server.operations = [operation("running")] * 3 + [operation("done")]
        answer = sparkd(server.socket_path, "ctl", "restart", "--yes", "--wait")
    assert answer.returncode == 0
    lines = [line.partition(" [")[0] for line in answer.stderr.splitlines()]
    assert lines == [
        "ds4-flash: cleaning up behind the last start",
        "ds4-flash: starting the head, weights, about 1 min 50 s to go",
        "ds4-flash: serving",
    ]
    assert answer.stdout.startswith("ds4-flash is serving. [restart: ")


def test_wait_on_a_terminal_is_one_line() -> None:
    with daemon(serving(), starting(), starting(), serving()) as server:
        server.operations = [operation("running")] * 2 + [operation("done")]
        session = on_terminal(server.socket_path, "ctl", "start", "--wait")
    assert session.code == 0
    assert session.text.count("\r\x1b[K") >= 3
    assert session.text.count("\n") == 1
    assert session.text.rstrip().rpartition("\x1b[K")[2].startswith("ds4-flash is serving.")


def test_wait_ends_1_when_it_is_held_and_says_why() -> None:
    with daemon(serving(), starting(), held()) as server:
        server.operations = [operation("running"), operation("failed", "held: the same exit twice in a row")]
        answer = sparkd(server.socket_path, "ctl", "start", "--wait")
    assert answer.returncode == 1
    check_golden("wait-failed", answer.stdout.replace("after 1 s", "after 0 s"))


@pytest.mark.parametrize("words", [[], ["--json"]])
def test_wait_out_of_time_is_6(words: list[str]) -> None:
    with daemon(serving(), starting()) as server:
        server.operations = [operation("running")]
        answer = sparkd(server.socket_path, "ctl", "start", "--wait", "--timeout", "0.2", *words)
    assert answer.returncode == 6
    if words:
        assert json.loads(answer.stdout)["outcome"] == "timeout"
    else:
        assert "the start of ds4-flash goes on" in answer.stdout


def test_wait_as_json_is_one_object() -> None:
    with daemon(serving(), starting(), serving()) as server:
        server.operations = [operation("running"), operation("done", "serving")]
        answer = sparkd(server.socket_path, "ctl", "start", "--wait", "--json")
    outcome = json.loads(answer.stdout)
    assert outcome["schema"] == 1
    assert (outcome["operation"], outcome["verb"], outcome["outcome"]) == ("op-7", "start", "done")
    assert outcome["deployment"] == serving()["deployments"][0]


@pytest.mark.parametrize(
    ("verb", "scenes", "code"),
    [
        ("start", [stopped(), starting(), serving()], 0),
        ("stop", [serving(), serving(), stopped()], 0),
        ("pause", [serving(), serving(), paused()], 0),
        ("release", [held(), backoff(), held()], 1),
    ],
)
def test_wait_survives_a_restart_of_sparkd_that_forgot_the_operation(verb: str, scenes: list[Json], code: int) -> None:
    with daemon(*scenes) as server:
        server.operations = [404]
        assert sparkd(server.socket_path, "ctl", verb, "--yes", "--wait").returncode == code


def test_wait_of_a_deployment_that_went_away_fails() -> None:
    with daemon(serving(), empty()) as server:
        server.operations = [operation("running")]
        answer = sparkd(server.socket_path, "ctl", "stop", "--yes", "--wait")
    assert answer.returncode == 1
    assert "not configured any more" in answer.stderr


@pytest.mark.parametrize("words", [(), ("--json",)])
def test_wait_for_the_stop_of_one_whose_file_is_gone_ends_well(words: tuple[str, ...]) -> None:
    with daemon(serving(), empty()) as server:
        server.operations = [operation("done", "it has no usable file and nothing of it runs: removed")]
        answer = sparkd(server.socket_path, "ctl", "stop", "--yes", "--wait", *words)
    assert (answer.returncode, answer.stderr) == (0, "")
    assert "nothing of it runs: removed" in answer.stdout
    if words:
        assert (json.loads(answer.stdout)["outcome"], json.loads(answer.stdout)["deployment"]) == ("done", None)


def test_ctrl_c_leaves_the_operation_running_and_says_so() -> None:
    with daemon(serving(), starting()) as server:
        server.operations = [operation("running")]
        session = on_terminal(server.socket_path, "ctl", "start", "--wait", interrupt_at="to go")
        assert len(server.posted) == 1
    assert session.code == 130
    assert "Not cancelled: sparkd goes on with the start of ds4-flash." in session.text
    assert "Traceback" not in session.text


def test_stopping_counts_the_ranks_that_are_still_up() -> None:
    going = status(deployment(wanted="stopped"), nodes=[node("spark1"), node("spark2")])
    with daemon(serving(), going, stopped()) as server:
        server.operations = [operation("running"), operation("done")]
        answer = sparkd(server.socket_path, "ctl", "stop", "--yes", "--wait")
    assert "ds4-flash: stopping, 2 ranks still up" in answer.stderr
    assert answer.stdout.startswith("ds4-flash is stopped, as wanted.")


def test_timeout_without_wait_is_wrong_usage() -> None:
    with daemon(serving()) as server:
        assert sparkd(server.socket_path, "ctl", "start", "--timeout", "5").returncode == 2
        assert server.posted == []


def test_wait_outlives_a_short_absence_of_sparkd(capsys: pytest.CaptureFixture[str]) -> None:
    with daemon(serving()) as server:
        server.operations = [operation("done")]
        os.rename(server.socket_path, f"{server.socket_path}.away")
        back = threading.Timer(0.3, os.rename, (f"{server.socket_path}.away", server.socket_path))
        back.start()
        assert (
            wait.follow(Api(server.socket_path), wait.Operation("op-7", verbs()["start"], "ds4-flash"), None, False)
            == 0
        )
        back.join()
    shown = capsys.readouterr()
    assert "cannot be reached" in shown.err
    assert "trying again" in shown.err
    assert shown.out.startswith("ds4-flash is serving.")


def test_wait_gives_up_on_a_sparkd_that_stays_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wait, "PATIENCE_S", 0.1)
    with pytest.raises(Unreached):
        wait.follow(Api(str(tmp_path / "none")), wait.Operation("op-7", verbs()["start"], "ds4-flash"), None, False)


# ------------------------------------------------------------------------------------------------- what would be cleaned

SPARK1 = {
    "drop_caches": True, "swapoff": True, "page_cache": 96 << 30, "swap_used": 2 << 30,
    "shm": {"psm_1": 160 << 20, "sem.mp-1": 32}, "caches": {"/home/milo/.cache/vllm": 3 << 30, "/c/flashinfer": 0},
}  # fmt: skip
ENDS = {"sparkd-ds4-0 of generation 7": 3 << 30, "VLLM::Worker (pid 44) of generation 6 of ds4-flash": 1 << 30}
IDLE = {"drop_caches": False, "swapoff": False, "page_cache": 1, "swap_used": 0, "shm": {}, "caches": {}}
CLEANUP = {
    "schema": 1,
    "nodes": {
        "spark1": SPARK1,
        "spark2": IDLE,
        "spark4": {**IDLE, "ends": ENDS},
        "spark3": {"why": "no answer", **IDLE},
    },
}


@pytest.mark.parametrize(("verb", "fails", "held"), [("start", 2, True), ("start", 0, False), ("stop", 2, False)])
def test_a_dry_run_says_that_a_failing_check_would_hold_the_start(verb: str, fails: int, held: bool) -> None:
    scene = stopped() if verb == "start" else serving()
    scene["deployments"] = [{**scene["deployments"][0], "checks": {"ok": 20, "warn": 1, "fail": fails, "unknown": 0}}]
    with daemon(scene) as server:
        said = " ".join(sparkd(server.socket_path, "ctl", verb, "--dry-run").stdout.split())
    assert ("would be held by what fails now: `sparkd ctl check ds4-flash`." in said) is held


def test_a_dry_run_lists_what_a_start_would_take_away() -> None:
    with daemon(serving()) as server:
        server.cleanup = CLEANUP
        said = sparkd(server.socket_path, "ctl", "restart", "--clean", "--dry-run")
        as_json = sparkd(server.socket_path, "ctl", "restart", "--clean", "--dry-run", "--json")
        assert server.posted == []
        assert "/api/v1/deployments/ds4-flash/cleanup?clean=true" in server.asked
    assert said.returncode == 0
    text = " ".join(said.stdout.split())
    assert "as long as the very first one." in text
    assert (
        "spark1: 96.0 GiB of page cache, 2 segments of shared memory that nobody holds (160 MiB), "
        "2.0 GiB taken back from swap, 3.0 GiB in /home/milo/.cache/vllm spark2: nothing to clean"
    ) in text
    assert "spark3: cannot be looked at: no answer" in text
    assert (
        "spark4: sparkd-ds4-0 of generation 7 (3.0 GiB), VLLM::Worker (pid 44) of generation 6 of ds4-flash (1.0 GiB)"
    ) in text
    assert json.loads(as_json.stdout)["cleanup"]["spark1"]["page_cache"] == 96 << 30


def test_a_clean_restart_is_asked_for_as_such() -> None:
    with daemon(serving()) as server:
        assert sparkd(server.socket_path, "ctl", "restart", "--clean", "--yes").returncode == 0
        assert [body["clean"] for _, body in server.posted] == [True]
