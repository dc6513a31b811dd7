"""The checks on real nodes: silent on clean ones, and each fault found on the node where it is."""

from __future__ import annotations

import json
from typing import Any

import pytest

from .configured import FAST_POLICY, NAME, cluster, deployment
from .driver import SPARKD, Daemon
from .layout import ENGINE_IMAGE
from .nodes import Node

PAIR = "lab/pair:1"
EXTRAS = """\
markers:
  - {path: /srv/check/mxfp4.py, pattern: empty_cache, count: 2}
  - {path: /srv/check/config.json, key: text_config.rope_theta, equals: 10000000}
build_metadata: {path: /srv/check/build-metadata.yaml, equals: {vllm_commit: 48cebd4ad}}
provides: {binaries: [/start.sh]}
"""
MOUNTS = (
    "[{source: /lab, target: /lab, read_only: true}, {source: /lab-check, target: /srv/check}, "
    "{source: /srv/cache, target: /cache}]"
)
SHARD = r"""
import json, os, struct, sys
folder, cut = sys.argv[1], int(sys.argv[2])
os.makedirs(folder, exist_ok=True)
header = json.dumps({"w": {"dtype": "F32", "shape": [16], "data_offsets": [0, 64]}}).encode()
whole = struct.pack("<Q", len(header)) + header + bytes(64)
open(f"{folder}/model-00001-of-00001.safetensors", "wb").write(whole[: len(whole) - cut])
index = {"weight_map": {"w": "model-00001-of-00001.safetensors"}}
json.dump(index, open(f"{folder}/model.safetensors.index.json", "w"))
open(f"{folder}/config.json", "w").write("{}")
"""
SMI = "#!/bin/sh\necho '0, NVIDIA GB10, 580.95.05, P0, [N/A], 2411 MHz, 96 %, 61'\n"


def run_checks(daemon: Daemon, *argv: str) -> tuple[int, dict[tuple[str, str | None], dict[str, Any]]]:
    """The exit code, and the worst row of each (check, node)."""
    done = daemon.head.run([SPARKD, *(argv or ("ctl", "check", NAME)), "--json"], check=False, timeout_s=60)
    assert '"checks"' in done.stdout, done.stdout + done.stderr
    worst = {"ok": 0, "warn": 1, "unknown": 2, "fail": 3}
    rows: dict[tuple[str, str | None], dict[str, Any]] = {}
    for row in sorted(json.loads(done.stdout)["checks"], key=lambda row: worst[row["status"]]):
        rows[row["code"], row["node"]] = row
    return done.returncode, rows


def bad(rows: dict[tuple[str, str | None], dict[str, Any]]) -> dict[tuple[str, str | None], str]:
    return {key: f"{row['status']}: {row['text']}" for key, row in rows.items() if row["status"] in ("fail", "unknown")}


def test_clean_nodes_pass_and_the_daemonless_command_agrees(fast: Daemon) -> None:
    code, rows = run_checks(fast)
    assert (bad(rows), code) == ({}, 0)
    # Every node has a row of every check, but for what concerns no node alone.
    assert {node for _, node in rows} >= {"spark1", "spark2"}
    alone, rows_alone = run_checks(fast, "check", NAME)
    assert (bad(rows_alone), alone) == ({}, 0)
    assert rows_alone.keys() == rows.keys()


def _prepare(daemon: Daemon) -> None:
    """A deployment that counts on an image, a model, mods and a cache; everything as it must be."""
    for node in daemon.lab.nodes:
        node.run(["mkdir", "-p", "/lab-check", "/srv/cache"])
        node.run(["python3", "-c", SHARD, "/lab-check/model", "0"])
        node.write("/lab-check/mxfp4.py", "torch.cuda.empty_cache()\ntorch.cuda.empty_cache()\n")
        node.write("/lab-check/config.json", '{"text_config": {"rope_theta": 10000000}}')
        node.write("/lab-check/build-metadata.yaml", "vllm_commit: 48cebd4ad\n")
        node.write("/tmp/start.sh", "#!/bin/sh\n", 0o755)
        node.write(
            "/etc/sparkd/node.json",
            json.dumps({"read_roots": ["/var/log", "/lab", "/lab-check"], "state_dir": "/var/lib/sparkd-node"}),
        )
        node.run(["systemctl", "restart", "sparkd-node.service"])
    _build(daemon.lab.spark1)


def _build(node: Node) -> None:
    node.docker("rm", "-f", "pair", check=False)
    node.docker("create", "--name", "pair", ENGINE_IMAGE, "-")
    node.docker("cp", "/tmp/start.sh", "pair:/start.sh")
    node.docker("commit", "pair", PAIR)
    node.docker("rm", "pair")


def _copy(here: Node, there: Node) -> None:
    here.docker("save", "-o", "/lab-check/pair.tar", PAIR)
    argv = ["ssh", "-i", "/etc/sparkd/id_ed25519", "-o", "UserKnownHostsFile=/etc/sparkd/known_hosts"]
    here.run(["sh", "-c", f"{' '.join(argv)} sparkd@{there.address} docker load < /lab-check/pair.tar"], timeout_s=120)


