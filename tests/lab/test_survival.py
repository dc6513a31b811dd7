"""sparkd dies, is killed, is paused, is restarted: the engine does not notice, and what a person wanted stays."""

from __future__ import annotations

import json
import random
import time

import pytest

from .configured import NAME
from .driver import Daemon, audit, overlaps, since
from .faults import reboot
from .load import Load


def test_f38_adopted_under_load_without_a_failed_request(serving: Daemon) -> None:
    before = serving.wait_serving()
    with Load(serving) as load:
        killed = time.monotonic()
        serving.kill()
        serving.wait("sparkd to be back", lambda one: one["serving"], 30)
        assert since(killed) < 15
        had = load.good
        serving.wait("requests to go on", lambda one: load.good > had, 30)
    assert not load.bad
    assert serving.one()["generation"] == before["generation"]


@pytest.mark.timeout(1500)
@pytest.mark.parametrize("kills", [12, pytest.param(50, marks=pytest.mark.nightly)])
def test_killed_at_random_moments_it_always_ends_where_intent_says(serving: Daemon, kills: int) -> None:
    """SIGKILLs of sparkd during starts, stops and restarts: never two sets of ranks."""
    moments = random.Random(20260530)
    wanted = "up"
    serving.wait_serving()
    for _ in range(kills):
        verb = moments.choice(["restart", "stop"] if wanted == "up" else ["start"])
        wanted = "stopped" if verb == "stop" else "up"
        yes = ["--yes"] if verb != "start" else []
        assert serving.ctl(verb, NAME, *yes, check=False).returncode == 0
        serving.head.run(["sleep", f"{moments.uniform(0.0, 4.0):.2f}"])
        serving.kill()
        wait_answering(serving)
        assert not overlaps(serving)
    if wanted == "stopped":
        serving.ctl("start", NAME)
    serving.wait_serving(deadline_s=120)
    assert serving.complete()["choices"]
    assert not overlaps(serving)
    audit(serving.history())


def wait_answering(daemon: Daemon) -> None:
    daemon.wait("sparkd to answer again", lambda one: one["phase"], 30)


def test_a_stop_survives_sparkd_and_a_reboot(serving: Daemon) -> None:
    serving.wait_serving()
    serving.ctl("stop", NAME, "--yes", "--wait", "-m", "maintenance", timeout_s=90)
    serving.kill()
    wait_answering(serving)
    reboot(serving.head)
    one = serving.wait("the stop to stand", lambda one: one["phase"] == "stopped", 60)
    assert one["wanted"] == "stopped"
    assert not serving.running(0)
    assert not serving.running(1)
    serving.start()


def test_f34_paused_it_reports_and_acts_on_nothing(serving: Daemon) -> None:
    before = serving.wait_serving()
    serving.ctl("pause", NAME, "--yes", "--wait", timeout_s=60)
    serving.worker.docker("kill", serving.container(1))
    seen = serving.wait("the loss to be reported", lambda one: one["ranks"][1]["state"] == "exited", 30)
    assert seen["phase"] == "paused"
    assert seen["serving"] is False
    serving.kill()
    one = serving.wait("the pause to stand", lambda one: one["phase"] == "paused", 30)
    assert one["generation"] == before["generation"]
    serving.ctl("resume", NAME, "--wait", timeout_s=60)
    serving.wait_serving(after=before["generation"])
    audit(serving.history())


def test_a_second_sparkd_on_the_same_state_exits_7(serving: Daemon) -> None:
    serving.wait_serving()
    argv = ["runuser", "-u", "sparkd", "--", "/opt/sparkd/bin/sparkd", "run", "--config", "/etc/sparkd"]
    done = serving.head.run(argv, check=False)
    assert done.returncode == 7, done.stderr
    assert serving.one()["serving"]


def test_one_broken_deployment_file_is_held_alone(serving: Daemon) -> None:
    before = serving.wait_serving()
    serving.head.write("/etc/sparkd/deployments/broken.yaml", "name: broken\nengine: vllm\nnodes: [spark9]\n")
    try:
        serving.head.run(["systemctl", "restart", "sparkd.service"])
        assert serving.wait_serving()["generation"] == before["generation"]
        broken = serving.one("broken")
        assert broken["phase"] == "held"
        assert "broken.yaml:3" in broken["hold"]["text"]
    finally:
        serving.head.run(["rm", "/etc/sparkd/deployments/broken.yaml"])
        serving.head.run(["systemctl", "restart", "sparkd.service"])


def test_another_owner_is_refused_by_the_node_service(serving: Daemon) -> None:
    serving.wait_serving()
    request = json.dumps(
        {"v": 1, "owner": "5f3e6b0a-4a63-4a6e-9d56-6d2f1c7a0b11", "op": "claim", "args": {"take": False}}
    )
    script = (
        "import socket,sys; s=socket.socket(socket.AF_UNIX); s.connect('/run/sparkd-node.sock'); "
        "s.sendall(sys.argv[1].encode()+b'\\n'); print(s.makefile().readline())"
    )
    answer = json.loads(serving.worker.run(["python3", "-c", script, request]).stdout)
    assert answer["ok"] is False
    assert answer["code"] == "owner"


# Last, for the nodes are made clean for them.


def test_bad_configuration_exits_2_with_every_problem(fast: Daemon) -> None:
    fast.head.run(["systemctl", "stop", "sparkd.service"])
    bad = "cluster: lab\nnodes: {spark1: {address: local}}\npolicy: {period: 0, nonsense: 1}\n"
    fast.configure({"sparkd.yaml": bad, "deployments/broken.yaml": "name: x\nengine: vlm\n"})
    done = fast.head.run(["/opt/sparkd/bin/sparkd", "run", "--config", "/etc/sparkd"], check=False)
    assert done.returncode == 2
    for expected in ("sparkd.yaml:3", "nonsense", "period", "broken.yaml"):
        assert expected in done.stderr, done.stderr


def test_without_a_daemon_ctl_exits_3_and_says_what_to_do(fast: Daemon) -> None:
    fast.head.run(["systemctl", "stop", "sparkd.service"])
    done = fast.ctl("status", check=False)
    assert done.returncode == 3
    assert "systemctl" in done.stderr
