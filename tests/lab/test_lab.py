"""The lab itself: two real, distinct nodes, and faults that break what they say and nothing else."""

from __future__ import annotations

import json
import os
import signal
from contextlib import suppress
from pathlib import Path

import pytest

from . import faults, outer
from .commands import LabError, wait_for
from .install import KEY, KNOWN_HOSTS
from .layout import ENGINE_IMAGE
from .nodes import Lab, Node

SSH = ["ssh", "-i", KEY, "-o", f"UserKnownHostsFile={KNOWN_HOSTS}", "-o", "StrictHostKeyChecking=yes",
       "-o", "BatchMode=yes", "-o", "ConnectTimeout=2"]  # fmt: skip


def ssh_works(lab: Lab) -> bool:
    argv = [*SSH, f"sparkd@{lab.spark2.address}", "hostname"]
    return lab.spark1.run(argv, check=False, user="sparkd").stdout.strip() == "spark2"


def reaches(node: Node, address: str) -> bool:
    return node.run(["ping", "-c", "1", "-W", "1", address], check=False).returncode == 0


def addresses(node: Node) -> dict[str, str]:
    """Interface name -> IPv4 address."""
    shown = json.loads(node.text(["ip", "-4", "-json", "addr"]))
    return {link["ifname"]: link["addr_info"][0]["local"] for link in shown}


def named_right(node: Node) -> bool:
    found = addresses(node)
    return (found["mgmt0"], found[node.fabric_link]) == (node.address, node.data_address)


def start_rank(node: Node) -> int:
    """A container that only waits. Returns its pid on the node."""
    label = "io.sparkd.owner=test"
    node.docker("run", "--detach", "--init", "--name", "rank", "--label", label, ENGINE_IMAGE, "sleep", "999")
    return int(node.docker("inspect", "--format", "{{.State.Pid}}", "rank").stdout)


@pytest.fixture
def installed(cluster: Lab) -> Lab:
    cluster.install()
    return cluster


def test_nodes_are_two_whole_and_distinct_machines(installed: Lab) -> None:
    one, two = installed.nodes
    for node in (one, two):
        assert node.system_state() == "running"
        assert named_right(node)
        assert reaches(node, "spark1")
        assert reaches(node, "spark2-fabric")
    assert one.fabric_link != two.fabric_link
    for path in ("/etc/machine-id", "/etc/ssh/ssh_host_ed25519_key.pub"):
        assert one.read(path).split()[:2] != two.read(path).split()[:2], path
    assert ssh_works(installed)


def test_an_unpinned_host_key_is_refused(installed: Lab) -> None:
    pinned = installed.spark1.read(KNOWN_HOSTS)
    another = installed.spark1.read(f"{KEY}.pub").split()[1]
    installed.spark1.write(KNOWN_HOSTS, pinned.replace(pinned.split()[2], another))
    try:
        assert not ssh_works(installed)
    finally:
        installed.spark1.write(KNOWN_HOSTS, pinned)


def test_caches_can_be_dropped(cluster: Lab) -> None:
    cluster.spark1.run(["dd", "if=/lab/images/engine.tar", "of=/dev/null", "bs=1M"])

    def cached_kib() -> int:
        lines = dict(line.split(":") for line in cluster.spark1.read("/proc/meminfo").splitlines())
        return int(lines["Cached"].split()[0])

    before = cached_kib()
    cluster.spark1.run(["tee", "/proc/sys/vm/drop_caches"], input="1\n")
    assert cached_kib() < before - 100_000


def test_ranks_run_in_the_engine_image(cluster: Lab) -> None:
    for node in cluster.nodes:
        flags = ["--rm", "--init", "--privileged", "--network", "host", "--ipc", "host", "--volume", "/lab:/lab:ro"]
        asked = node.docker("run", *flags, ENGINE_IMAGE, "/lab/vllm/bin/python", "--version")
        assert asked.stdout.startswith("Python 3.11")


