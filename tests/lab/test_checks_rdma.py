"""What running ranks may lock and see of RDMA, read from their main processes."""

from __future__ import annotations

from .driver import FAST_POLICY, NAME, Daemon, cluster, deployment

SPEC = "gpus: null, privileged: false, ulimits: {memlock: 65536}"
DEVICES = "{source: /srv/ib, target: /dev/infiniband}"
LAB = "{source: /lab, target: /lab, read_only: true}"
CHECKS = "checks: {gpu: off, container-spec: off, parity: off}\n"  # what a Spark has and this lab has not


def test_a_rank_without_the_device_and_two_that_may_lock_too_little(fast: Daemon) -> None:
    text = deployment().replace("hardware: cpu", "hardware: gb10").replace("gpus: null", SPEC)
    text = text.replace(LAB, f"{LAB}, {DEVICES}") + CHECKS
    for node in fast.lab.nodes:
        node.run(["install", "-d", "/srv/ib"])
    fast.head.run(["touch", "/srv/ib/uverbs0"])  # the file stands in for the device: its name is looked for
    try:
        fast.configure({"sparkd.yaml": cluster(FAST_POLICY), f"deployments/{NAME}.yaml": text})
        fast.head.run(["systemctl", "restart", "sparkd.service"])
        fast.start()
        said = fast.ctl("check", NAME, check=False).stdout
        assert "rank 1 on spark2 does not see /dev/infiniband" in said
        assert "rank 0 on spark1 does not see" not in said
        for rank, node in enumerate(fast.lab.nodes):
            assert f"rank {rank} on {node.name} may lock 64 KiB of memory" in said
    finally:
        fast.ctl("stop", NAME, "--yes", "--wait", timeout_s=90)
        for node in fast.lab.nodes:
            node.run(["rm", "-rf", "/srv/ib"])
