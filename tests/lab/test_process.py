"""Ranks without containers, as units of the nodes' systemd, with the simulated engine: what `units` arranges."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from .commands import wait_for
from .configured import NAME
from .driver import SPARKD, Daemon, audit
from .faults import kill, mgmt_cut, reboot
from .load import Load
from .nodes import Lab
from .units import MODEL, USER, argv, environ, left, main_pid, runs_what_render_says, shown, unit, without_docker

SECRET = 's3cr3t "quoted" $HOME `x` \\ é'


@pytest.fixture(scope="module")
def _units(lab: Lab) -> Iterator[Daemon]:
    secrets = {"HF_TOKEN": {"file": "/etc/sparkd/hf_token"}}
    lab.spark1.write("/etc/sparkd/hf_token", SECRET + "\n", 0o644)
    with without_docker(lab, real=False, secrets=secrets, container={"ulimits": {"nofile": 4096}}) as daemon:
        daemon.start()
        yield daemon


@pytest.fixture
def units(_units: Daemon) -> Daemon:
    assert _units.recovered()
    return _units


@pytest.fixture
def alone(lab: Lab) -> Iterator[Daemon]:
    """sparkd, and no deployment that runs yet."""
    with without_docker(lab, real=False) as daemon:
        yield daemon


def test_a_start_ends_serving_as_that_user_and_runs_what_render_says(units: Daemon) -> None:
    assert units.complete()["choices"]
    runs_what_render_says(units)
    for rank, node in enumerate(units.lab.nodes):
        owner = node.text(["stat", "-c", "%U", f"/proc/{main_pid(units, rank)}"])
        assert owner == USER
        limits = node.read(f"/proc/{main_pid(units, rank)}/limits")
        assert "4096" in next(line for line in limits.splitlines() if line.startswith("Max open files"))
    assert {node["name"]: node["state"] for node in units.status()["nodes"]} == {"spark1": "ok", "spark2": "ok"}
    audit(units.history())


def test_a_secret_reaches_the_rank_and_nobody_else(units: Daemon) -> None:
    for rank, node in enumerate(units.lab.nodes):
        assert environ(units, rank)["HF_TOKEN"] == SECRET
        told = node.text(["systemctl", "show", unit(rank)]) + node.read(f"/run/systemd/transient/{unit(rank)}")
        told += node.text(["journalctl", "--no-pager", "-u", "sparkd-node.service"])
        assert "s3cr3t" not in told
        assert "s3cr3t" not in " ".join(argv(units, rank))
        assert node.text(["find", "/run/sparkd-node", "-type", "f"]) == ""


WORDS = ["$HOME", "${A}", "$$", "%h", "%%", '{"k": "v"}', "it's", 'a "b"', "back\\slash", "", "two\nlines", "é"]
ECHO = "import json, os, sys; print(json.dumps([sys.argv[1:], dict(os.environ)]))"
ASK = """
import json, socket, sys, time
owner = open("/var/lib/sparkd-node/owner").read().strip()
line = socket.socket(socket.AF_UNIX); line.connect("/run/sparkd-node.sock"); answers = line.makefile()
def verb(op, **args):
    line.sendall(json.dumps({"v": 1, "owner": owner, "op": op, "args": args, "deadline_s": 10}).encode() + b"\\n")
    answer = json.loads(answers.readline()); assert answer["ok"], answer
    return answer["result"]
asked = json.loads(sys.argv[1])
started = verb("start_rank", labels={"SPARKD_OWNER": owner}, **asked)
ends = time.monotonic() + 20
while not (said := [text for _, stream, text in verb("rank_log", tail=20, **started)["lines"] if text.startswith("[[")]):
    assert time.monotonic() < ends, "it said nothing"
