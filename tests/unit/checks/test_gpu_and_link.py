"""gpu and link: where they speak and where they must not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from check_world import DEPLOYMENT, SPARK1, SPARK2, said, scene, trouble, view

from sparkd.checks import gpu, link
from sparkd.checks.shared import run
from sparkd.facts.gpu import GPU, Gpu, GpuState, Xid
from sparkd.facts.links import LINKS, Interface, Links, RdmaPort
from sparkd.facts.rdma import RDMA, RdmaRights
from sparkd.model.decision import FailureClass
from sparkd.model.machine import Ping
from sparkd.model.snapshot import Container, Unknown

GB10 = Gpu("NVIDIA GB10", "580.95.05", "P0", None, 2411.0, 96.0, 61.0, 0, 3003.0)
WELL = GpuState("580.95.05", "ok", "", (GB10,), ())


def gpus(state: GpuState) -> Any:
    return {GPU: {SPARK1: WELL, SPARK2: state}}


def clocked(mhz: float, reasons: int | None, of: float | None = 3003.0, busy: float = 96.0) -> GpuState:
    return replace(WELL, gpus=(replace(GB10, sm_mhz=mhz, reasons=reasons, max_sm_mhz=of, utilization=busy),))


def logged(*xids: tuple[int, str]) -> GpuState:
    return replace(WELL, xids=tuple(Xid(float(at), number, text) for at, (number, text) in enumerate(xids)))


def lost(said: str, module: str | None = "580.95.05") -> GpuState:
    return GpuState(module, "failed", said, (), ())


RECOVERY = "NVRM: Xid (PCI:000f:01:00): 154, GPU recovery action changed from 0x1 (GPU Reset Required) to "
GPUS: list[tuple[GpuState, list[tuple[str, str]]]] = [
    (WELL, []),
    (lost("No devices were found"), [("fail", "no usable GPU")]),
    (lost("Unable to determine the device handle for GPU0: 000F:01:00.0: GPU is lost."), [("fail", "no usable GPU")]),
    (GpuState("580.95.05", "ok", "", (), ()), [("fail", "no usable GPU")]),
    # What a sandbox, an upgrade or a starved machine shows as well proves nothing of the hardware.
    (lost("Failed to initialize NVML: Insufficient Permissions"), [("warn", "no usable GPU")]),
    (lost("Failed to initialize NVML: Driver/library version mismatch"), [("warn", "no usable GPU")]),
    (GpuState(None, "missing", "", (), ()), [("warn", "no NVIDIA kernel module")]),
    (GpuState("580.95.05", "missing", "", (), ()), [("warn", "not installed")]),
    (logged((13, "x"), (31, "x"), (43, "x"), (45, "x")), []),
    (logged((13, "x"), (119, "NVRM: Xid 119")), [("fail", "Xid 119 on spark2")]),
    (
        logged((79, "a"), (79, "b"), (154, RECOVERY + "0x2 (Node Reboot Required)")),
        [("fail", "Xid 79"), ("fail", "154")],
    ),
    (logged((154, RECOVERY + "0x0 (None)")), []),
    (logged((94, "x"), (63, "x")), [("warn", "Xid 94"), ("warn", "Xid 63")]),
    (logged((48, "x")), [("fail", "double-bit ECC")]),
]
"""What the driver and the kernel say -> (status, words) of what the check says of it."""


@pytest.mark.parametrize(("state", "words"), GPUS)
def test_gpu(state: GpuState, words: list[tuple[str, str]]) -> None:
    found = said(gpu.CHECK, scene(gpus(state)))
    assert [(node, status) for node, status, _ in found] == [(SPARK2, status) for status, _ in words]
    assert all(word in text for (_, word), (_, _, text) in zip(words, found, strict=True))


CLOCKS: list[tuple[GpuState, list[str]]] = [
    (clocked(208.0, 0x1, busy=0.0), []),
    (clocked(2411.0, 0), []),
    # Under its power limit a card works at whatever clock that allows: recorded at 1440 of 1980 MHz, and at 900.
    (clocked(1440.0, 0x4, 1980.0), []),
    (clocked(880.0, 0x4), []),
    (clocked(300.0, 0x1), []),
    # A spin runs at the highest clock.
    (clocked(1980.0, 0, 1980.0), []),
    (clocked(2411.0, 0x80), ["its power supply brakes it"]),
    (clocked(507.0, 0x8 | 0x80), ["its power supply brakes it"]),
    (clocked(1400.0, 0x40 | 0x8), ["it is too hot, and its hardware"]),
    (clocked(1400.0, 0x20 | 0x4), ["it is too hot, and the driver"]),
    (clocked(1400.0, 0x8), ["its hardware slows it down"]),
    # A GB10 whose firmware limits it, of which the driver knows nothing (minefield#55).
    (clocked(513.0, 0), ["513 MHz under full load, of 3003, and the driver names no reason"]),
    (clocked(513.0, 0, None), []),
    (clocked(513.0, None), []),
    (clocked(513.0, 0, busy=60.0), []),
]


@pytest.mark.parametrize(("state", "words"), CLOCKS)
def test_clocks_are_judged_by_the_reasons_of_the_driver_and_hold_nothing(state: GpuState, words: list[str]) -> None:
    found = said(gpu.CHECK, scene(gpus(state)))
    assert [status for _, status, _ in found] == ["warn"] * len(words)
    assert all(word in text for word, (_, _, text) in zip(words, found, strict=True))


def test_a_broken_gpu_waits_for_a_person_and_a_cpu_deployment_needs_none() -> None:
    (found,) = trouble(gpu.CHECK, scene(gpus(lost("No devices were found"))))
    assert (found.cls, found.not_yet) == (FailureClass.HARDWARE, True)
    assert found.evidence == ("nvidia-smi: No devices were found",)
    assert "take its power" in found.fix
    (fatal,) = trouble(gpu.CHECK, scene(gpus(logged((79, "NVRM: Xid 79, fallen off the bus")))))
    assert (fatal.evidence, fatal.not_yet) == (("NVRM: Xid 79, fallen off the bus",), False)
    assert "take its power" in fatal.fix
    assert "checks: {gpu: warn}" in fatal.fix, "who knows better needs a way past it"
    assert run.chosen([gpu.CHECK], replace(DEPLOYMENT, hardware="cpu"), {}) == []


def port(name: str, address: str = "", **more: Any) -> Interface:
    addresses = (address,) if address else ()
    return replace(Interface(name, "up", 200_000, 9000, addresses), **more)


def node(last: int, *more: Interface, **odd: Any) -> Links:
    """The fabric is 10.0.0.x on the first half of port 0, 10.0.1.x on the other."""
    first = port("enp1s0f0np0", f"10.0.0.{last}", **odd)
    halves = (first, port("enP2p1s0f0np0", f"10.0.1.{last}"), port("eth0", f"192.168.1.{10 + last}", mtu=1500))
    return Links((*halves, *more), (RdmaPort("rocep1s0f0", 1, "active", "enp1s0f0np0", ()),))


IDLE: Any = {RDMA: {SPARK1: (), SPARK2: ()}}


def links(second: Links) -> Any:
    return {**IDLE, LINKS: {SPARK1: node(1), SPARK2: second}}


ID = "3f" * 32
WORKER = Container(ID, "sparkd-demo-1", "demo", 1, 3, "us", "x", "running")
BOUND = RdmaRights(77, ID, None, ("rdma_cm", "uverbs0"))
RIGHTS: list[tuple[RdmaRights, dict[str, Any], list[str]]] = [
    (BOUND, {}, []),
    (replace(BOUND, memlock_bytes=8 << 20), {}, ["rank 1 on spark2 may lock 8192 KiB of memory"]),
    (replace(BOUND, memlock_bytes=64 << 30), {}, []),
    (replace(BOUND, devices=()), {}, ["rank 1 on spark2 does not see /dev/infiniband"]),
    (replace(BOUND, devices=("rdma_cm",)), {}, ["does not see /dev/infiniband"]),
    (replace(BOUND, devices=None), {}, []),
    (replace(BOUND, devices=(), owner="sparkd-demo-1.service"), {}, ["does not see /dev/infiniband"]),
    (replace(BOUND, devices=(), owner="-"), {}, []),
    (replace(BOUND, devices=(), memlock_bytes=0), {"hardware": "cpu"}, []),
]


@pytest.mark.parametrize(("rights", "deployment", "words"), RIGHTS)
def test_what_a_running_rank_may_use_of_rdma(rights: RdmaRights, deployment: dict[str, Any], words: list[str]) -> None:
    facts = {**links(node(2)), RDMA: {SPARK1: (), SPARK2: (rights,)}}
    at = scene(facts, view(SPARK2, containers=(WORKER,)), running=True, **deployment)
    found = [one for one in trouble(link.CHECK, at) if "rank" in one.text]
    assert [(one.node, one.status, one.rank) for one in found] == [(SPARK2, "warn", 1)] * len(words)
    assert all(word in one.text for word, one in zip(words, found, strict=True))
    theirs = scene(facts, view(SPARK2, containers=(replace(WORKER, deployment="other"),)), running=True, **deployment)
    assert not [one for one in trouble(link.CHECK, theirs) if "rank" in one.text]


LINKS_ODD: list[tuple[Links, list[tuple[str, str]]]] = [
    (node(2), []),
    (node(3), [("fail", "no interface of spark2 has the address 10.0.0.2")]),
    (node(2, state="down"), [("fail", "is down")]),
    (node(2, speed_mbps=1000), [("warn", "1 Gb/s")]),
    (node(2, mtu=1500), [("fail", "the MTU of the fabric is 1500 on spark2, elsewhere 9000")]),
    (replace(node(2), interfaces=node(2).interfaces[:1]), []),
    (
        replace(node(2), interfaces=(node(2).interfaces[0], port("enP2p1s0f0np0", state="down"))),
        [("warn", "the other half of enp1s0f0np0 on spark2, is down")],
    ),
    (replace(node(2), interfaces=(node(2).interfaces[0], port("enP2p1s0f0np0"))), [("warn", "has no address")]),
]


@pytest.mark.parametrize(("second", "expected"), LINKS_ODD)
def test_the_fabric(second: Links, expected: list[tuple[str, str]]) -> None:
    found = said(link.CHECK, scene(links(second)))
    assert [(where, status) for where, status, _ in found] == [(SPARK2, status) for status, _ in expected]
    assert all(words in text for (_, words), (_, _, text) in zip(expected, found, strict=True))


NAMES: list[tuple[str, str, bool]] = [
    ("NCCL_SOCKET_IFNAME", "enp1s0f0np0", True),
    ("NCCL_SOCKET_IFNAME", "enp1", True),
    ("NCCL_SOCKET_IFNAME", "=enp1", False),
    ("NCCL_SOCKET_IFNAME", "=enp1s0f0np0", True),
    ("NCCL_SOCKET_IFNAME", "^docker0", True),
    ("NCCL_SOCKET_IFNAME", "bond0", False),
    ("GLOO_SOCKET_IFNAME", "eth9", False),
    ("NCCL_IB_HCA", "rocep1s0f0", True),
    ("NCCL_IB_HCA", "=rocep1s0f0:1", True),
    ("NCCL_IB_HCA", "rocep1s0f0,rocep1s0f1", False),
    ("NCCL_IB_HCA", "^mlx5_0", True),
    ("VLLM_HOST_IP", "192.168.1.12", True),
    ("VLLM_HOST_IP", "192.168.1.11", False),
]


@pytest.mark.parametrize(("variable", "value", "well"), NAMES)
def test_names_in_the_environment_exist_on_that_node(variable: str, value: str, well: bool) -> None:
    found = trouble(link.CHECK, scene(links(node(2)), node_env={SPARK2: {variable: value}}))
    assert [(one.node, one.rank) for one in found] == ([] if well else [(SPARK2, 1)])
    assert all(variable in one.text and variable in one.fix for one in found)


ROCE = RdmaPort("rocep1s0f0", 1, "active", "enp1s0f0np0", ("0:fe80::1:RoCEv1", "3:0:0:ffff:0a00:0002:RoCEv2"))


@pytest.mark.parametrize(
    ("env", "well"),
    [
        ({"NCCL_IB_GID_INDEX": "3"}, True),
        ({"NCCL_IB_GID_INDEX": "5"}, False),
        ({"NCCL_IB_GID_INDEX": "-1"}, True),
        ({"NCCL_IB_GID_INDEX": "5", "NCCL_IB_HCA": "rocep1s0f0"}, False),
        ({"NCCL_IB_GID_INDEX": "5", "NCCL_IB_HCA": "=other"}, True),
    ],
)
def test_the_gid_that_nccl_is_told_to_use_is_there(env: dict[str, str], well: bool) -> None:
    found = trouble(link.CHECK, scene(links(replace(node(2), rdma=(ROCE,))), node_env={SPARK2: env}))
    gids = [one for one in found if "GID" in one.text]
    assert [(one.node, one.rank) for one in gids] == ([] if well else [(SPARK2, 1)])


@pytest.mark.parametrize(
    ("pings", "statuses"),
    [
        ((Ping("10.0.0.1", 0.1),), []),
        ((Ping("10.0.0.1", None),), ["warn"]),
        ((Ping("10.0.0.1", None, "Network is unreachable"),), ["warn"]),
        ((Ping("10.0.0.1", None, "Operation not permitted"),), []),
        ((Ping("10.0.0.9", None),), []),
        (Unknown("mute", 0.0), ["unknown"]),
    ],
)
def test_peers_on_the_fabric(pings: Any, statuses: list[str]) -> None:
    found = said(link.CHECK, scene(links(node(2)), view(SPARK2, pings=pings)))
    assert [(where, status) for where, status, _ in found] == [(SPARK2, status) for status in statuses]


def test_a_node_alone_needs_no_fabric() -> None:
    assert said(link.CHECK, scene({**IDLE, LINKS: {SPARK1: node(9)}}, nodes=(SPARK1,))) == []


def test_an_address_that_is_not_configured_is_not_looked_for() -> None:
    at = scene(links(node(2)))
    cluster = replace(
        at.cluster, nodes={name: replace(one, data_address=None) for name, one in at.cluster.nodes.items()}
    )
    assert said(link.CHECK, replace(at, cluster=cluster)) == []
