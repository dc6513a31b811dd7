"""The guard of a node's memory with real figures: a tmpfs that fills while a group starts is warned of, or ends that start.

Both nodes show the memory of the one machine that they run on, so the guard is set to what that machine has now, less 2 GiB.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from .configured import FAST_ENV, FAST_POLICY, NAME, cluster, deployment
from .driver import Daemon
from .nodes import Lab, Node

GIB = 1 << 30
HOG = "/mnt/guarded"
START_S = 25
# A quarter of a GiB each half second, for six seconds: slowly enough for several looks.
FILLING = f"for part in $(seq 12); do head -c 256M /dev/zero > {HOG}/$part; sleep 0.5; done"


def available(node: Node) -> int:
    lines = (line.split() for line in node.read("/proc/meminfo").splitlines())
    return next(int(words[1]) * 1024 for words in lines if words[0] == "MemAvailable:")


def files(below: int, act: str) -> dict[str, str]:
    text = deployment(env={**FAST_ENV, "SPARKD_SIM_START_S": str(START_S)})
    text += f"memory: {{gate: off, guard: {{below: {below >> 20}MiB, act: {act}}}}}\n"
    policy = {**FAST_POLICY, "resource_retries": [10, 10, 10]}
    return {"sparkd.yaml": cluster(policy), f"deployments/{NAME}.yaml": text}


@pytest.fixture(scope="module")
def daemon(lab: Lab) -> Iterator[Daemon]:
    lab.reset()
    lab.install()
    found = Daemon(lab)
    found.head.run(["install", "-d", HOG])
    found.configure(files(64 << 20, "warn"))
    found.up()
    yield found
    found.head.run(["umount", HOG], check=False)


@contextmanager
def starting(daemon: Daemon, act: str) -> Iterator[None]:
    """A group in its start, and an empty tmpfs on the head."""
    head = daemon.head
    daemon.ctl("stop", NAME, "--yes", "--wait", check=False, timeout_s=90)  # the first test finds it stopped
    head.run(["mount", "-t", "tmpfs", "-o", "size=4g", "tmpfs", HOG])
    try:
        daemon.configure(files(available(head) - 2 * GIB, act))
        daemon.ctl("reload")
        daemon.ctl("start", NAME)
        daemon.wait("both ranks", lambda one: one["phase"] == "start_head" and daemon.running(0), 60)
        yield
    finally:
        head.run(["umount", HOG], check=False)


def test_f26_a_start_in_which_memory_runs_out_is_warned_of_once_with_what_takes_it(daemon: Daemon) -> None:
    with starting(daemon, "warn"):
        daemon.head.run(["sh", "-c", FILLING], timeout_s=60)
        daemon.wait("the warning", lambda one: daemon.kinds("memory-low"), 10)
        (alert,) = daemon.node("spark1")["memory_alerts"]
        assert f"files in {HOG}" in alert["text"]
        assert HOG in daemon.ctl("nodes").stdout.replace("\n", " ")
        assert "memory-low" in daemon.ctl("why", NAME).stdout
        one = daemon.wait_serving()
        told = [event for event in daemon.kinds("memory-low") if "spark1" in event["sentence"]]
        assert len(told) == 1
        assert one["generation"] == 1
    daemon.wait("the memory to be back", lambda one: daemon.kinds("memory-back"), 20)
    assert daemon.node("spark1")["memory_alerts"] == []


def test_f26_with_stop_it_is_taken_down_in_order_and_comes_up_once_the_memory_is_back(daemon: Daemon) -> None:
    with starting(daemon, "stop"):
        before = daemon.one()["generation"]
        daemon.head.run(["sh", "-c", FILLING], timeout_s=60)
        failed = daemon.wait("the stop", lambda one: (one["last_failure"] or {}).get("generation") == before, 20)
        failure = failed["last_failure"]
        assert (failure["class"], failure["signature"]) == ("resource", "memory-guard")
        assert "the group is stopped before spark1 locks up" in failure["text"]
    one = daemon.wait_serving(after=before)
    assert one["generation"] > before
    done = [event["sentence"] for event in daemon.kinds("action") if event["generation"] == before]
    steps = [said for said in done if said.startswith(("stop ", "save ", "remove "))]
    assert [said.split(" on ")[0] for said in steps[:2]] == ["stop rank 0", "stop rank 1"], steps
    assert steps[2].startswith("save the evidence"), steps
    daemon.ctl("stop", NAME, "--yes", "--wait", timeout_s=90)