def _spoil(daemon: Daemon) -> None:
    """What people's clusters have, on the second node only where it can be."""
    worker = daemon.lab.spark2
    _build(worker)
    worker.run(["python3", "-c", SHARD, "/lab-check/model", "10"])
    worker.write("/lab-check/mxfp4.py", "torch.cuda.empty_cache()\n" * 3)
    worker.write("/lab-check/build-metadata.yaml", "vllm_commit: 0badcafe\n")
    worker.run(["mount", "-t", "tmpfs", "-o", "size=100m", "tmpfs", "/srv/cache"])
    worker.run(["ip", "link", "set", "dev", worker.fabric_link, "mtu", "1400"])


def _mend(daemon: Daemon) -> None:
    worker = daemon.lab.spark2
    worker.run(["umount", "-l", "/srv/cache"], check=False)
    worker.run(["ip", "link", "set", "dev", worker.fabric_link, "mtu", "1500"], check=False)


def _file(**changes: Any) -> str:
    text = deployment(image=PAIR, model="/srv/check/model", **changes)
    text = text.replace("[{source: /lab, target: /lab, read_only: true}]", MOUNTS)
    return text + EXTRAS


@pytest.mark.timeout(400)
def test_every_fault_is_found_on_its_node_before_the_start_and_healed_by_its_fix(fast: Daemon) -> None:
    _prepare(fast)
    _copy(fast.lab.spark1, fast.lab.spark2)
    files = {"sparkd.yaml": cluster(FAST_POLICY), f"deployments/{NAME}.yaml": _file()}
    fast.lab.configure(files)
    fast.head.run(["systemctl", "restart", "sparkd.service"])
    code, rows = run_checks(fast)
    assert (bad(rows), code) == ({}, 0)
    _spoil(fast)
    try:
        code, rows = run_checks(fast)
        assert code == 4
        found = bad(rows)
        expected = ("image", "build-metadata", "marker", "model", "disk", "link")
        assert {key for key in found if key[0] in expected} == {(one, "spark2") for one in expected}, found
        assert all(rows[one, "spark2"]["fix"] and "spark2" in rows[one, "spark2"]["text"] for one in expected)
        done = fast.ctl("start", NAME, "--wait", "--timeout", "60", check=False, timeout_s=90)
        held = fast.one()
        assert (done.returncode, held["phase"], held["generation"]) == (1, "held", 0)
        assert held["hold"]["fact"].startswith("check:spark2:")
        assert held["hold"]["heals_itself"] is True
    finally:
        _mend(fast)
    _copy(fast.lab.spark1, fast.lab.spark2)
    worker = fast.lab.spark2
    worker.run(["python3", "-c", SHARD, "/lab-check/model", "0"])
    worker.write("/lab-check/mxfp4.py", "torch.cuda.empty_cache()\n" * 2)
    worker.write("/lab-check/build-metadata.yaml", "vllm_commit: 48cebd4ad\n")
    one = fast.wait_serving(deadline_s=90)
    assert one["generation"] == 1


def test_what_the_configuration_itself_gets_wrong(fast: Daemon) -> None:
    wrong = deployment(
        env={"VLLM_WORKER_MULTIPROC_METHOD": "fork"},
        node_env={"spark2": {"GLOO_SOCKET_IFNAME": "eth9"}},
    )
    wrong += "provides: {binaries: [/nosuch]}\n"
    wrong = wrong.replace("container: {gpus: null,", "container: {gpus: null, ipc: private,")
    gpu = deployment(name="gpu").replace("hardware: cpu", "hardware: gpu")
    fast.lab.configure(
        {"sparkd.yaml": cluster(FAST_POLICY), f"deployments/{NAME}.yaml": wrong, "deployments/gpu.yaml": gpu}
    )
    fast.head.run(["systemctl", "restart", "sparkd.service"])
    code, rows = run_checks(fast)
    found = bad(rows)
    assert code == 4
    assert {("flags", "spark1"), ("flags", "spark2"), ("link", "spark2"), ("container-spec", None)} <= found.keys()
    assert {("provides", "spark1"), ("provides", "spark2")} <= found.keys()
    assert ("link", "spark1") not in found
    _, rows = run_checks(fast, "ctl", "check", "gpu")
    assert [rows["gpu", node.name]["status"] for node in fast.lab.nodes] == ["warn", "warn"]
    for node in fast.lab.nodes:
        node.write("/usr/local/bin/nvidia-smi", SMI, 0o755)
    try:
        _, rows = run_checks(fast, "ctl", "check", "gpu")
        assert [rows["gpu", node.name]["status"] for node in fast.lab.nodes] == ["ok", "ok"]
    finally:
        for node in fast.lab.nodes:
            node.run(["rm", "-f", "/usr/local/bin/nvidia-smi"])
