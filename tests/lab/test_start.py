"""From nothing to answering on the simulated engine, and what is shown on the way."""

from __future__ import annotations

import json

import pytest

from .configured import NAME
from .driver import SPARKD, Daemon, audit, on_clean_nodes
from .nodes import Lab


@pytest.fixture(scope="module")
def started(lab: Lab) -> Daemon:
    """The group after `ctl start --wait`, for whoever only looks at it."""
    daemon = on_clean_nodes(lab)
    done = daemon.ctl("start", NAME, "--wait", "--timeout", "60", timeout_s=90)
    assert done.returncode == 0
    return daemon


def test_start_ends_serving_and_says_so(started: Daemon) -> None:
    one = started.one()
    assert (one["phase"], one["serving"], one["generation"]) == ("serve", True, 1)
    assert [(rank["node"], rank["state"]) for rank in one["ranks"]] == [("spark1", "up"), ("spark2", "up")]
    assert started.complete()["choices"][0]["message"]["content"]
    for rank in (0, 1):
        assert started.label(rank, "generation") == "1"
        assert started.label(rank, "rank") == str(rank)
    audit(started.history())


def test_what_runs_is_what_render_says(started: Daemon) -> None:
    rendered = json.loads(started.head.run([SPARKD, "render", NAME, "--format", "json"]).stdout)
    for rank in rendered["ranks"]:
        node = started.lab[rank["node"]]
        inspected = json.loads(node.docker("inspect", started.container(rank["rank"])).stdout)[0]
        assert inspected["Config"]["Cmd"] == rank["argv"]
        live = dict(pair.split("=", 1) for pair in inspected["Config"]["Env"])
        wanted = rank["env"]
        assert wanted.items() <= live.items()
        assert inspected["HostConfig"]["RestartPolicy"]["Name"] in ("no", "")
        assert inspected["HostConfig"]["Init"] is True
        assert not inspected["HostConfig"]["Binds"]


def test_a_missing_image_is_held_with_the_fact_and_heals(fast: Daemon) -> None:
    fast.configure(image="lab/absent:1")
    fast.head.run(["systemctl", "restart", "sparkd.service"])
    # The lab's machine is up for long, so what is missing is missing, not "not yet".
    done = fast.ctl("start", NAME, "--wait", "--timeout", "60", check=False, timeout_s=90)
    held = fast.one()
    if held["phase"] != "held":
        held = fast.wait("the hold", lambda one: one["phase"] == "held", 700)
    assert done.returncode in (1, 6)
    assert "lab/absent:1" in held["hold"]["text"]
    assert held["hold"]["heals_itself"] is True
    for node in fast.lab.nodes:
        node.docker("tag", "lab/engine:latest", "lab/absent:1")
    try:
        fast.wait_serving()
    finally:
        fast.ctl("stop", NAME, "--yes", "--wait", timeout_s=90)
        for node in fast.lab.nodes:
            node.docker("rmi", "lab/absent:1", check=False)
