"""Nodes that are worked on, rebooted by hand, frozen, and switched: real systemd, sshd and dockerd."""

from __future__ import annotations

import json

import pytest

from .configured import FAST_POLICY, NAME, cluster, deployment
from .driver import Daemon, Json, overlaps
from .faults import freeze, mgmt_cut, reboot

GONE_AFTER_S = 15


def happened(daemon: Daemon, kind: str) -> list[Json]:
    """Also what is of a node and of no deployment."""
    events = json.loads(daemon.ctl("history", "--limit", "1000", "--json").stdout)["events"]
    return [dict(one) for one in events if one["kind"] == kind]


def test_planned_work_stops_in_order_and_goes_on_after_the_boot(fast: Daemon) -> None:
    before = fast.start()
    done = fast.ctl(
        "maintenance", "spark2", "--for", "1h", "--wait", "--yes", "-m", "new firmware", "--json", timeout_s=120
    )
    assert json.loads(done.stdout)["stopped"] is True
    held = fast.one()
    assert (held["phase"], held["hold"]["fact"]) == ("held", "maintenance:spark2")
    assert not fast.running(0)
    assert not fast.running(1)
    fast.kill()
    fast.wait("sparkd to hold it still", lambda one: one["reason"] == "maintenance", 30)
    reboot(fast.worker)
    after = fast.wait_serving(after=before["generation"], deadline_s=180)
    assert after["generation"] == before["generation"] + 1
    assert not happened(fast, "failed")
    (over,) = happened(fast, "maintenance-over")
    assert over["sentence"] == "the maintenance of spark2 is over: it has booted"
    assert fast.node("spark2")["maintenance"] is None
    assert not overlaps(fast)


@pytest.mark.parametrize("which", ["worker", "head"])
def test_a_reboot_ordered_by_hand_is_no_failure(fast: Daemon, which: str) -> None:
    before = fast.start()
    reboot(fast.worker if which == "worker" else fast.head)
    after = fast.wait_serving(after=before["generation"], deadline_s=180)
    assert after["generation"] == before["generation"] + 1
    assert not happened(fast, "failed")
    assert after["last_failure"]["signature"] == "rebooted"


def test_f50_a_box_that_answers_pings_and_no_ssh_is_held_and_its_peer_left_alone(fast: Daemon) -> None:
    fast.configure(
        {
            "sparkd.yaml": cluster({**FAST_POLICY, "gone_after": GONE_AFTER_S}),
            f"deployments/{NAME}.yaml": deployment(),
        }
    )
    fast.head.run(["systemctl", "restart", "sparkd.service"])
    before = fast.start()
    with mgmt_cut(fast.worker), freeze(fast.worker, fast.engine_pid(1)):
        held = fast.wait("it to be held", lambda one: one["phase"] == "held", 180)
        assert (held["hold"]["class"], held["hold"]["fact"]) == ("hardware", "node:spark2:serve")
        assert held["last_failure"]["signature"] == "node-frozen"
        assert fast.running(0), "nothing is done on the peer"
    after = fast.wait_serving(deadline_s=180)
    assert after["generation"] in (before["generation"], before["generation"] + 1)
    assert not overlaps(fast)
