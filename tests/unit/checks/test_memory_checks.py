"""stray, port, memory, pressure, shm and caches: where they speak and where they must not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from check_world import CLUSTER, SPARK1, SPARK2, said, scene, trouble, view

from sparkd.checks import caches, memory, port, pressure, shm, stray
from sparkd.checks.shared import run
from sparkd.checks.shared.scene import Scene
from sparkd.facts import Fact
from sparkd.facts.caches import CACHES, Cache
from sparkd.facts.engines import ENGINES
from sparkd.facts.holders import HOLDERS
from sparkd.facts.ipc import IPC, Ipc, User
from sparkd.facts.memory import MEMINFO
from sparkd.facts.pressure import PRESSURE, Killer, Pressure
from sparkd.facts.shm import SHM
from sparkd.facts.sockets import SOCKETS
from sparkd.model.check import Status
from sparkd.model.config import Cleanup, ContainerSpec, Mount
from sparkd.model.decision import FailureClass
from sparkd.model.machine import EngineProcess, Holders, Memory, Process, ShmSegment, Socket, Tmpfs
from sparkd.model.snapshot import Container, NodeView, Unknown

GIB = 1 << 30
C, OURS = "c" * 64, "0" * 64
WORKER = EngineProcess(500, 1, 9, "S", 30 * GIB, C, 7200.0, (29501,), None, "VLLM::Worker")
RANK = Container(OURS, "sparkd-demo-0", "demo", 0, 3, "us", "x", "running")


def engines(*found: EngineProcess) -> dict[str, object]:
    return {SPARK1: found, SPARK2: ()}


# -------------------------------------------------------------------------------------------------------------- stray

STRAYS: list[tuple[tuple[EngineProcess, ...], list[str]]] = [
    ((), []),
    ((replace(WORKER, owner=OURS),), []),
    ((replace(WORKER, owner="sparkd-demo-0.service"),), []),
    ((replace(WORKER, state="Z"),), []),
    (
        (WORKER, replace(WORKER, pid=501, rss_bytes=1, ports=(8000,))),
        [
            f"an engine that sparkd did not start runs on spark1 for 2 h 0 min: VLLM::Worker (pid 500) and 1 more in container "
            f"{C[:12]}, which is not sparkd's, on port 8000, 29501"
        ],
    ),
    (
        (replace(WORKER, owner="-", ports=(), age_s=30.0), replace(WORKER, owner="-", pid=501, ports=(), age_s=30.0)),
        ["an engine that sparkd did not start runs on spark1 for 30 s: VLLM::Worker (pid 500)"] * 2,
    ),
    (
        (replace(WORKER, mark=("us", "demo", 2), ports=()),),
        [
            "VLLM::Worker (pid 500) of generation 2 of demo outlived its rank on spark1: sparkd ends it before the next start"
        ],
    ),
]


@pytest.mark.parametrize(("found", "texts"), STRAYS)
def test_strays(found: tuple[EngineProcess, ...], texts: list[str]) -> None:
    at = scene({ENGINES: engines(*found)}, view(SPARK1, containers=(RANK,)), running=True)
    assert [text.replace("(pid 501)", "(pid 500)") for _, _, text in said(stray.CHECK, at)] == texts


def test_a_rank_of_an_earlier_generation_is_left_over_until_the_next_start() -> None:
    at = scene({ENGINES: engines()}, view(SPARK1, containers=(RANK,)))
    assert said(stray.CHECK, at) == [
        (SPARK1, "warn", "rank 0 of generation 3 of demo still runs on spark1: sparkd ends it first")
    ]
    assert said(stray.CHECK, replace(at, running=True)) == []
    other = replace(RANK, deployment="other")
    assert said(stray.CHECK, scene({ENGINES: engines()}, view(SPARK1, containers=(other,)))) == []


def test_a_rank_of_another_sparkd_is_a_stranger() -> None:
    at = scene(
        {ENGINES: engines(replace(WORKER, owner=RANK.id))}, view(SPARK1, containers=(replace(RANK, owner="they"),))
    )
    ((_, status, text),) = said(stray.CHECK, at)
    assert (status, "which is not sparkd's" in text) == ("fail", True)


def test_our_own_strays_are_no_trouble_of_anybodys() -> None:
    ours = scene({ENGINES: engines(replace(WORKER, mark=("us", "demo", 2)))})
    assert [status for _, status, _ in said(stray.CHECK, ours)] == ["warn"]
    assert [status for _, status, _ in said(stray.CHECK, scene({ENGINES: engines(WORKER)}))] == ["fail"]


# --------------------------------------------------------------------------------------------------------------- port


def listening(number: int, pid: int | None = 500) -> Socket:
    return Socket("LISTEN", "0.0.0.0", number, "0.0.0.0", 0, 0, 0, 1, pid)


def ports(holder: EngineProcess | None, socket: Socket, *views: NodeView, allowed: str = "own") -> Scene:
    found = engines(holder) if holder is not None else engines()
    at = scene({ENGINES: found, SOCKETS: {SPARK1: (socket,), SPARK2: (listening(8000),)}}, *views)
    return replace(at, cluster=replace(CLUSTER, cleanup=Cleanup(remove_strays=allowed)))


SERVING = view(SPARK1, containers=(RANK,), processes=(Process(500, 1, 9, "S", GIB, OURS, "VLLM::Worker"),))
OTHER = replace(SERVING, containers=(replace(RANK, deployment="other"),))
PORTS: list[tuple[Scene, list[tuple[str, str]]]] = [
    (ports(WORKER, listening(29501)), [("fail", f"held by VLLM::Worker (pid 500) in container {C[:12]}")]),
    (ports(None, listening(8000)), [("fail", "the api port 8000 on spark1 is held by pid 500")]),
    (ports(None, listening(8000, None)), [("fail", "held by a process that cannot be seen")]),
    (ports(None, listening(8000, None), SERVING), []),
    (ports(None, listening(29501), SERVING), []),
    (ports(None, listening(8000), OTHER), [("warn", "held by rank 0 of other: a start waits some seconds for it")]),
    (ports(None, listening(29501, 77), SERVING), [("fail", "the master port 29501 on spark1 is held by pid 77")]),
    (ports(replace(WORKER, owner="-"), listening(29501)), [("fail", "held by VLLM::Worker (pid 500)")]),
    (ports(replace(WORKER, owner="-"), listening(29501), allowed="holders"), [("warn", "sparkd ends it first")]),
    (ports(replace(WORKER, mark=("us", "demo", 2)), listening(29501)), [("warn", "sparkd ends it first")]),
    (ports(WORKER, replace(listening(29501), state="ESTABLISHED")), []),
    (ports(WORKER, listening(9000)), []),
]


@pytest.mark.parametrize(("at", "expected"), PORTS)
def test_ports(at: Scene, expected: list[tuple[str, str]]) -> None:
    found = trouble(port.CHECK, at)
    assert [one.status.value for one in found] == [status for status, _ in expected]
    assert all(text in one.text for one, (_, text) in zip(found, expected, strict=True))
    assert all((one.node, one.rank, one.cls) == (SPARK1, 0, FailureClass.RESOURCE) for one in found)


# ------------------------------------------------------------------------------------------------------------- memory

HOG = Holders((Tmpfs("/mnt/hog", 90 * GIB),), (), 0)
LOW = Memory(128 * GIB, 10 * GIB, 30 * GIB, 20 * GIB, 0, 0)


ENOUGH = Memory(128 * GIB, 118 * GIB, 119 * GIB, 0, 0, 0)


def remembered(one: Memory, other: Memory, *views: NodeView, **more: Any) -> Scene:
    facts: dict[Fact[Any], dict[str, object]]
    facts = {MEMINFO: {SPARK1: one, SPARK2: other}, ENGINES: engines(), HOLDERS: {SPARK1: HOG, SPARK2: HOG}}
    return scene(facts, *views, **more)


def test_memory_is_counted_as_the_gate_will_count_it() -> None:
    assert said(memory.CHECK, remembered(LOW, ENOUGH)) == [
        (
            SPARK1,
            "fail",
            "spark1 has 30.0 GiB of memory available and the rank needs 115.2 GiB (0.9 of 128.0 GiB): 85.2 GiB are missing"
            "; most of it is held by files in /mnt/hog (90.0 GiB)",
        )
    ]


def test_memory_of_our_own_ranks_comes_back_before_a_start() -> None:
    assert said(memory.CHECK, remembered(LOW, LOW, running=True)) == []
    ranks = (view(SPARK1, containers=(RANK,)), view(SPARK2, containers=(RANK,)))
    assert said(memory.CHECK, remembered(LOW, LOW, *ranks)) == []


def test_a_node_whose_memory_is_unknown_is_short_of_nothing() -> None:
    found = run.evaluate([memory.CHECK], scene({ENGINES: engines(), HOLDERS: {SPARK1: HOG, SPARK2: HOG}}), {})
    assert {one.status for one in found} == {Status.UNKNOWN}


def test_no_gate_no_check() -> None:
    assert memory.CHECK.applies(scene(memory={"gate": "off"}).deployment) is False
    assert memory.CHECK.applies(scene().deployment) is True


# ----------------------------------------------------------------------------------------------------------- pressure

QUIET = Pressure(1.0, 0.2, (), {"swappiness": 60})


def killer(name: str, *argv: str, settings: tuple[str, ...] = ()) -> Pressure:
    return replace(QUIET, killers=(Killer(name, 9, (name, *argv), settings),))


PRESSURES: list[tuple[Pressure, list[tuple[str, str]]]] = [
    (QUIET, []),
    (replace(QUIET, some_60=None, full_60=None), []),
    (replace(QUIET, some_60=25.0), [("fail", "stood waiting for memory 25 % of the last minute")]),
    (replace(QUIET, full_60=6.0), [("fail", "all at once 6 %")]),
    # 128 GiB, of which a rank takes 0.9: 12.8 GiB are left.
    (killer("earlyoom"), [("warn", "below 12.8 GiB of available memory; the rank leaves 12.8 GiB")]),
    (killer("earlyoom", "-m", "11"), [("fail", "below 14.1 GiB")]),
    (killer("earlyoom", "-m", "4,2"), [("warn", "below 5.1 GiB")]),
    (killer("earlyoom", "-m15"), [("fail", "below 19.2 GiB")]),
    (killer("earlyoom", "-M", "2097152"), [("warn", "below 2.0 GiB")]),
    (killer("earlyoom", "-M", "20971520", "-m", "3"), [("warn", "below 3.8 GiB")]),
    (killer("earlyoom", "-m", "odd"), [("warn", "by rules of its own")]),
    (
        killer("nohang", settings=("soft_threshold_min_mem = 14 %", "hard_threshold_min_mem = 3 %")),
        [("fail", "17.9 GiB")],
    ),
    (killer("nohang", settings=("soft_threshold_min_mem = 512 M",)), [("warn", "below 512 MiB")]),
    (killer("systemd-oomd"), [("warn", "systemd-oomd runs on spark1 and ends processes by rules of its own")]),
]


@pytest.mark.parametrize(("found", "expected"), PRESSURES)
def test_pressure(found: Pressure, expected: list[tuple[str, str]]) -> None:
    told = said(pressure.CHECK, scene({PRESSURE: {SPARK1: found, SPARK2: QUIET}, HOLDERS: {SPARK1: HOG, SPARK2: HOG}}))
    assert [status for _, status, _ in told] == [status for status, _ in expected]
    assert all(part in text for (_, _, text), (_, part) in zip(told, expected, strict=True))


def test_an_unknown_memory_leaves_the_killers_rules_open() -> None:
    blind = view(SPARK1, memory=Unknown("no answer", 1.0))
    at = scene({PRESSURE: {SPARK1: killer("earlyoom"), SPARK2: QUIET}, HOLDERS: {SPARK1: HOG, SPARK2: HOG}}, blind)
    assert [status for _, status, _ in said(pressure.CHECK, at)] == ["warn"]


def test_big_tenants_are_named_and_ours_are_not() -> None:
    def held(owner: str, gib: int, pid: int = 7) -> Process:
        return Process(pid, 1, 9, "S", gib * GIB, owner, "python3 train.py")

    there = Holders((), (held(OURS, 90), held(C, 3), held(C, 2, 8), held("-", 5), held("jupyter.service", 3, 9)), 0)
    at = scene(
        {PRESSURE: {SPARK1: QUIET, SPARK2: QUIET}, HOLDERS: {SPARK1: there, SPARK2: HOG}},
        view(SPARK1, containers=(RANK,)),
    )
    assert said(pressure.CHECK, at) == [
        (SPARK1, "warn", f"container {C[:12]} has 5.0 GiB of spark1's memory"),
        (SPARK1, "warn", "python3 (pid 7) has 5.0 GiB of spark1's memory"),
    ]


# ---------------------------------------------------------------------------------------------------------------- shm

ROOMY = Ipc(60 * GIB, 0, True, {})
LEFT = ShmSegment("psm_1", 160 << 20, 1.0, 1, 1, 0)


def shared(ipc: Ipc = ROOMY, segments: tuple[ShmSegment, ...] = (), **more: Any) -> Scene:
    return scene({IPC: {SPARK1: ipc, SPARK2: ROOMY}, SHM: {SPARK1: segments, SPARK2: ()}}, **more)


def users(**found: User) -> Ipc:
    return replace(ROOMY, users=found)


MILO = User(1000, False)
SHMS: list[tuple[Scene, list[tuple[str, str]]]] = [
    (shared(), []),
    (shared(segments=(replace(LEFT, holders=2),)), []),
    (shared(segments=(LEFT, LEFT)), [("warn", "2 segments in /dev/shm on spark1 (320 MiB) are held by nobody")]),
    (shared(Ipc(GIB, GIB - (100 << 20), True, {})), [("fail", "/dev/shm on spark1 has 100 MiB of 1.0 GiB free")]),
    (shared(Ipc(GIB, GIB, True, {}), running=True), []),
    (shared(users(milo=MILO), user="milo", runtime="process"), [("fail", "when user milo logs out of spark1")]),
    (shared(users(milo=replace(MILO, lingers=True))), []),
    (shared(users(svc=User(998, False))), []),
    (shared(users(gone=User(None, False))), []),
    (shared(replace(users(milo=MILO), removes_ipc=False)), []),
    (shared(container=ContainerSpec(ipc="private")), [("fail", "a rank has 64 MiB of shared memory")]),
    (shared(container=ContainerSpec(ipc="private", shm_size="1g")), []),
]


@pytest.mark.parametrize(("at", "expected"), SHMS)
def test_shared_memory(at: Scene, expected: list[tuple[str, str]]) -> None:
    told = said(shm.CHECK, at)
    assert [status for _, status, _ in told] == [status for status, _ in expected]
    assert all(part in text for (_, _, text), (_, part) in zip(told, expected, strict=True))


# ------------------------------------------------------------------------------------------------------------- caches

WITH_CACHE = ContainerSpec(mounts=(Mount(source="/c/vllm", target="/root/.cache/vllm"),))


def cached(one: int | None, other: int | None, **more: Any) -> Scene:
    found = {SPARK1: (Cache("/c/vllm", 5 << 20, one),), SPARK2: (Cache("/c/vllm", 0, other),)}
    return scene({CACHES: found}, container=WITH_CACHE, **more)


@pytest.mark.parametrize(
    ("at", "nodes"),
    [
        (cached(12, 0), [SPARK2]),
        (cached(12, 9), []),
        (cached(0, 0), []),
        (cached(12, None), []),
        (cached(12, 0, running=True), []),
    ],
)
def test_caches_on_some_ranks_only(at: Scene, nodes: list[str]) -> None:
    found = trouble(caches.CHECK, at)
    assert [one.node for one in found] == nodes
    assert all("empty on spark2 and filled on spark1 (5 MiB)" in one.text for one in found)


def test_without_cache_mounts_there_is_nothing_to_compare() -> None:
    assert caches.CHECK.applies(scene().deployment) is False
    assert caches.CHECK.applies(cached(1, 1).deployment) is True
    assert caches.CHECK.applies(replace(cached(1, 1).deployment, nodes=(SPARK1,))) is False
