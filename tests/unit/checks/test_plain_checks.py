"""image, container-spec, disk, swap, clock, parity: where they speak and where they must not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from check_world import CLUSTER, DEPLOYMENT, SPARK1, SPARK2, said, scene, trouble, view
from unit_world import DS4

from sparkd.checks import clock, container_spec, disk, image, parity, swap
from sparkd.checks.shared.odd import odd_ones
from sparkd.checks.shared.scene import Space
from sparkd.facts import Question
from sparkd.facts.containers import CONTAINERS
from sparkd.facts.disks import DISKS, Disk
from sparkd.facts.docker_info import DOCKER_INFO, DockerInfo
from sparkd.facts.engine_python import ENGINE_PYTHON, EnginePython
from sparkd.facts.image import IMAGE, Image, NoImage
from sparkd.facts.pressure import PRESSURE, Pressure, Swap
from sparkd.facts.versions import VERSIONS
from sparkd.model.config import ContainerSpec, Mount
from sparkd.model.machine import Boot
from sparkd.model.snapshot import Unknown

GB10 = {"kernel": "6.14", "architecture": "aarch64", "driver": "580.95.05"}
ARM = Image("sha256:1", "arm64", ())
VERSIONS_WELL = {SPARK1: GB10, SPARK2: GB10}


def images(first: object, second: object) -> Any:
    return {IMAGE: {SPARK1: first, SPARK2: second}, VERSIONS: VERSIONS_WELL}


def test_the_same_image_everywhere_is_well() -> None:
    assert said(image.CHECK, scene(images(ARM, ARM))) == []


def test_a_missing_image_is_named_with_the_node_and_may_come_yet() -> None:
    (found,) = trouble(image.CHECK, scene(images(ARM, NoImage())))
    assert (found.node, found.text, found.not_yet) == (SPARK2, "image vllm:1 is not on spark2", True)
    assert "docker pull vllm:1" in found.fix


def test_another_image_behind_the_same_name() -> None:
    (found,) = trouble(image.CHECK, scene(images(ARM, replace(ARM, id="sha256:2"))))
    assert found.node == SPARK2
    assert len(found.evidence) == 2


def test_an_image_for_another_processor() -> None:
    other = replace(ARM, architecture="amd64")
    assert [text for _, _, text in said(image.CHECK, scene(images(other, other)))] == [
        f"vllm:1 on {node} is made for amd64, the node is arm64" for node in (SPARK1, SPARK2)
    ]
    unread: Any = {
        IMAGE: {SPARK1: other, SPARK2: other},
        VERSIONS: dict.fromkeys((SPARK1, SPARK2), Unknown("mute", 0.0)),
    }
    assert {status for _, status, _ in said(image.CHECK, scene(unread))} == {"unknown"}


PLAIN = ContainerSpec(privileged=False)
SPECS: list[tuple[ContainerSpec, str, list[str]]] = [
    (ContainerSpec(), "gb10", []),
    (PLAIN, "cpu", []),
    (PLAIN, "gb10", ["/dev/infiniband", "lock memory"]),
    (replace(PLAIN, devices=("/dev/infiniband/uverbs0",), ulimits={"memlock": -1}), "gb10", []),
    (replace(PLAIN, devices=("/dev/infiniband",), cap_add=("IPC_LOCK",)), "gb10", []),
    (ContainerSpec(ipc="private"), "gb10", ["64 MiB"]),
    (ContainerSpec(ipc="private", shm_size="16g"), "gb10", []),
    (ContainerSpec(ipc="private", shm_size="128m"), "gb10", ["128 MiB"]),
]


@pytest.mark.parametrize(("spec", "hardware", "words"), SPECS)
def test_container_spec(spec: ContainerSpec, hardware: str, words: list[str]) -> None:
    found = said(container_spec.CHECK, scene(container=spec, hardware=hardware))
    assert len(found) == len(words)
    assert all(word in text for word, (_, _, text) in zip(words, found, strict=True))


def test_one_node_needs_no_rdma() -> None:
    alone = scene(container=ContainerSpec(privileged=False), nodes=(SPARK1,), hardware="gb10")
    assert said(container_spec.CHECK, alone) == []


NO_CONTAINERS: Any = {CONTAINERS: {SPARK1: (), SPARK2: ()}, DOCKER_INFO: {SPARK1: DockerInfo(), SPARK2: DockerInfo()}}
ROOMY = Disk(1 << 40, 1 << 39, 1 << 20, 1 << 19, False, "ext4")
DISKS_ODD: list[tuple[dict[str, Any], bool, list[str]]] = [
    ({}, True, []),
    ({"free": 100 << 20}, True, ["fail"]),
    ({"free": 3 << 30}, True, ["warn"]),
    ({"free": 0}, False, []),
    ({"read_only": True}, True, ["fail"]),
    ({"read_only": True}, False, []),
    ({"inodes_free": 3}, True, ["fail"]),
    ({"inodes": 0, "inodes_free": 0}, True, []),
    ({"kind": "nfs4"}, False, ["warn"]),
    ({"kind": "tmpfs"}, True, ["warn"]),
    ({"kind": "exfat"}, True, ["warn"]),
    ({"kind": "xfs"}, True, []),
]


@pytest.mark.parametrize(("odd", "written", "statuses"), DISKS_ODD)
def test_disk(odd: dict[str, Any], written: bool, statuses: list[str]) -> None:
    spec = ContainerSpec(mounts=(Mount(source="/cache", target="/c", read_only=not written),))
    facts = {DISKS: {SPARK1: {"/cache": replace(ROOMY, **odd)}, SPARK2: {"/cache": ROOMY}}, **NO_CONTAINERS}
    found = said(disk.CHECK, scene(facts, container=spec))
    assert [(node, status) for node, status, _ in found] == [(SPARK1, status) for status in statuses]


def test_without_containers_the_users_home_and_moved_caches_are_written() -> None:
    bare: dict[str, Any] = {
        "runtime": "process",
        "user": "ranks",
        "model": "/m",
        "env": {"HF_HOME": "/hf", "PATH": "/b"},
    }
    asked = DISKS.args(Question(CLUSTER, replace(DEPLOYMENT, image=None, **bare), SPARK1))
    assert asked == {"paths": ["/hf", "/m", "/var/log", "~ranks/"]}
    full = dict.fromkeys(("/hf", "/m", "~ranks/"), replace(ROOMY, free=0))
    found = said(disk.CHECK, scene({**NO_CONTAINERS, DISKS: {SPARK1: full, SPARK2: {}}}, image=None, **bare))
    assert [text for _, _, text in found] == ["/hf on spark1 has 0 MiB free", "~ranks/ on spark1 has 0 MiB free"]


@pytest.mark.parametrize(
    ("fields", "warned"),
    [
        ({}, False),
        ({"log_grows": True}, True),
        ({"log_grows": True, "state": "exited"}, False),
        ({"log_grows": True, "state": "exited", "restart": "always"}, True),
    ],
)
def test_f10_the_log_of_a_container_has_a_limit(fields: dict[str, Any], warned: bool) -> None:
    facts: Any = {**NO_CONTAINERS, DISKS: {SPARK1: {}, SPARK2: {}}}
    facts[CONTAINERS] = {SPARK1: (replace(DS4, **fields),), SPARK2: ()}
    found = said(disk.CHECK, scene(facts))
    assert [(node, status) for node, status, _ in found] == ([(SPARK1, "warn")] if warned else [])


ELSEWHERE = DockerInfo(("/data/docker", "/var/lib/containerd"))
FULL, WELL = "500 0 99 99 rw ext4 {}\n", "500000000000 90000000000 99999 99999 rw ext4 {}\n"


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        ({"/data/docker": WELL, "/var/lib/containerd": WELL}, []),
        ({"/data/docker": FULL, "/var/lib/containerd": WELL}, [("fail", "/data/docker on spark1 has 0 MiB free")]),
        (
            {"/data/docker": WELL, "/var/lib/containerd": FULL},
            [("fail", "/var/lib/containerd on spark1 has 0 MiB free")],
        ),
        ({"/data/docker": WELL.replace("rw", "ro"), "/var/lib/containerd": WELL}, [("fail", "is mounted read-only")]),
        ({"/data/docker": WELL}, [("unknown", "/var/lib/containerd: not asked")]),
    ],
)
def test_the_disks_that_docker_writes_to_are_judged_wherever_they_are(
    lines: dict[str, str], found: list[tuple[str, str]]
) -> None:
    facts = {**NO_CONTAINERS, DISKS: {SPARK1: {}, SPARK2: {}}, DOCKER_INFO: {SPARK1: ELSEWHERE, SPARK2: DockerInfo()}}
    answers: dict[Any, Any] = {Space(SPARK1, path): line.format(path) for path, line in lines.items()}
    there = [(status, text) for _, status, text in said(disk.CHECK, scene(facts, answers=answers))]
    assert [status for status, _ in there] == [status for status, _ in found]
    assert all(words in text for (_, text), (_, words) in zip(there, found, strict=True))
    bare = scene(facts, answers=answers, runtime="process")
    assert said(disk.CHECK, bare) == [], "ranks without containers need no Docker"


def swapped(used: int, name: str = "/swap.img") -> dict[Any, Any]:
    one = Pressure(0.0, 0.0, (Swap(name, "file", 16 << 30, used), Swap("/dev/zram0", "partition", 8 << 30, 0)))
    return {PRESSURE: {SPARK1: Pressure(0.0, 0.0, ()), SPARK2: one}}


def test_swap() -> None:
    (found,) = trouble(swap.CHECK, scene(swapped(3 << 30)))
    assert (found.node, found.text) == (SPARK2, "3.0 GiB of swap are in use on spark2")
    assert found.evidence == (
        "/swap.img (file): 3.0 GiB of 16.0 GiB",
        "/dev/zram0 (partition, which is memory itself): 0 MiB of 8.0 GiB",
    )
    assert said(swap.CHECK, scene(swapped(1 << 20))) == []
    unread: Any = {PRESSURE: {SPARK1: Pressure(0.0, 0.0, ()), SPARK2: Unknown("mute", 0.0)}}
    assert said(swap.CHECK, scene(unread)) == [(SPARK2, "unknown", "cannot be checked: mute")]


def test_clock() -> None:
    late = Boot("b", 10, 86400.0, SPARK2, now=1.7e9 - 60)
    assert said(clock.CHECK, scene()) == []
    assert said(clock.CHECK, scene(None, view(SPARK2, boot=late))) == [
        (SPARK2, "fail", "the clock of spark2 is 60 s behind that of spark1")
    ]
    ahead = replace(late, now=1.7e9 + 60)
    assert "ahead of" in said(clock.CHECK, scene(None, view(SPARK2, boot=ahead)))[0][2]
    mute = Unknown("mute", 0.0)
    unread = said(clock.CHECK, scene(None, view(SPARK1, boot=mute), view(SPARK2, boot=mute)))
    assert [status for _, status, _ in unread] == ["unknown", "unknown"]


DOCKERS: Any = {DOCKER_INFO: {node: DockerInfo(("/d",), "29.1.3") for node in (SPARK1, SPARK2)}}
PYTHONS: Any = {ENGINE_PYTHON: {SPARK1: EnginePython(), SPARK2: EnginePython()}}


def test_parity() -> None:
    well = {VERSIONS: VERSIONS_WELL, **DOCKERS, **PYTHONS}
    assert said(parity.CHECK, scene(well)) == []
    (found,) = trouble(parity.CHECK, scene({**well, VERSIONS: {SPARK1: GB10, SPARK2: {**GB10, "driver": "580.82.07"}}}))
    assert (found.node, found.text) == (SPARK2, "NVIDIA driver on spark2 is 580.82.07, elsewhere 580.95.05")
    assert found.evidence == ("spark1: 580.95.05", "spark2: 580.82.07")


def venv(version: str) -> EnginePython:
    return EnginePython("/v/bin/python", (f"1 2 /v/lib/python3.12/site-packages/vllm-{version}.dist-info/METADATA",))


def test_parity_of_what_runs_the_ranks() -> None:
    other = DockerInfo(("/d",), "28.5.1")
    facts: Any = {VERSIONS: VERSIONS_WELL, DOCKER_INFO: {SPARK1: other, SPARK2: DockerInfo(("/d",), "29.1.3")}}
    facts[ENGINE_PYTHON] = {SPARK1: venv("0.32.0"), SPARK2: venv("0.33.1")}
    (docker,) = said(parity.CHECK, scene(facts))
    assert docker[2] == "Docker on spark2 is 29.1.3, elsewhere 28.5.1"
    (engine,) = said(parity.CHECK, scene(facts, runtime="process", image=None))
    assert engine[2] == "vllm on spark2 is 0.33.1, elsewhere 0.32.0"
    facts[ENGINE_PYTHON] = {SPARK1: venv("0.32.0"), SPARK2: EnginePython()}
    assert said(parity.CHECK, scene(facts, runtime="process", image=None)) == [], "not there is for the loop to say"
    facts[DOCKER_INFO] = {SPARK1: other, SPARK2: Unknown("mute", 0.0)}
    assert [(node, status) for node, status, _ in said(parity.CHECK, scene(facts))] == [(SPARK2, "unknown")]


def test_odd_ones() -> None:
    assert odd_ones({}) == (None, {})
    assert odd_ones({"a": 1, "b": 1, "c": 2}) == (1, {"c": 2})
    assert odd_ones({"a": 2, "b": 1, "c": 1}) == (1, {"a": 2})
    assert odd_ones({"a": 2, "b": 1}) == (2, {"b": 1})
