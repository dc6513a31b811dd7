"""Our own blindness is no evidence: what could not be looked at ends nothing, and meanwhile the truth is said."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from .driver import FAST_POLICY, NAME, REAL_POLICY, Daemon, Load, audit, cluster, deployment, since
from .faults import fabric_cut, freeze, kill, mgmt_cut
from .nodes import Lab

# Asked every few seconds, so that it can be said within 30 s (a look at a mute node alone takes four of them); acted on
# after the ten minutes that people have.
ASKED_OFTEN = {"period": 2, "canary_timeout": 4, "stalled_after": 600, "silent_after": 60, "stuck_after": 60}
# Twelve minutes of standing still at a tenth: the verdict on failed canaries comes after one minute instead of ten.
TENTH = {"period": 2, "canary_timeout": 5, "stalled_after": 60, "silent_after": 60, "stuck_after": 60}


def configured(lab: Lab, real: bool, policy: dict[str, object]) -> Daemon:
    daemon = Daemon(lab, real=real)
    lab.reset()
    lab.install()
    base = REAL_POLICY if real else FAST_POLICY
    file = deployment(real, canary_after=2)
    daemon.configure({"sparkd.yaml": cluster({**base, **policy}), f"deployments/{NAME}.yaml": file})
    daemon.up()
    daemon.start()
    return daemon


@pytest.fixture(
    scope="module",
    params=[False, pytest.param(True, marks=[pytest.mark.real, pytest.mark.nightly])],
    ids=["fast", "real"],
)
def asked_often(lab: Lab, request: pytest.FixtureRequest) -> Iterator[Daemon]:
    yield configured(lab, request.param, ASKED_OFTEN)


def said(daemon: Daemon) -> tuple[int, int]:
    """(exit code of `ctl status`, HTTP status of /ready)"""
    code = daemon.ctl("status", check=False).returncode
    url = f"http://127.0.0.1:9477/ready/{NAME}"
    asked = daemon.head.run(["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", url], check=False)
    return code, int(asked.stdout)


@pytest.mark.timeout(900)
def test_with_the_fabric_cut_under_requests_the_truth_is_said_and_nothing_is_done(asked_often: Daemon) -> None:
    """Nothing may be done, for the peer is unknown. It serves again once the cable is back, without a restart."""
    daemon, cut_s = asked_often, 180.0 if asked_often.real else 25.0
    before = daemon.wait_serving()
    assert said(daemon) == (0, 200)
    starts = len(daemon.kinds("starting"))
    with Load(daemon, max_tokens=200) as load:
        with ExitStack() as cuts:
            cuts.enter_context(mgmt_cut(daemon.worker))
            cuts.enter_context(fabric_cut(daemon.worker))
            began = time.monotonic()
            one = daemon.wait("the truth", lambda one: one["reason"] == "not-answering", 30)
            assert since(began) < 30
            assert (one["serving"], one["phase"], said(daemon)) == (False, "serve", (4, 503))
            assert "spark2 is unknown" in one["sentence"]
            daemon.wait("the cable to be back", lambda one: since(began) > cut_s, cut_s + 30)
            assert daemon.one()["reason"] == "not-answering"
        daemon.wait("it to serve again", lambda one: one["serving"] and one["reason"] == "serving", 200)
        good = load.good
        daemon.wait("requests to be answered", lambda one: load.good > good, 60)
    after = daemon.one()
    assert (after["generation"], said(daemon)) == (before["generation"], (0, 200))
    assert len(daemon.kinds("starting")) == starts
    audit(daemon.history())


@pytest.fixture(
    scope="module",
    params=[False, pytest.param(True, marks=[pytest.mark.real, pytest.mark.nightly])],
    ids=["fast", "real"],
)
def quick_to_act(lab: Lab, request: pytest.FixtureRequest) -> Iterator[Daemon]:
    yield configured(lab, request.param, TENTH if request.param else {**TENTH, "stalled_after": 15})


@pytest.mark.timeout(600)
def test_sparkd_stopped_for_longer_than_a_verdict_takes_ends_nothing(quick_to_act: Daemon) -> None:
    """SIGSTOP after one failed canary. The first look after it once took the standstill for requests that fail."""
    daemon, stopped_s = quick_to_act, 72.0 if quick_to_act.real else 20.0
    before = daemon.wait_serving()
    head = daemon.engine_pid(0, "VLLM::EngineCore")
    with freeze(daemon.head, head):
        daemon.wait("a canary to fail", lambda one: one["canary"] and not one["canary"]["ok"], 60)
        sparkd = daemon.pid()
        stop = freeze(daemon.head, sparkd)
    began = time.monotonic()
    try:
        # The engine is well again; only sparkd does not know.
        while since(began) < stopped_s:
            daemon.complete(timeout_s=60)
    finally:
        stop.undo()
    after = daemon.wait("a canary that is answered", lambda one: one["canary"] and one["canary"]["ok"], 60)
    assert (daemon.pid(), after["generation"], after["reason"]) == (sparkd, before["generation"], "serving")
    assert len(daemon.kinds("failed")) == 0
    kill(daemon.head, sparkd)
    daemon.wait_serving()