assert said[0] in [text for _, _, text in verb("rank_log", first=50, **started)["lines"]], "from the beginning too"
print(said[0])
while verb("remove_rank", name=asked["name"], **started) != "removed": pass
"""


def test_words_and_values_arrive_as_written(units: Daemon) -> None:
    """Through systemd-run, systemd's own replacements in commands and environments, and an EnvironmentFile."""
    values = {f"V{number}": word for number, word in enumerate(WORDS)}
    secrets = {f"S{number}": word for number, word in enumerate(WORDS)}
    asked = {
        "name": "sparkd-words-0",
        "argv": ["/usr/bin/python3", "-c", ECHO, *WORDS],
        "env": values,
        "secrets": secrets,
        "user": USER,
        "grace_s": 5,
    }
    for node in units.lab.nodes:
        words, environment = json.loads(node.text(["python3", "-c", ASK, json.dumps(asked)]))
        assert words == WORDS
        assert {**values, **secrets}.items() <= environment.items()
        assert set(environment) - set(values) - set(secrets) == {
            *(
                "HOME",
                "INVOCATION_ID",
                "JOURNAL_STREAM",
                "LANG",
                "LOGNAME",
                "PATH",
                "SHELL",
                "SYSTEMD_EXEC_PID",
                "USER",
            ),
        }


ASK_ENGINE = """
import json, socket, sys
owner = open("/var/lib/sparkd-node/owner").read().strip()
line = socket.socket(socket.AF_UNIX); line.connect("/run/sparkd-node.sock"); answers = line.makefile()
for script in json.loads(sys.argv[1]):
    args = {"python": "/usr/bin/python3", "script": script, "user": "ranks", "env": {}}
    asked = {"v": 1, "owner": owner, "op": "ask_engine", "args": args, "deadline_s": 10}
    line.sendall(json.dumps(asked).encode() + b"\\n")
    answer = json.loads(answers.readline()); print(json.dumps(answer.get("result") or answer["error"]))
"""
SCRIPTS = {
    "import getpass, sys; print(getpass.getuser(), sys.argv[1])": f"{USER} 9\n",
    "import os; print(os.access('/dev/kmsg', 0), os.listdir('/tmp'))": "False []\n",
    "import sys; print('x' * (8 << 20))": "OSError: [Errno 27] File too large",
    "import socket; socket.create_connection(('10.78.0.12', 22), 1)": "OSError: [Errno 101] Network is unreachable",
    "open('/var/tmp/x', 'w')": "OSError: [Errno 30] Read-only file system: '/var/tmp/x'",
    "import signal; signal.pause()": "it did not end in 9 s",
}
"""What an engine that is asked might do -> what comes of it."""


def test_an_engine_that_is_asked_reaches_nothing_and_ends_by_itself(units: Daemon) -> None:
    said = units.worker.text(["python3", "-c", ASK_ENGINE, json.dumps([*SCRIPTS])]).splitlines()
    assert dict(zip(SCRIPTS, map(json.loads, said), strict=True)) == SCRIPTS
    assert units.worker.text(["systemctl", "show", "-P", "LoadState", "sparkd-ask.service"]) == "not-found"
    assert units.one()["serving"], "and disturbs nobody"


def test_what_ranks_say_is_in_their_logs(units: Daemon) -> None:
    said = [json.loads(line) for line in units.ctl("logs", NAME, "--tail", "400", "--json").stdout.splitlines()]
    assert {line["rank"] for line in said} == {0, 1}
    assert any("Started" in line["text"] and line["stream"] == "systemd" for line in said)
    assert any(line["stream"] == "stdout" for line in said)


def test_new_lines_of_a_log_are_followed(units: Daemon) -> None:
    following = units.head.popen([SPARKD, "ctl", "logs", NAME, "--follow", "--tail", "1", "--json"])
    try:
        assert following.stdout is not None
        while json.loads(following.stdout.readline())["text"].find("POST /v1/chat/completions") < 0:
            units.complete()  # writes the line that is waited for; the test's own time limit ends this
    finally:
        following.terminate()
        following.communicate()


def test_f44_sparkd_and_the_node_services_killed_under_load_cost_no_request(units: Daemon) -> None:
    before = units.wait_serving()
    pids = [main_pid(units, rank) for rank in (0, 1)]
    with Load(units) as load:
        for node in units.lab.nodes:
            node.run(["systemctl", "kill", "--signal=KILL", "sparkd-node.service"])
        units.kill()
        units.wait("sparkd to be back", lambda one: one["serving"], 30)
        had = load.good
        units.wait("requests to go on", lambda one: load.good > had, 30)
    assert not load.bad
    assert units.one()["generation"] == before["generation"]
    assert [main_pid(units, rank) for rank in (0, 1)] == pids


