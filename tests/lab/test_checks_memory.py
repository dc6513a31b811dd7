"""Memory, ports and leftovers on the lab's nodes: what the checks say, what the cleanup takes away, what the gate holds.

One daemon for the module, three group starts of the fast engine; the workers in containers that are in their way are vLLM's
own. Both nodes show the memory of the one machine that they run on.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from .commands import wait_for
from .configured import FAST_POLICY, NAME, REAL_ENV, cluster, deployment
from .driver import Daemon, Json
from .layout import ENGINE_IMAGE, MODEL, PLANS, REAL_VLLM
from .nodes import Lab, Node

GIB = 1 << 30
CACHE = "/var/lib/tiny-cache/vllm"
FILL = "/var/lib/docker/fill"
WORKER = "/var/tmp/worker.py"
# The parent keeps its environment; the worker's title overwrites its arguments and its whole environment.
SCRIPT = """\
import os, signal, socket, sys
sys.path.insert(0, "/lab/fast")
from sparkd.demo.engine.process import set_title
if not os.fork():
    listener = socket.create_server(("0.0.0.0", int(sys.argv[1])))
    set_title("VLLM::Worker")
signal.pause()
"""
SEGMENTS = """\
import mmap, signal, sys
file = open("/dev/shm/" + sys.argv[1], "w+b")
file.truncate(64 << 20)
held = mmap.mmap(file.fileno(), 64 << 20)
signal.pause()
"""


SWAP = "/var/lib/docker/swap"
DEVICES = "{source: /srv/ib, target: /dev/infiniband}"
NOT_HERE = "checks: {gpu: off, container-spec: off, parity: off}\n"
"""What a Spark has and the lab has not."""
# Written and then given to swap as a whole (MADV_PAGEOUT).
SWAPPED = """\
import mmap, signal
held = mmap.mmap(-1, 1200 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
for at in range(0, len(held), 4096):
    held[at] = 1
held.madvise(21)
signal.pause()
"""
# More than its control group may have, so that it always waits for a page from swap.


def files(utilization: float, reads: str, strays: str = "own") -> dict[str, str]:
    text = deployment().replace("gpu-memory-utilization: 0.1", f"gpu-memory-utilization: {utilization:.3f}")
    mount = "mounts: [{source: /lab, target: /lab, read_only: true}"
    assert mount in text
    text = text.replace(mount, f"{mount}, {{source: {CACHE}, target: /root/.cache/vllm}}")
    policy = {**FAST_POLICY, "resource_retries": [1, 1, 1]}
    text += f"memory: {{reads: {reads}}}\n"
    return {
        "sparkd.yaml": cluster(policy, cleanup={"swapoff": True, "remove_strays": strays}),
        f"deployments/{NAME}.yaml": text,
    }


def meminfo(node: Node) -> dict[str, int]:
    lines = (line.partition(":") for line in node.read("/proc/meminfo").splitlines())
    return {name: int(rest.split()[0]) * 1024 for name, _, rest in lines}


@pytest.fixture(scope="module")
def daemon(lab: Lab) -> Iterator[Daemon]:
    lab.reset()
    lab.install()
    found = Daemon(lab)
    for node in lab.nodes:
        node.run(["install", "-d", CACHE])
        node.write(WORKER, SCRIPT)
    found.configure(files(0.1, "available"))
    found.up()
    yield found
    for node in lab.nodes:
        node.run(["rm", "-rf", CACHE, WORKER, FILL])


def check(daemon: Daemon) -> dict[tuple[str, str], Json]:
    """(code, node) -> the worst row of `ctl check`."""
    rows = json.loads(daemon.ctl("check", "--json", check=False).stdout)["checks"]
    return {(row["code"], row["node"] or ""): row for row in reversed(rows)}


def run_worker(node: Node, name: str, port: int, **labels: str) -> None:
    """vLLM's own worker, in a container of the host's network: a head of two waits on this port for ever (evidence 07)."""
    told = [word for key, value in labels.items() for word in ("--label", f"io.sparkd.{key}={value}")]
    where = ["--network", "host", "--ipc", "host", "-v", "/lab:/lab:ro"]
    place = PLANS[node.name == PLANS[1].name]
    env = {**REAL_ENV, "VLLM_HOST_IP": place.data_address, "GLOO_SOCKET_IFNAME": place.fabric_link}
    given = [word for key, value in env.items() for word in ("--env", f"{key}={value}")]
    group = ["--nnodes", "2", "--node-rank", "0", "--master-addr", place.data_address, "--master-port", str(port)]
    small = ["--port", "8099", "--max-model-len", "1024", "--enforce-eager", "--gpu-memory-utilization", "0.1"]
    argv = [REAL_VLLM, "serve", MODEL, "--tensor-parallel-size", "2", *small, *group]
    node.docker("run", "-d", "--init", "--name", name, *told, *where, *given, ENGINE_IMAGE, *argv)
    wait_for(f"{name} to listen", lambda: f":{port}" in node.text(["ss", "-ltn"]), 150)
    words = node.read(f"/proc/{node.pid_of('^VLLM::Worker')}/cmdline")
    assert words.startswith("VLLM::Worker"), "its title is all that is left of its arguments"


def figures(daemon: Daemon, after: int = 0) -> dict[str, Any]:
    """What the last cleanup did, by node."""
    actions = [event for event in daemon.kinds("action") if event["data"].get("action") == "CleanNodes"]
    assert actions
    assert actions[-1]["id"] > after
    return dict(actions[-1]["data"]["value"])


@pytest.mark.timeout(400)
def test_the_same_title_in_somebody_elses_container_is_left_alone(daemon: Daemon) -> None:
    run_worker(daemon.head, "stranger", 29501)
    identity = daemon.head.docker("inspect", "-f", "{{.Id}} {{.State.StartedAt}}", "stranger").stdout
    try:
        rows = check(daemon)
        assert rows["port", "spark1"]["status"] == "fail"
        assert "29501" in rows["port", "spark1"]["text"]
        assert identity[:12] in rows["port", "spark1"]["text"]
        assert rows["stray", "spark1"]["status"] == "warn"
        assert any("VLLM::Worker" in line for line in rows["stray", "spark1"]["evidence"])
        assert {rows[code, "spark2"]["status"] for code in ("port", "stray", "memory", "shm", "pressure", "swap")} == {
            "ok"
        }
        daemon.ctl("start", NAME)
        held = daemon.wait("the hold", lambda one: one["phase"] == "held", 60)
        assert (held["hold"]["class"], held["hold"]["heals_itself"]) == ("resource", True)
        assert "in container" in held["hold"]["text"]
        assert "VLLM::Worker" in held["hold"]["text"]
        assert daemon.head.docker("inspect", "-f", "{{.Id}} {{.State.StartedAt}}", "stranger").stdout == identity
        assert not daemon.running(1), "nothing was started"
    finally:
        daemon.ctl("stop", NAME, "--yes", "--wait")
        daemon.head.docker("rm", "-f", "stranger")


def test_a_killer_that_would_end_a_loaded_engine_is_named(daemon: Daemon) -> None:
    """A stand-in of the same name and arguments: what is checked are those."""
    daemon.worker.write("/var/tmp/earlyoom", "#!/bin/sh\nwhile sleep 1; do :; done\n", 0o755)
    killer = daemon.worker.popen(["/var/tmp/earlyoom", "-m", "95"])
    try:
        wait_for("the killer", lambda: bool(daemon.worker.run(["pgrep", "earlyoom"], check=False).stdout), 10)
        row = check(daemon)["pressure", "spark2"]
        assert row["status"] == "warn"
        assert "earlyoom on spark2 ends processes below" in row["text"]
    finally:
        daemon.worker.run(["pkill", "-x", "earlyoom"])
        killer.communicate(timeout=10)


@contextmanager
def segments(node: Node) -> Iterator[None]:
    """psm_leaked of a killed process, psm_held of one that lives."""
    leaked = node.popen(["python3", "-c", SEGMENTS, "psm_leaked"])
    held = node.popen(["python3", "-c", SEGMENTS, "psm_held"])
    wait_for("both segments", lambda: "psm_held" in listed(node) and "psm_leaked" in listed(node), 10)
    node.run(["pkill", "-KILL", "-f", "psm_leaked"])
    leaked.communicate(timeout=10)
    try:
        yield
    finally:
        node.run(["pkill", "-KILL", "-f", "psm_held"], check=False)
        held.communicate(timeout=10)
        node.run(["rm", "-f", "/dev/shm/psm_held"])


def listed(node: Node) -> list[str]:
    return node.text(["ls", "/dev/shm"]).split()


@contextmanager
def swapped(node: Node) -> Iterator[None]:
    """More than a gibibyte of an idle process in a real swap file."""
    node.run(
        ["sh", "-c", f"fallocate -l 2G {SWAP} && chmod 600 {SWAP} && mkswap -q {SWAP} && swapon {SWAP}"], timeout_s=120
    )
    idle = node.popen(["python3", "-c", SWAPPED])
    try:
        wait_for("a gibibyte to be swapped out", lambda: swap_used(node) > GIB, 60)
        yield
    finally:
        node.run(["pkill", "-KILL", "-f", "MAP_ANONYMOUS"], check=False)
        idle.communicate(timeout=30)
        node.run(["sh", "-c", f"swapoff {SWAP}; rm -f {SWAP}"], check=False, timeout_s=120)


def swap_used(node: Node) -> int:
    memory = meminfo(node)
    return memory["SwapTotal"] - memory["SwapFree"]


def old_enough(node: Node, name: str) -> bool:
    """A segment of the last minute may be that of an engine which is just being started."""
    age = node.text(["sh", "-c", f"echo $(($(date +%s) - $(stat -c %Z /dev/shm/{name})))"])
    return int(age) > 61


@pytest.mark.timeout(400)
def test_f27_a_start_cleans_up_what_an_earlier_one_left(daemon: Daemon) -> None:
    """Page cache below the gate, a worker of generation 7 on 29501, one outside of any container on 8000, leaked shm."""
    head, owner = daemon.head, daemon.status()["daemon"]["owner"]
    with segments(head):
        assert check(daemon)["shm", "spark1"]["status"] == "warn"
        head.run(["systemctl", "stop", "sparkd.service"])
        run_worker(head, "sparkd-tiny-0", 29501, owner=owner, deployment=NAME, generation="7", rank="0", spec="x")
        marks = [
            f"SPARKD_{key}={value}" for key, value in (("OWNER", owner), ("DEPLOYMENT", NAME), ("GENERATION", "6"))
        ]
        outside = head.popen(["env", *marks, "python3", WORKER, "8000"])
        wait_for("the worker outside to listen", lambda: ":8000" in head.text(["ss", "-ltn"]), 20)
        wait_for("the leaked segment to be a minute old", lambda: old_enough(head, "psm_leaked"), 90)

        head.run(["sh", "-c", "sync; echo 3 > /proc/sys/vm/drop_caches"])
        memory = meminfo(head)
        wanted = memory["MemFree"] - 4 * GIB
        daemon.configure(files(wanted / memory["MemTotal"], "free"))
        head.run(["truncate", "-s", "7G", FILL])
        head.run(["sh", "-c", f"cat {FILL} > /dev/null"], timeout_s=120)
        assert meminfo(head)["MemFree"] < wanted, "the page cache is filled"
        daemon.up()
        would = json.loads(daemon.ctl("start", NAME, "--dry-run", "--json").stdout)["cleanup"]["spark1"]
        named = {what.partition(" (pid")[0]: count for what, count in would["ends"].items()}
        assert named.keys() == {"sparkd-tiny-0 of generation 7", "VLLM::Worker"}, would
        assert named["sparkd-tiny-0 of generation 7"] > 200 << 20, "vLLM's own worker"
        one = daemon.start()
        outside.communicate(timeout=10)
        assert one["generation"] == 8, "above the leftover's"
        done = figures(daemon)["spark1"]
        assert done["before"]["free"] < wanted <= done["after"]["free"]
        assert done["freed"] > 3 * GIB
        assert "psm_leaked" in done["unlinked"]
        assert "psm_held" in listed(head), "mapped by a living process"
        assert "psm_leaked" not in listed(head)
        told = [
            event["sentence"] for event in daemon.kinds("action") if "segments of shared memory" in event["sentence"]
        ]
        assert told
        assert "free before" in told[-1]


def test_a_clean_restart_empties_the_compile_caches_and_takes_swap_back(daemon: Daemon) -> None:
    daemon.head.run(
        [
            "sh",
            "-c",
            f"mkdir -p {CACHE}/torch_compile_cache && head -c 5M /dev/zero > {CACHE}/torch_compile_cache/graph",
        ]
    )
    with swapped(daemon.head):
        rows = check(daemon)
        assert rows["swap", "spark1"]["status"] == "warn"
        assert f"{SWAP} (file)" in rows["swap", "spark1"]["evidence"][0]
        _clean_restart(daemon)


def _clean_restart(daemon: Daemon) -> None:
    before = daemon.one()["generation"]
    would = json.loads(daemon.ctl("restart", NAME, "--clean", "--dry-run", "--json").stdout)["cleanup"]
    assert would["spark1"]["caches"][CACHE] >= 5 << 20
    assert would["spark2"]["caches"][CACHE] == 0
    daemon.ctl("restart", NAME, "--clean", "--yes", "--wait", "--timeout", "60", timeout_s=90)
    assert daemon.one()["generation"] > before
    done = figures(daemon)["spark1"]
    assert not done.get("failed")
    assert done["emptied"][CACHE] >= 5 << 20
    assert done["swap"]["before"] > GIB
    assert done["swap"]["after"] == 0
    assert SWAP not in daemon.head.read("/proc/swaps")
    assert any("taken back from swap" in event["sentence"] for event in daemon.kinds("action"))
    assert daemon.head.text(["ls", "-A", CACHE]) == ""
    assert daemon.head.text(["stat", "-c", "%F", CACHE]) == "directory"
    daemon.ctl("stop", NAME, "--yes", "--wait", timeout_s=90)
    daemon.head.run(["touch", f"{CACHE}/graph"])
    rows = check(daemon)
    assert rows["caches", "spark2"]["status"] == "warn"
    assert rows["caches", "spark1"]["status"] == "ok"


def test_memory_taken_by_a_tmpfs_holds_the_start_and_a_loose_holder_of_a_port_is_ended(daemon: Daemon) -> None:
    head, hog = daemon.head, "/mnt/hog"
    daemon.ctl("stop", NAME, "--yes", "--wait", timeout_s=90)
    head.run(["install", "-d", hog])
    memory = meminfo(head)
    wanted = memory["MemAvailable"] - 3 * GIB
    daemon.configure(files(wanted / memory["MemTotal"], "available", strays="holders"))
    head.run(["systemctl", "restart", "sparkd.service"], timeout_s=60)
    loose = head.popen(["python3", WORKER, "29501"])  # nobody's: no container, no unit, no mark
    wait_for("the loose worker to listen", lambda: ":29501" in head.text(["ss", "-ltn"]), 20)
    holder = head.pid_of("^VLLM::Worker")
    head.run(["mount", "-t", "tmpfs", "-o", "size=10g", "tmpfs", hog])
    try:
        head.run(["sh", "-c", f"head -c 6G /dev/zero > {hog}/taken"], timeout_s=120)
        rows = check(daemon)
        assert rows["port", "spark1"]["status"] == "warn"
        assert "sparkd ends it first" in rows["port", "spark1"]["text"]
        row = rows["memory", "spark1"]
        assert row["status"] == "warn"
        assert f"files in {hog}" in row["text"]
        daemon.ctl("start", NAME)
        held = daemon.wait("the hold", lambda one: one["phase"] == "held", 60)
        assert held["hold"]["class"] == "resource"
        assert held["hold"]["fact"].startswith("memory:spark")
        assert held["hold"]["heals_itself"] is True
        assert "are missing" in held["hold"]["text"]
        assert f"files in {hog} (6.0 GiB)" in row["text"]
        assert not daemon.running(0)
    finally:
        head.run(["umount", hog], check=False)
    assert daemon.wait_serving()["phase"] == "serve"
    head.run(["pkill", "-KILL", "-f", f"{WORKER} 29501"])  # its parent, which holds nothing
    loose.communicate(timeout=10)
    assert head.run(["test", "-d", f"/proc/{holder}"], check=False).returncode != 0, "what held the port was ended"
    assert [event["kind"] for event in daemon.history() if event["kind"] in ("held", "healed")][-2:] == [
        "held",
        "healed",
    ]


def test_running_ranks_say_what_they_may_lock_and_see_of_rdma(daemon: Daemon) -> None:
    daemon.ctl("stop", NAME, "--yes", "--wait", timeout_s=90)
    lab = "{source: /lab, target: /lab, read_only: true}"
    text = deployment().replace("hardware: cpu", "hardware: gb10").replace(lab, f"{lab}, {DEVICES}")
    text = text.replace("gpus: null", "gpus: null, privileged: false, ulimits: {memlock: 65536}")
    for node in daemon.lab.nodes:
        node.run(["install", "-d", "/srv/ib"])
    daemon.head.run(["touch", "/srv/ib/uverbs0"])  # the file stands in for the device: its name is looked for
    found = {"sparkd.yaml": cluster(FAST_POLICY), f"deployments/{NAME}.yaml": text + NOT_HERE}
    daemon.configure(found)
    daemon.head.run(["systemctl", "restart", "sparkd.service"])
    daemon.start()
    said = daemon.ctl("check", NAME, check=False).stdout
    assert "rank 1 on spark2 does not see /dev/infiniband" in said
    assert "rank 0 on spark1 does not see" not in said
    for rank, node in enumerate(daemon.lab.nodes):
        assert f"rank {rank} on {node.name} may lock 64 KiB of memory" in said
    daemon.ctl("stop", NAME, "--yes", "--wait", timeout_s=90)
    for node in daemon.lab.nodes:
        node.run(["rm", "-rf", "/srv/ib"])


@pytest.mark.nightly
def test_dockers_disk_is_judged_wherever_its_data_root_is(daemon: Daemon) -> None:
    daemon.ctl("stop", NAME, "--yes", "--wait", timeout_s=90)
    node, root = daemon.worker, "/mnt/docker"
    node.run(["install", "-d", root])
    node.run(["mount", "-t", "tmpfs", "-o", "size=200m", "tmpfs", root])
    node.write("/etc/docker/daemon.json", json.dumps({"data-root": root}))
    try:
        node.run(["systemctl", "restart", "docker.service"], timeout_s=60)
        wait_for("the data root to be seen", lambda: check(daemon)["disk", "spark2"]["status"] == "fail", 30)
        rows = check(daemon)
        assert rows["disk", "spark2"]["text"].startswith(f"{root} on spark2 has ")
        assert rows["disk", "spark1"]["status"] == "ok"
    finally:
        node.run(["rm", "/etc/docker/daemon.json"])
        node.run(["systemctl", "restart", "docker.service"], timeout_s=60)
        node.run(["umount", root])
