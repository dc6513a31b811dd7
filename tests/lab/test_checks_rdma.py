"""What running ranks may lock and see, read from their main processes: one rank that may use RDMA, and one that may not."""

from __future__ import annotations

from .driver import FAST_POLICY, NAME, Daemon, cluster, deployment
from .test_checks import run_checks

SPEC = "gpus: null, privileged: false, ulimits: {memlock: 65536}"
DEVICES = "{source: /srv/ib, target: /dev/infiniband}"
LAB = "{source: /lab, target: /lab, read_only: true}"
CHECKS = "checks: {gpu: off, container-spec: off, parity: off}\n"  # what a Spark has and this lab has not


def test_one_rank_may_use_rdma_and_the_other_may_not(fast: Daemon) -> None:
    text = deployment().replace("hardware: cpu", "hardware: gb10").replace("gpus: null", SPEC)
    text = text.replace(LAB, f"{LAB}, {DEVICES}") + CHECKS
    for node in fast.lab.nodes:
        node.run(["install", "-d", "/srv/ib"])
    fast.head.run(["touch", "/srv/ib/uverbs0"])  # the file stands in for the device: its name is looked for
    try:
        fast.configure({"sparkd.yaml": cluster(FAST_POLICY), f"deployments/{NAME}.yaml": text})
        fast.head.run(["systemctl", "restart", "sparkd.service"])
        fast.start()
        init = fast.head.docker("inspect", "-f", "{{.State.Pid}}", fast.container(0)).stdout.strip()
        main = fast.head.text(["pgrep", "-P", init]).split()[0]
        fast.head.run(["prlimit", "--pid", main, "--memlock=unlimited:unlimited"])
        _, rows = run_checks(fast)
        said = {node: row["text"] for (code, node), row in rows.items() if code == "link"}
        assert "rank" not in said["spark1"]
        both = fast.ctl("check", NAME, check=False).stdout
        assert "rank 1 on spark2 may lock 64 KiB of memory" in both
        assert "rank 1 on spark2 does not see /dev/infiniband" in both
        assert "rank 0 on spark1" not in both
    finally:
        fast.ctl("stop", NAME, "--yes", "--wait", timeout_s=90)
        for node in fast.lab.nodes:
            node.run(["rm", "-rf", "/srv/ib"])
