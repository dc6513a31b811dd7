"""Starts of the fast engine in which one rank waits for another that cannot come: told by name in about a minute.

vLLM itself waits for 30 minutes and says nothing meanwhile (evidence 07, 15).
"""

from __future__ import annotations

import pytest

from .configured import FAST_ENV, NAME
from .driver import Daemon, Json
from .faults import Fault, freeze

MEETING_S = 40
"""Of the fast engine's start: a fifth of it lies before the ranks meet."""
TOLD_S = 110.0
"""A minute from when a look shows it, the beginning of the start, and what this machine is slow by."""


def begun(fast: Daemon) -> Daemon:
    """A start that has not got as far as its meeting."""
    fast.configure(env={**FAST_ENV, "SPARKD_SIM_START_S": str(MEETING_S)})
    fast.head.run(["systemctl", "restart", "sparkd.service"])
    fast.ctl("start", NAME, "--yes")
    return fast


def failed(fast: Daemon, signature: str) -> Json:
    """The failure, once it is told."""
    seen = fast.wait(
        f"the failure {signature}",
        lambda one: one["last_failure"] is not None and one["last_failure"]["signature"] == signature,
        TOLD_S,
    )
    failure: Json = seen["last_failure"]
    return failure


def waits(one: Json) -> bool:
    return bool(one["reason"] == "loading")


@pytest.mark.nightly
@pytest.mark.timeout(400)
def test_ranks_with_a_firewall_between_them(fast: Daemon) -> None:
    rule = ["OUTPUT", "-p", "tcp", "--dport", "29501", "-j", "DROP"]
    fast.worker.run(["iptables", "-w", "-I", *rule])
    with Fault(lambda: fast.worker.run(["iptables", "-w", "-D", *rule])):
        failure = failed(begun(fast), "peer-unreachable")
    assert failure["rank"] == 1
    assert failure["text"].startswith("rank 1 on spark2 has no connection to port 29501 of rank 0 on spark1")
    fast.wait_serving(deadline_s=180)


@pytest.mark.nightly
@pytest.mark.timeout(400)
def test_a_worker_that_is_stopped_before_the_ranks_meet(fast: Daemon) -> None:
    daemon = begun(fast)
    daemon.wait("the wait for the engine", waits, 60)
    # Before its worker process is there: what has met already waits for nobody.
    with freeze(daemon.worker, daemon.engine_pid(1, "vllm serve")):
        failure = failed(daemon, "peer-stopped")
    assert (failure["rank"], "rank 1 on spark2 is stopped" in failure["text"]) == (1, True)
    daemon.wait_serving(deadline_s=180)


@pytest.mark.nightly
@pytest.mark.timeout(400)
def test_a_start_that_takes_longer_than_ever_is_named_and_serves(fast: Daemon) -> None:
    """Three times what it ever took, and more than a minute."""
    fast.start()
    fast.configure(env={**FAST_ENV, "SPARKD_SIM_START_S": "450"})
    fast.ctl("reload")
    fast.ctl("restart", NAME, "--yes")
    late = fast.wait("a stage to be suspect", lambda one: one["start"] and one["start"]["suspect"], 200)
    assert late["start"]["eta_s"] is None
    assert "so far" in late["sentence"]
    assert (late["last_failure"], late["generation"]) == (None, 2)
    assert fast.kinds("suspect")
    fast.ctl("stop", NAME, "--yes", "--wait", timeout_s=90)
