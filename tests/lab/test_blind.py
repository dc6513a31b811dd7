"""Our own blindness is no evidence: what could not be looked at ends nothing, and meanwhile the truth is said."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from contextlib import ExitStack
from datetime import datetime
from typing import Any

import pytest

from .configured import AS_PEOPLE_HAVE_IT, FAST_POLICY, KEEP_CACHES, NAME, REAL_POLICY, cluster, deployment
from .driver import Daemon, audit, since
from .faults import fabric_cut, freeze, kill, mgmt_cut, power_cut
from .load import Load
from .nodes import Lab

OFTEN = {"period": 2, "canary_timeout": 4, "silent_after": 60, "stuck_after": 60}
# Requests that fail are acted on after the ten minutes that people have, or after one, so that twelve minutes of standing
# still are seventy seconds. The fast engine is well again when TCP next tries, up to half a minute after a cut.
TEN_MINUTES, ONE_MINUTE, QUICK = (
    {**OFTEN, "stalled_after": 600},
    {**OFTEN, "stalled_after": 60},
    {**OFTEN, "stalled_after": 40},
)


def configured(lab: Lab, real: bool, policy: Mapping[str, object]) -> Daemon:
    daemon = Daemon(lab, real=real)
    lab.reset()
    lab.install()
    base, cleanup = (REAL_POLICY, AS_PEOPLE_HAVE_IT) if real else (FAST_POLICY, KEEP_CACHES)
    file = deployment(real, canary_after=2)
    mine = cluster({**base, **policy}, cleanup=cleanup)
    daemon.configure({"sparkd.yaml": mine, f"deployments/{NAME}.yaml": file})
    daemon.up()
    daemon.start()
    return daemon


@pytest.fixture(scope="module")
def quick(lab: Lab) -> Daemon:
    return configured(lab, False, QUICK)


@pytest.fixture
def ten_minutes(lab: Lab) -> Daemon:
    return configured(lab, True, TEN_MINUTES)


@pytest.fixture
def one_minute(lab: Lab) -> Daemon:
    return configured(lab, True, ONE_MINUTE)


def real(daemon: str) -> object:
    return pytest.param(daemon, marks=[pytest.mark.real, pytest.mark.nightly])


def said(daemon: Daemon) -> tuple[int, int]:
    """(exit code of `ctl status`, HTTP status of /ready)"""
    code = daemon.ctl("status", check=False).returncode
    url = f"http://127.0.0.1:9477/ready/{NAME}"
    asked = daemon.head.run(["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", url], check=False)
    return code, int(asked.stdout)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("which", ["quick", real("ten_minutes")])
def test_with_the_fabric_cut_under_requests_the_truth_is_said_and_nothing_is_done(
    which: str, request: pytest.FixtureRequest
) -> None:
    """Nothing may be done, for the peer is unknown. It serves again once the cable is back, without a restart."""
    daemon: Daemon = request.getfixturevalue(which)
    cut_s = 180.0 if daemon.real else 25.0
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


@pytest.mark.timeout(600)
@pytest.mark.real
@pytest.mark.nightly
def test_f49_sparkd_stopped_for_longer_than_a_verdict_takes_ends_nothing(one_minute: Daemon) -> None:
    """SIGSTOP after one failed canary. The first look after it once took the standstill for requests that fail."""
    daemon, stopped_s = one_minute, 72.0
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


@pytest.mark.timeout(900)
@pytest.mark.parametrize("which", ["quick", real("one_minute")])
def test_both_nodes_lose_power_and_the_outage_is_told_right(which: str, request: pytest.FixtureRequest) -> None:
    """One record: sparkd itself was away, a reboot is the cause, and what was down counts from before the boot."""
    daemon: Daemon = request.getfixturevalue(which)
    before = daemon.wait_serving()
    recorded = len(outages(daemon))
    off = time.time()
    late = power_cut(daemon.worker)
    power_cut(daemon.head).undo()
    late.undo()
    booted = time.time()
    after = daemon.wait_serving(after=before["generation"], deadline_s=400)
    [one] = outages(daemon)[recorded:]
    assert (one["cause"]["code"], one["generation"], one["answered"], one["asked"], one["unwatched"]) == (
        "rebooted",
        before["generation"],
        after["generation"],
        False,
        True,
    )
    assert off - 5 <= unix(one["began"]) <= booted, (
        "not an outage of an earlier day, and not only since sparkd looks again"
    )
    assert unix(one["ended"]) <= time.time()
    assert one["down_s"] == pytest.approx(one["seconds"] - one["unread_s"], abs=0.2)
    [told] = [line for line in daemon.ctl("history", "--outages").stdout.splitlines() if "(rebooted)" in line][-1:]
    assert "rebooted" in told
    assert after["last_failure"]["signature"] == "rebooted"
    assert "rebooted" in daemon.ctl("why").stdout
    audit(daemon.history())


def outages(daemon: Daemon) -> list[dict[str, Any]]:
    return list(json.loads(daemon.ctl("history", "--outages", "--json").stdout)["outages"])


def unix(moment: str) -> float:
    return datetime.fromisoformat(moment).timestamp()