def test_ranks_outlive_the_connection(units: Daemon) -> None:
    before = units.wait_serving()
    pid = main_pid(units, 1)
    with mgmt_cut(units.worker):
        units.wait("the node to be unknown", lambda one: one["reason"] == "node-unknown", 60)
    units.wait("the node to be back", lambda one: one["reason"] == "serving", 60)
    assert (units.one()["generation"], main_pid(units, 1)) == (before["generation"], pid)


@pytest.mark.parametrize(("way", "code"), [("exit-0", 0), ("killed", 137)])
def test_how_a_rank_ended_while_sparkd_was_away_is_known(units: Daemon, way: str, code: int) -> None:
    before = units.wait_serving()
    units.head.run(["systemctl", "stop", "sparkd.service"])
    try:
        if way == "exit-0":  # a killed worker process: its parent ends with status 0 (evidence 01)
            kill(units.worker, units.engine_pid(1))
        else:
            units.worker.run(["kill", "-KILL", str(main_pid(units, 1))])
        wait_for("the end of the rank", lambda: shown(units, 1, "MainPID") == "0", 30)
    finally:
        units.up()
    after = units.wait_serving(after=before["generation"])
    assert after["last_failure"]["signature"] == f"exit-{code}"
    assert after["generation"] == before["generation"] + 1
    audit(units.history())


@pytest.mark.parametrize("rank", [0, 1])
def test_one_group_restart_when_a_rank_is_killed(units: Daemon, rank: int) -> None:
    before = units.wait_serving()
    starts = len(units.kinds("starting"))
    units.node_of(rank).run(["kill", "-KILL", str(main_pid(units, rank))])
    after = units.wait_serving(after=before["generation"])
    assert after["generation"] == before["generation"] + 1
    assert len(units.kinds("starting")) == starts + 1
    assert after["last_failure"]["signature"] == "exit-137"
    assert units.complete()["choices"]
    audit(units.history())


def test_a_node_reboots_and_it_serves_again_with_nothing_by_hand(units: Daemon) -> None:
    before = units.wait_serving()
    reboot(units.worker)
    for name in ("docker.socket", "docker.service"):
        units.worker.run(["systemctl", "stop", name], timeout_s=120)
    units.wait_serving(after=before["generation"], deadline_s=120)
    assert not units.kinds("held")
    audit(units.history())


def test_stop_ends_everything(units: Daemon) -> None:
    units.wait_serving()
    units.ctl("stop", NAME, "--yes", "--wait", timeout_s=90)
    assert not left(units)
    units.start()


def test_what_is_not_there_is_named_and_it_goes_on_by_itself_when_it_is(alone: Daemon) -> None:
    """A command whose interpreter is gone (a venv after an upgrade of Python), then no user."""
    command, user = "/opt/made-later/bin/vllm", "late"
    for node in alone.lab.nodes:
        node.run(["rm", "-rf", "/opt/made-later"])
        node.write(command, "#!/opt/made-later/bin/python\n", 0o755)
        node.run(["userdel", "-r", user], check=False)
    alone.configure(process=True, model=MODEL, command=command, user=user)
    alone.head.run(["systemctl", "restart", "sparkd.service"])
    alone.ctl("start", NAME)
    alone.wait("the interpreter to be named", held("the interpreter that its first line names is not there"), 30)
    for node in alone.lab.nodes:
        node.run(["ln", "-sfn", "/lab/fast/sparkd/demo/engine/vllm", command])
    alone.wait("the user to be named", held(f"user {user}, who runs the ranks, does not exist on spark1"), 30)
    for node in alone.lab.nodes:
        node.add_user(user)
    alone.wait_serving()
    alone.ctl("stop", NAME, "--yes", "--wait", timeout_s=90)


def held(text: str) -> Any:
    return lambda one: one["hold"] is not None and text in one["hold"]["text"] and one["hold"]["heals_itself"]


def test_a_unit_of_that_name_that_is_not_ours_blocks_and_stays(alone: Daemon) -> None:
    alone.worker.run(["systemd-run", "--quiet", f"--unit={unit(1)}", "sleep", "1000"])
    alone.ctl("start", NAME)
    alone.wait("the name to be taken", held(f"a unit named sparkd-{NAME}-1 on spark2 is not ours"), 30)
    assert shown(alone, 1, "ActiveState") == "active"
    alone.worker.run(["systemctl", "stop", unit(1)])
    alone.wait_serving()
    alone.ctl("stop", NAME, "--yes", "--wait", timeout_s=90)
