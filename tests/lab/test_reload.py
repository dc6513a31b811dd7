"""Configuration in a running daemon: `systemctl reload` and SIGHUP, and a group that outlives what its file says."""

from __future__ import annotations

import json

from .commands import wait_for
from .configured import FAST_ENV, FAST_POLICY, NAME, cluster, deployment
from .driver import Daemon

# What runs is judged as it was started: the checks of this file would fail.
FORKING = deployment(env={**FAST_ENV, "VLLM_WORKER_MULTIPROC_METHOD": "fork"})
MOVED = deployment().replace("port: 8000", "port: 8001")
GOOD = cluster(FAST_POLICY)
BAD = GOOD + "polcy: {}\n"


def configure(daemon: Daemon, text: str | None, sparkd_yaml: str | None = None) -> None:
    files = {"sparkd.yaml": sparkd_yaml or GOOD}
    daemon.lab.configure(files if text is None else {**files, f"deployments/{NAME}.yaml": text})


def reloaders(daemon: Daemon) -> list[str]:
    """Who reloaded, as history has it."""
    events = json.loads(daemon.ctl("history", "--limit", "1000", "--json").stdout)["events"]
    return [event["by"] for event in events if event["kind"] == "reloaded"]


def test_a_group_goes_on_as_it_was_started_until_it_is_restarted_or_stopped(fast: Daemon) -> None:
    configure(fast, deployment())
    fast.head.run(["systemctl", "reload", "sparkd.service"], timeout_s=60)
    first = fast.start()

    configure(fast, FORKING)
    fast.head.run(["systemctl", "reload", "sparkd.service"], timeout_s=60)
    checked = json.loads(fast.ctl("check", NAME, "--json").stdout)
    assert [change["key"] for change in checked["pending"]["changes"]] == ["env.VLLM_WORKER_MULTIPROC_METHOD"]
    assert {row["status"] for row in checked["checks"] if row["code"] == "flags"} == {"ok"}

    configure(fast, MOVED)
    fast.head.run(["systemctl", "reload", "sparkd.service"], timeout_s=60)
    one = fast.one()
    assert (one["restart_pending"], one["serving"], one["generation"]) == (True, True, first["generation"])
    assert one["pending"]["changes"] == [{"key": "port", "running": "8000", "file": "8001"}]

    fast.head.run(["systemctl", "restart", "sparkd.service"], timeout_s=60)
    one = fast.wait("the group to be adopted", lambda one: one["phase"] == "serve", 30)
    assert (one["generation"], one["restart_pending"], one["last_failure"]) == (first["generation"], True, None)
    assert fast.complete()["choices"], "it answers where it was started"

    configure(fast, MOVED, BAD)
    refused = fast.head.run(["systemctl", "reload", "sparkd.service"], check=False, timeout_s=60)
    assert refused.returncode != 0
    assert "polcy" in fast.log()
    assert fast.one()["serving"]
    configure(fast, MOVED)
    fast.head.run(["systemctl", "kill", "--kill-whom=main", "-s", "HUP", "sparkd.service"])
    wait_for("the reload by signal", lambda: "SIGHUP" in reloaders(fast), 30)

    fast.ctl("restart", NAME, "--yes", "--wait", "--timeout", "60", timeout_s=90)
    one = fast.one()
    assert (one["generation"], one["pending"]) == (first["generation"] + 1, None)
    assert fast.head.run(["curl", "-sf", "-m", "5", "http://127.0.0.1:8001/health"]).returncode == 0

    configure(fast, None)
    kept = fast.ctl("reload", "-m", "it moves to another cluster").stdout
    assert "is not removed while it runs" in " ".join(kept.split())
    assert fast.one()["pending"]["removed"]
    fast.ctl("stop", NAME, "--yes")
    wait_for("the deployment to go", lambda: not fast.status()["deployments"], 60)
    assert not fast.running(0)
    assert not fast.running(1)
