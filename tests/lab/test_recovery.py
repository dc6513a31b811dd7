"""How long it takes from a killed rank to the next answer, beside what the engine alone needs to start on the same nodes in the
same run. Prints a table; the figures are judged by a person (docs/benchmarks.md), the test by what sparkd did."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator

import pytest

from sparkd.model.words import between

from .commands import LabError, wait_for
from .configured import AS_PEOPLE_HAVE_IT, NAME, REAL_POLICY, cluster, deployment
from .driver import Daemon, audit, since
from .faults import kill
from .load import Load
from .nodes import Lab
from .test_drift import BY_HAND, by_hand

pytestmark = [pytest.mark.real, pytest.mark.nightly, pytest.mark.timeout(2400)]

TIMES = 5
LONG_S = 15
# The pauses that people have; only what counts as long serving is short, so that every kill is a first failure.
POLICY = {**REAL_POLICY, "backoff": {"first": 15, "max": 900, "reset_after": LONG_S, "reset_after_asked": LONG_S}}


@pytest.fixture
def serving(lab: Lab) -> Iterator[Daemon]:
    lab.reset()
    lab.install()
    daemon = Daemon(lab, real=True)
    wanted = cluster(POLICY, cleanup=AS_PEOPLE_HAVE_IT)
    daemon.configure({"sparkd.yaml": wanted, f"deployments/{NAME}.yaml": deployment(real=True)})
    daemon.up()
    daemon.start()
    yield daemon
    for node in lab.nodes:
        node.docker("rm", "-f", BY_HAND, check=False)


def answers(daemon: Daemon) -> bool:
    try:
        return bool(daemon.complete(timeout_s=5)["choices"])
    except LabError:
        return False


def bare_start(daemon: Daemon) -> float:
    """Seconds from nothing to an answer, without sparkd."""
    began = time.monotonic()
    by_hand(daemon, lambda rank: None)
    wait_for("the engine to answer", lambda: answers(daemon), 240, every_s=0.5)
    took = since(began)
    for node in daemon.lab.nodes:
        node.docker("rm", "-f", BY_HAND)
    return took


def served_s(daemon: Daemon) -> float:
    status = daemon.status()
    return between(daemon.one()["serving_since"], status["at"]) or 0.0


def recovery(daemon: Daemon, break_it: Callable[[], None]) -> float:
    """Seconds from a killed process to an answer of the next generation."""
    before = daemon.wait_serving()["generation"]
    wait_for("long serving", lambda: served_s(daemon) > LONG_S, 120)
    killed = time.monotonic()
    break_it()
    daemon.wait_serving(after=before)
    assert answers(daemon)
    return since(killed)


def test_a_killed_rank_costs_the_start_of_its_engine_and_little_more(serving: Daemon) -> None:
    def worker() -> None:
        kill(serving.worker, serving.engine_pid(1, "VLLM::Worker_TP1"))

    def head() -> None:
        serving.head.docker("kill", serving.container(0))

    idle = [recovery(serving, worker) for _ in range(TIMES)]
    busy = []
    for _ in range(TIMES):
        with Load(serving, max_tokens=200):
            busy.append(recovery(serving, head))
    failed = [event["sentence"] for event in serving.kinds("failed")]
    assert len(failed) == 2 * TIMES
    audit(serving.history())
    serving.ctl("stop", NAME, "--yes", "--wait", timeout_s=120)
    bare = [bare_start(serving) for _ in range(3)]
    for what, took in (("bare start", bare), ("worker killed, idle", idle), ("head killed, busy", busy)):
        shown = " ".join(f"{one:.1f}" for one in took)
        print(f"{what:22} median {statistics.median(took):5.1f} s, {min(took):.1f} to {max(took):.1f}  ({shown})")
