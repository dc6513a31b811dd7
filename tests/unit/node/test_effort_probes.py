"""effort and gpu_load: real processes, folders laid out like /sys, and an nvidia-smi of the test's own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sparkd.facts import effort as effort_fact
from sparkd.facts import gpu_load as gpu_load_fact
from sparkd.model.effort import Effort, Flow, ProcessTime
from sparkd.node import procfs
from sparkd.node.probes import effort, gpu_load, links
from sparkd.node.refusal import Refusal

from .service import Connection, wait_for
from .test_tool_probes import tool

A = "a" * 64
WORKS = """\
import subprocess, sys
print(flush=True)
for line in sys.stdin:
    if line.startswith("child"):
        subprocess.run([sys.executable, "-S", "-c", "sum(range(4_000_000))"], check=True)
    else:
        sum(range(4_000_000))
    print(flush=True)
"""


@pytest.fixture
def sys_class(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(links, "NET", str(tmp_path / "net"))
    monkeypatch.setattr(links, "RDMA", str(tmp_path / "infiniband"))
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return tmp_path


@pytest.fixture
def worker() -> Iterator[subprocess.Popen[str]]:
    """Works for a moment for every line that it is given, itself or in a child, and says when it has."""
    process = subprocess.Popen(
        [sys.executable, "-S", "-c", WORKS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    process.stdout.readline()
    yield process
    process.kill()
    process.communicate()


def put(path: Path, **files: str) -> None:
    path.mkdir(parents=True)
    for name, text in files.items():
        (path / name).write_text(text)


def asked(**args: object) -> Effort:
    return effort_fact.parse(effort.probe(args, 3.0))


def test_bytes_of_the_way_to_the_other_nodes_and_no_other(sys_class: Path) -> None:
    addresses = [
        {"ifname": "lo", "addr_info": [{"local": "127.0.0.1"}]},
        {"ifname": "wlan0", "addr_info": [{"local": "192.168.1.2"}]},
        {"ifname": "enp1s0f0np0", "addr_info": [{"local": "10.0.0.1"}, {"label": "no address"}]},
        {"ifname": "enp1s0f1np1"},
    ]
    tool(sys_class, "ip", f"echo '{json.dumps(addresses)}'")
    for name, received in (("enp1s0f0np0", "100\n"), ("wlan0", "7\n")):
        put(sys_class / f"net/{name}/statistics", rx_bytes=received, tx_bytes="200\n")
    assert asked(address="10.0.0.1").flows == (Flow("net", "enp1s0f0np0", 100, 200),)
    assert asked(address="10.0.0.9").flows == ()
    assert asked().flows == ()


def test_rdma_ports_count_four_bytes_as_one(sys_class: Path) -> None:
    """No interface counts what goes over RDMA: only its own counters tell that NCCL moves."""
    ports = sys_class / "infiniband/rocep1s0f0/ports"
    put(ports / "1/counters", port_rcv_data="1000\n", port_xmit_data="2000\n")
    put(ports / "2/counters", port_rcv_data="1000\n")
    put(sys_class / "infiniband/roceP2p1s0f0/ports/1/counters", port_rcv_data="N/A\n", port_xmit_data="5\n")
    assert asked().flows == (Flow("rdma", "rocep1s0f0/1", 4000, 8000),)


def test_without_the_tool_the_rest_is_told(sys_class: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(sys_class / "infiniband/rocep1s0f0/ports/1/counters", port_rcv_data="1\n", port_xmit_data="2\n")
    monkeypatch.setenv("PATH", str(sys_class / "nowhere"))
    assert asked(address="10.0.0.1").flows == (Flow("rdma", "rocep1s0f0/1", 4, 8),)
    monkeypatch.setenv("PATH", str(sys_class))
    tool(sys_class, "ip", "exit 1")
    assert len(asked(address="10.0.0.1").flows) == 1


def test_what_a_process_and_its_children_have_used(
    sys_class: Path, worker: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Children that are over, as compilers soon are, count as such: a rank that only waits has none."""
    group, real = f"0::/docker/{A}\n".encode(), procfs.read_record

    def read_record(path: str) -> bytes:
        return group if path == f"/proc/{worker.pid}/cgroup" else real(path)

    monkeypatch.setattr(procfs, "read_record", read_record)

    def after(words: str) -> ProcessTime:
        assert worker.stdin is not None
        assert worker.stdout is not None
        worker.stdin.write(words)
        worker.stdin.flush()
        worker.stdout.readline()
        (found,) = asked(containers=[A[:12]]).processes
        return found

    first = after("work\n")
    assert (first.pid, first.owner, first.child_ticks) == (worker.pid, A[:12], 0)
    assert first.start_ticks == procfs.stat(worker.pid).start_ticks
    wait_for("it has used CPU", lambda: after("work\n").ticks > first.ticks)
    wait_for("its children have", lambda: after("child\n").child_ticks > 0)
    assert asked(containers=["b" * 64]).processes == ()


