"""`sparkd ctl status`: the screens, word for word, and the exit codes."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from ctl_daemon import check_golden, daemon, environment, on_terminal, sparkd
from ctl_scenes import SCENES, deployment, healing, held, rank, serving, status, stopped, two, unknown_node


@pytest.mark.parametrize("scene", SCENES)
def test_screen(scene: str) -> None:
    with daemon(SCENES[scene]()) as server:
        shown = sparkd(server.socket_path, "ctl", "status")
    assert shown.stderr == ""
    lines = shown.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert len(lines) < 24 or scene == "two"
    check_golden(scene, shown.stdout)


@pytest.mark.parametrize(
    ("scene", "code"),
    [
        ("serving", 0),
        ("starting", 4),
        ("slow", 4),
        ("backoff", 4),
        ("held", 4),
        ("healing", 4),
        ("unknown_node", 0),
        ("not_answering", 4),
        ("nonsense", 4),
        ("unknown_and_down", 4),
        ("broken", 0),
        ("two", 4),
        ("paused", 0),
        ("stopped", 0),
        ("empty", 0),
    ],
)
def test_exit_code_says_whether_what_is_wanted_serves(scene: str, code: int) -> None:
    with daemon(SCENES[scene]()) as server:
        assert sparkd(server.socket_path, "ctl", "status").returncode == code
        assert sparkd(server.socket_path, "ctl", "status", "--json").returncode == code


def test_json_is_the_daemons_answer() -> None:
    with daemon(serving()) as server:
        assert json.loads(sparkd(server.socket_path, "ctl", "status", "--json").stdout) == serving()


def test_a_name_narrows_screen_json_and_exit_code() -> None:
    with daemon(two()) as server:
        shown = sparkd(server.socket_path, "ctl", "status", "bge-m3")
        assert shown.returncode == 0
        assert "ds4-flash" not in shown.stdout
        answer = json.loads(sparkd(server.socket_path, "ctl", "status", "bge-m3", "--json").stdout)
        assert [one["name"] for one in answer["deployments"]] == ["bge-m3"]
        assert sparkd(server.socket_path, "ctl", "status", "ds4-flash").returncode == 4


def test_both_doors_show_the_same() -> None:
    """The two forms without options bypass click; --socket goes through it."""
    with daemon(held()) as server:
        straight = sparkd(server.socket_path, "ctl", "status")
        parsed = sparkd("/nowhere", "ctl", "status", "--socket", server.socket_path)
    assert straight.stdout == parsed.stdout
    assert straight.returncode == parsed.returncode == 4


def test_an_old_generation_and_a_rank_never_seen_stand_out() -> None:
    ranks = [rank(0, "spark1", generation=13), rank(1, "spark2", evidence_age_s=None)]
    with daemon(status(deployment(ranks=ranks))) as server:
        shown = sparkd(server.socket_path, "ctl", "status").stdout
    assert "13 (old)" in shown
    assert "never" in shown


def test_keys_that_this_version_does_not_know_are_ignored() -> None:
    answer = serving()
    answer["news"] = answer["deployments"][0]["news"] = {"of": "a later version"}
    with daemon(answer) as server:
        assert sparkd(server.socket_path, "ctl", "status").returncode == 0


# ---------------------------------------------------------------- no usable daemon


def test_no_socket_is_exit_3_with_the_fix(tmp_path: Path) -> None:
    gone = sparkd(str(tmp_path / "none"), "ctl", "status")
    assert gone.returncode == 3
    assert gone.stdout == ""
    assert "cannot be reached" in gone.stderr
    assert "systemctl status sparkd" in gone.stderr


def test_a_socket_nobody_listens_on(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(tmp_path / "s"))
        answer = sparkd(str(tmp_path / "s"), "ctl", "status")
    assert answer.returncode == 3
    assert "not running" in answer.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody who may not connect")
def test_no_permission_says_which_group(tmp_path: Path) -> None:
    script = (
        "import os, sys; from sparkd.__main__ import main; import sparkd.cli.main, sparkd.ctl.look;"
        "os.setgid(65534); os.setuid(65534); sys.argv[1:] = ['ctl', 'status']; main()"
    )
    with daemon(serving()) as server:
        os.chmod(Path(server.socket_path).parent, 0o755)
        os.chmod(server.socket_path, 0o600)
        command = [sys.executable, "-c", script]
        env = environment(server.socket_path)
        answer = subprocess.run(command, env=env, capture_output=True, text=True, timeout=30, check=False)
    assert answer.returncode == 3
    assert "group sparkd" in answer.stderr


HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: "


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"", "cut off"),
        (b"HTTP/1.1 200", "cut off"),
        (HEAD + b"5000\r\n\r\n" + b'{"schema":1', "cut off"),
        (HEAD + b"99999999999\r\n\r\n", "cut off"),
        (b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{"sch', "cut off"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "cut off"),
        (b"SSH-2.0-OpenSSH_9.9\r\n\r\n", "no HTTP"),
        (b"\x00\xff" * 70000, "cut off"),
        (HEAD + b"9\r\n\r\nnot json!", "no JSON"),
        (HEAD + b"2\r\n\r\n[]", "no JSON object"),
        (HEAD + b"2\r\n\r\n{}", "has no 'cluster'"),
        (HEAD + b'12\r\n\r\n{"schema":9}', "schema 9"),
        (b"HTTP/1.1 500 Oops\r\nContent-Length: 4\r\n\r\nOops", "status 500"),
    ],
)
def test_a_garbled_answer_is_one_sentence(raw: bytes, said: str) -> None:
    with daemon() as server:
        server.raw = raw
        answer = sparkd(server.socket_path, "ctl", "status")
    assert answer.returncode == (1 if "500" in said else 3)
    assert said in " ".join(answer.stderr.split())
    assert "Traceback" not in answer.stderr
    assert [line.split()[0] for line in answer.stderr.splitlines() if ": " in line[:9]] == ["sparkd:", "fix:"]


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (("deployments",), "none", "the answer.deployments should be a list, not str"),
        (("deployments", 0, "ranks"), [3], "the answer.deployments[0].ranks[0] should be a dict, not int"),
        (("deployments", 0, "serving"), 1, "should be a bool, not int"),
        (("deployments", 0, "since"), "yesterday", "is no time: 'yesterday'"),
        (("nodes", 1, "memory", "free"), True, "should be a int, not bool"),
        (("daemon", "loop_age_s"), "1", "should be a number, not str"),
        (("at",), None, "should be a str, not NoneType"),
    ],
)
def test_an_answer_of_another_shape_names_the_place(path: tuple[str | int, ...], value: object, said: str) -> None:
    answer = serving()
    inner = answer
    for step in path[:-1]:
        inner = inner[step]  # type: ignore[index]  # a path of keys and indexes
    inner[path[-1]] = value  # type: ignore[index]
    with daemon(answer) as server:
        shown = sparkd(server.socket_path, "ctl", "status")
    assert shown.returncode == 3
    assert said in " ".join(shown.stderr.split())
    assert "Traceback" not in shown.stderr


def test_errors_are_json_too(tmp_path: Path) -> None:
    for words in (("ctl", "status", "--json"), ("ctl", "nodes", "--json")):
        answer = sparkd(str(tmp_path / "none"), *words)
        assert answer.returncode == 3
        error = json.loads(answer.stdout)
        assert error["schema"] == 1
        assert error["error"]["code"] == "unreached"
        assert error["error"]["fix"]
        assert answer.stderr == ""


def test_a_daemon_that_hangs_is_given_up_on(tmp_path: Path) -> None:
    from sparkd.ctl.client import Api
    from sparkd.ctl.errors import Unreached

    with socket.socket(socket.AF_UNIX) as mute:
        mute.bind(str(tmp_path / "s"))
        mute.listen()
        with pytest.raises(Unreached, match=r"did not answer within 0\.1 s"):
            Api(str(tmp_path / "s"), deadline_s=0.1).get("/api/v1/status")


def test_a_trickling_daemon_is_read_to_the_end(tmp_path: Path) -> None:
    from sparkd.ctl.client import Api

    body = json.dumps({"schema": 1, "text": "x" * 300_000}).encode()

    def trickle() -> None:
        peer, _ = server.accept()
        with peer:
            peer.recv(4096)
            peer.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
            for start in range(0, len(body), 50_000):
                peer.sendall(body[start : start + 50_000])

    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "s"))
        server.listen()
        thread = threading.Thread(target=trickle)
        thread.start()
        assert Api(str(tmp_path / "s")).get("/")["text"] == "x" * 300_000
        thread.join()


# ---------------------------------------------------------------- terminals, cost


def test_without_a_terminal_there_is_no_colour() -> None:
    with daemon(healing()) as server:
        assert "\x1b" not in sparkd(server.socket_path, "ctl", "status", env={"TERM": "xterm"}).stdout


@pytest.mark.parametrize(
    ("env", "coloured"),
    [
        ({"TERM": "xterm"}, True),
        ({"TERM": "xterm", "NO_COLOR": "1"}, False),
        ({"TERM": "xterm", "NO_COLOR": ""}, True),
        ({"TERM": "dumb"}, False),
    ],
)
def test_colour_on_a_terminal(env: dict[str, str], coloured: bool) -> None:
    with daemon(held()) as server:
        shown = on_terminal(server.socket_path, "ctl", "status", env=env).text
    assert ("\x1b[1;31mds4-flash is NOT serving" in shown) is coloured
    assert ("\x1b" in shown) is coloured


def test_a_narrow_terminal_is_respected_where_words_allow() -> None:
    with daemon(held()) as server:
        shown = sparkd(server.socket_path, "ctl", "status", env={"COLUMNS": "60"}).stdout
    prose = [line for line in shown.splitlines() if line.startswith(("  why", " " * 13))]
    assert prose
    assert max(map(len, prose)) <= 60


def test_words_that_the_locale_cannot_show_do_no_harm() -> None:
    answer = status(deployment(sentence="läuft · 37 tok/s ✓"))
    env = {"LC_ALL": "POSIX", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    with daemon(answer) as server:
        shown = sparkd(server.socket_path, "ctl", "status", env=env)
    assert shown.returncode == 0
    assert "37 tok/s" in shown.stdout


def test_a_reader_that_goes_away_is_no_error() -> None:
    with daemon(stopped()) as server:
        command = [sys.executable, "-m", "sparkd", "ctl", "status"]
        reader, writer = os.pipe()
        os.close(reader)
        env = environment(server.socket_path)
        shown = subprocess.run(command, env=env, stdout=writer, stderr=subprocess.PIPE, timeout=30, check=False)
        os.close(writer)
    assert shown.stderr == b""
    assert shown.returncode == 0


HEAVY = (
    "asyncio",
    "aiohttp",
    "pydantic",
    "ruamel",
    "httpx",
    "anyio",
    "structlog",
    "email",
    "http",
    "dataclasses",
    "sqlite3",
)


@pytest.mark.parametrize(
    ("words", "more"), [(["ctl", "status"], ("click", "inspect")), (["ctl", "status", "--socket", ""], ())]
)
def test_status_loads_little(words: list[str], more: tuple[str, ...]) -> None:
    """Start-up time itself is measured by the bench; this keeps what it depends on from creeping in."""
    script = (
        "import sys; from sparkd.__main__ import main\n"
        "try: main()\n"
        "finally: print(*sorted(sys.modules), file=sys.stderr)"
    )
    with daemon(unknown_node()) as server:
        words = [word or server.socket_path for word in words]
        command = [sys.executable, "-c", script, *words]
        env = environment(server.socket_path)
        run = subprocess.run(command, env=env, capture_output=True, text=True, timeout=30, check=False)
    assert run.returncode == 0, run.stderr
    loaded = {name.partition(".")[0] for name in run.stderr.split()}
    own = {name for name in run.stderr.split() if name.startswith("sparkd")}
    assert not loaded & {*HEAVY, *more}
    door = {"sparkd", "sparkd.cli", "sparkd.cli.main", "sparkd.__main__", "sparkd.demo", "sparkd.demo.cli"}
    door |= {"sparkd.cli.check", "sparkd.cli.compare", "sparkd.cli.tab_completion"}
    assert {name for name in own if not name.startswith("sparkd.ctl")} <= door