def test_mgmt_cut_leaves_the_fabric_alone(installed: Lab) -> None:
    one, two = installed.nodes
    with faults.mgmt_cut(two):
        assert not ssh_works(installed)
        assert not reaches(one, two.address)
        assert reaches(one, two.data_address)
        assert two.text(["hostname"]) == "spark2"
    assert ssh_works(installed)


@pytest.mark.parametrize("how", list(faults.Cut))
def test_fabric_cut_leaves_ssh_alone(installed: Lab, how: faults.Cut) -> None:
    one, two = installed.nodes
    with faults.fabric_cut(two, how):
        assert not reaches(one, two.data_address)
        assert ssh_works(installed)
    wait_for("the fabric to be back", lambda: reaches(one, two.data_address), 10)


def test_processes_freeze_thaw_and_die(cluster: Lab) -> None:
    node = cluster.spark2
    pid = start_rank(node)

    def state() -> str:
        return node.text(["ps", "-o", "stat=", "-p", str(pid)])[0]

    with faults.freeze(node, pid):
        assert state() == "T"
    assert state() == "S"
    faults.kill(node, pid)
    wait_for("Docker to see the death", lambda: node.docker("inspect", "rank").stdout.find('"ExitCode": 137') > 0, 10)
    with pytest.raises(LabError):
        faults.kill(node, pid)


def test_docker_mute_and_docker_stopped(cluster: Lab) -> None:
    node = cluster.spark2
    pid = start_rank(node)
    with faults.docker_mute(node):
        with pytest.raises(LabError, match="did not end within"):
            node.docker("version", timeout_s=2)
        assert node.run(["kill", "-0", str(pid)], check=False).returncode == 0
    assert node.docker("version").returncode == 0
    with faults.docker_stopped(node):
        assert node.docker("version", check=False).returncode != 0
        assert node.run(["kill", "-0", str(pid)], check=False).returncode != 0
    assert node.docker("version").returncode == 0


def test_power_cut_and_reboot_come_back_with_the_right_names(installed: Lab) -> None:
    two = installed.spark2
    identity = two.read("/etc/machine-id")

    def boot() -> str:
        """Start ticks of PID 1: with the boot id (the machine's own, here) this tells boots apart."""
        return two.read("/proc/1/stat").rpartition(")")[2].split()[19]

    boots = [boot()]
    with faults.power_cut(two):
        assert two.system_state() == "off"
        assert not reaches(installed.spark1, two.address)
    boots.append(boot())
    faults.reboot(two)
    boots.append(boot())
    assert len(set(boots)) == 3
    assert two.system_state() == "running"
    assert two.read("/etc/machine-id") == identity
    assert named_right(two)
    assert ssh_works(installed)


def test_up_survives_an_outer_engine_killed_with_all_its_daemons(lab: Lab) -> None:
    for pid in list(outer.processes()):
        with suppress(FileNotFoundError, ProcessLookupError):  # one death takes others along
            if Path(f"/proc/{pid}/comm").read_text().startswith(("dockerd", "containerd")):
                os.kill(pid, signal.SIGKILL)
    assert not outer.answers()
    lab.up()
    for node in lab.nodes:
        assert node.system_state() == "running"
        assert named_right(node)


def test_reset_heals_everything_at_once(installed: Lab) -> None:
    two = installed.spark2
    pid = start_rank(two)
    two.write("/var/lib/sparkd/journal.db", "old")
    two.write("/dev/shm/psm_left", "old")
    faults.freeze(two, pid)
    faults.docker_mute(two)
    faults.mgmt_cut(two)
    faults.fabric_cut(two, faults.Cut.LINK)
    faults.docker_stopped(installed.spark1)
    installed.spark1.run(["systemctl", "stop", "ssh.service"])
    installed.reset()
    assert two.docker("ps", "--all", "--quiet").stdout == ""
    for gone in ("/var/lib/sparkd/journal.db", "/dev/shm/psm_left"):
        assert two.run(["test", "-e", gone], check=False).returncode != 0, gone
    assert ssh_works(installed)
    assert reaches(installed.spark1, two.data_address)
    for unit in ("ssh.service", "docker.service", "docker.socket"):
        assert installed.spark1.text(["systemctl", "is-active", unit]) == "active"
