"""Ranks without containers with real vLLM, of a venv on the nodes: two starts of it in CI."""

from __future__ import annotations

from typing import Any

import pytest

from .commands import wait_for
from .configured import AS_PEOPLE_HAVE_IT, NAME, REAL_POLICY, cluster, deployment
from .driver import Daemon, audit
from .load import Load
from .nodes import Lab, Node
from .test_asking import WRONG, flags, kept
from .units import MODEL, VENV, left, main_pid, runs_what_render_says, shown, without_docker


def is_asked(node: Node) -> bool:
    return node.run(["systemctl", "is-active", "--quiet", "sparkd-ask.service"], check=False).returncode == 0


def stopped_asking(lab: Lab) -> int:
    """How often systemd has been told to, since the nodes were made."""
    said = (node.text(["journalctl", "--no-pager", "-o", "cat", "-u", "sparkd-ask.service"]) for node in lab.nodes)
    return sum(text.count("Stopped sparkd-ask.service") for text in said)


def what_the_venvs_own_vllm_refuses_holds_the_start(real: Daemon, changes: Any) -> None:
    """Asked as the ranks' user, while nothing starts, in a unit of which nothing is left."""
    real.configure(process=True, model="/srv/none", **changes)
    real.head.run(["systemctl", "restart", "sparkd.service"])
    wait_for("vLLM to be asked", lambda: any(is_asked(node) for node in real.lab.nodes), 30, every_s=0.2)
    before = stopped_asking(real.lab)
    real.ctl("start", NAME)
    real.wait("the start to be held", lambda one: one["hold"], 60)
    assert stopped_asking(real.lab) == before + 1, "it gave way to the start"
    real.ctl("stop", NAME, "--yes")

    wrong = deployment(real=True, process=True, model=MODEL, **changes).replace("args:\n", f"args:\n{WRONG}")
    real.configure({"sparkd.yaml": cluster(REAL_POLICY, cleanup=AS_PEOPLE_HAVE_IT), f"deployments/{NAME}.yaml": wrong})
    real.head.run(["systemctl", "restart", "sparkd.service"])
    wait_for("vLLM's parser to be asked", lambda: kept(real) != "", 120)
    answer = kept(real)
    code, said = flags(real)
    assert (code, said[0][0]) == (4, "fail"), said
    assert said[0][1].startswith("the nodes' own vllm 0.32.0 ")
    real.ctl("start", NAME)
    held = real.wait("the start to be held", lambda one: one["hold"], 60)
    assert (held["generation"], held["hold"]["fact"]) == (0, "check::flags")
    real.ctl("stop", NAME, "--yes")

    real.configure(process=True, model=MODEL, **changes)
    real.head.run(["systemctl", "restart", "sparkd.service"])
    assert flags(real) == (0, [])
    assert kept(real) == answer, "it was asked once"
    for node in real.lab.nodes:
        assert node.text(["systemctl", "show", "-P", "LoadState", "sparkd-ask.service"]) == "not-found"
        assert node.text(["find", "/run/sparkd-node", "-type", "f"]) == ""


@pytest.mark.real
@pytest.mark.timeout(1200)
# CI has room for two starts of the real engine here: both nodes; one node alone is nightly.
@pytest.mark.parametrize("nodes", [pytest.param(1, marks=pytest.mark.nightly), 2])
def test_real_vllm_in_a_venv(lab: Lab, nodes: int) -> None:
    """Its own parser; start, adopt under load, a rank that dies while sparkd is away, group restart, stop."""
    changes: dict[str, Any] = {"nodes": nodes, "command": f"{VENV}/bin/vllm"}
    with without_docker(lab, real=True, **changes) as real:
        what_the_venvs_own_vllm_refuses_holds_the_start(real, changes)
        one = real.start()
        assert (one["serving"], one["generation"]) == (True, 1)
        assert real.complete()["choices"]
        runs_what_render_says(real)

        with Load(real) as load:
            real.kill()
            real.wait("sparkd to be back", lambda one: one["serving"], 60)
            had = load.good
            real.wait("requests to go on", lambda one: load.good > had, 60)
        assert not load.bad
        assert real.one()["generation"] == 1

        last = nodes - 1
        real.head.run(["systemctl", "stop", "sparkd.service"])
        real.node_of(last).run(["kill", "-KILL", str(main_pid(real, last))])
        wait_for("the end of the rank", lambda: shown(real, last, "MainPID") == "0", 30)
        real.up()
        after = real.wait_serving(after=1)
        assert (after["generation"], after["last_failure"]["signature"]) == (2, "exit-137")
        assert real.complete()["choices"]

        real.ctl("stop", NAME, "--yes", "--wait", timeout_s=120)
        assert not left(real, nodes)
        audit(real.history())