def test_its_clock_is_the_nodes_own() -> None:
    before = time.clock_gettime(time.CLOCK_BOOTTIME)
    assert before - 0.001 <= asked().at_s <= time.clock_gettime(time.CLOCK_BOOTTIME) + 0.001
    assert asked().ticks_per_s == os.sysconf("SC_CLK_TCK")


def test_arguments_are_checked(node: Connection) -> None:
    answer = node.probe({"name": "effort", "args": {"containers": ["../etc"]}})["effort"]
    assert answer["code"] == "refused"
    assert effort_fact.parse(node.text("effort", containers=[A], units=["x.service"])).processes == ()


ROW = "0, NVIDIA GB10, 96 %, [N/A], 20.11 W, 2411 MHz, 0x0000000000000000"


def smi(folder: Path, query: str, apps: str = "echo 7; echo 8") -> None:
    tool(folder, "nvidia-smi", f'case "$1" in *compute-apps*) {apps};; *) {query};; esac')


def test_cards_and_who_computes_on_them(sys_class: Path) -> None:
    smi(sys_class, f"echo '{ROW}'")
    found = gpu_load_fact.parse(gpu_load.probe({}, 5.0))
    assert (found.smi, found.power_w, found.pids) == ("ok", 20.11, (7, 8))
    assert (found.cards[0].utilization, found.cards[0].memory_utilization) == (96.0, None)


def test_a_driver_that_calls_its_reasons_by_the_older_name(sys_class: Path) -> None:
    older = (
        f'case "$1" in *throttle*) echo "{ROW}";; *) '
        "echo 'Field \"clocks_event_reasons.active\" is not a valid field to query.'; exit 2;; esac"
    )
    smi(sys_class, older)
    assert gpu_load_fact.parse(gpu_load.probe({}, 5.0)).cards[0].reasons == 0


def test_a_tool_that_does_not_say_who_computes(sys_class: Path) -> None:
    for apps in ("echo 'No such field'", "exit 3"):
        smi(sys_class, f"echo '{ROW}'", apps)
        assert gpu_load_fact.parse(gpu_load.probe({}, 5.0)).pids is None
    smi(sys_class, f"echo '{ROW}'", "true")
    assert gpu_load_fact.parse(gpu_load.probe({}, 5.0)).pids == ()


def test_a_tool_that_fails_is_missing_or_mute(sys_class: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    smi(sys_class, "echo 'No devices were found'; exit 6")
    found = gpu_load_fact.parse(gpu_load.probe({}, 5.0))
    assert (found.smi, found.said, found.power_w) == ("failed", "No devices were found", None)
    smi(sys_class, "exec sleep 600")
    with pytest.raises(Refusal) as refused:
        gpu_load.probe({}, 0.5)
    assert refused.value.code == "timeout"
    monkeypatch.setenv("PATH", str(sys_class / "nowhere"))
    assert gpu_load_fact.parse(gpu_load.probe({}, 5.0)).smi == "missing"
