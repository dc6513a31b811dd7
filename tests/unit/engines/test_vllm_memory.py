"""What a vLLM rank will ask for, and by which figure it judges that; and which folders are its compile caches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from sparkd.engines import ENGINES, caches
from sparkd.model.config import ContainerSpec, Deployment, Mount

GIB = 1 << 30
TOTAL = 120 * GIB
VLLM = ENGINES["vllm"]


def deployment(**more: Any) -> Deployment:
    return Deployment(**{"name": "demo", "engine": "vllm", "nodes": ("spark1", "spark2"), **more})


def need(**more: Any) -> tuple[float, str]:
    found = VLLM.memory(deployment(**more), TOTAL)
    return found.bytes / GIB, found.reads


KV40, W76 = {"kv-cache-memory-bytes": "40GiB"}, {"weights": "76GiB"}
GPU: list[tuple[Mapping[str, Any], float]] = [
    ({}, 108.0),
    ({"args": {"gpu-memory-utilization": "0.5"}}, 60.0),
    ({"args": {"gpu-memory-utilization": 0.25}}, 30.0),
    ({"args": {"gpu-memory-utilization": "lots"}}, 0.0),
    ({"args": {"gpu-memory-utilization": [0.5]}}, 0.0),
    ({"args": {"gpu-memory-utilization": 1.5}}, 0.0),
    ({"args": KV40}, 108.0),
    ({"args": KV40, "memory": W76}, 116.0),
    ({"args": {**KV40, "gpu-memory-utilization": 0.5}, "memory": W76}, 116.0),
    ({"args": {"kv-cache-memory-bytes": "odd"}, "memory": W76}, 108.0),
    ({"hardware": "gpu"}, 0.0),
]


@pytest.mark.parametrize(("more", "gib"), GPU)
def test_a_rank_on_gb10_is_admitted_by_its_utilization(more: Mapping[str, Any], gib: float) -> None:
    assert need(**more)[0] == pytest.approx(gib)


@pytest.mark.parametrize(
    ("image", "reads"),
    [
        (None, "free"),
        ("ghcr.io/spark-arena/dgx-vllm-eugr-nightly:latest", "free"),
        ("nvcr.io/nvidia/vllm:25.11-py3", "free"),
        ("vllm/vllm-openai:v0.11.2", "free"),
        ("vllm/vllm-openai:v0.23.9", "free"),
        ("vllm/vllm-openai:v0.24.0", "available"),
        ("localhost:5000/vllm:0.32.0-cu130", "available"),
        ("vllm/vllm-openai:v0.32.0@sha256:0123", "available"),
        ("localhost:5000/vllm", "free"),
    ],
)
def test_f25_page_cache_counts_as_used_for_versions_that_were_not_seen_to_know_better(image: str, reads: str) -> None:
    assert need(image=image)[1] == reads


def test_the_file_may_say_which_figure_counts() -> None:
    assert need(memory={"reads": "available"})[1] == "available"
    assert need(image="vllm/vllm-openai:v0.32.0", memory={"reads": "free"})[1] == "free"
    assert need(hardware="cpu", memory={"reads": "free"})[1] == "free"


CPU: list[tuple[Mapping[str, Any], float]] = [
    ({}, 108.0),
    ({"args": {"gpu-memory-utilization": 0.1}}, 12.0),
    ({"env": {"VLLM_CPU_KVCACHE_SPACE": "1"}}, 1.0),
    ({"env": {"VLLM_CPU_KVCACHE_SPACE": "1"}, "args": KV40}, 1.0),
    ({"env": {"VLLM_CPU_KVCACHE_SPACE": ""}, "args": KV40}, 40.0),
    ({"args": KV40, "memory": {"weights": "3GiB"}}, 43.0),
    ({"container": ContainerSpec(memory="10g")}, 9.0),
    ({"container": ContainerSpec(memory="200g")}, 108.0),
]


@pytest.mark.parametrize(("more", "gib"), CPU)
def test_the_cpu_build_counts_in_its_own_way(more: Mapping[str, Any], gib: float) -> None:
    found, reads = need(hardware="cpu", **more)
    assert found == pytest.approx(gib)
    assert reads == "available"


MOUNTS: list[tuple[tuple[str, str, bool], tuple[str, ...]]] = [
    (("/home/milo/.cache/vllm", "/root/.cache/vllm", False), ("/home/milo/.cache/vllm",)),
    (("/data/fi/", "/root/.cache/flashinfer", False), ("/data/fi",)),
    (("/data/ti", "/tmp/torchinductor_root", False), ("/data/ti",)),
    (("/data/tri", "/root/.triton/cache", False), ("/data/tri",)),
    (("/home/milo/models", "/models", False), ()),
    (("/home/milo/.cache/huggingface", "/root/.cache/huggingface", False), ()),
    (("/home/tom/vllm", "/usr/lib/python3.12/site-packages/vllm", False), ()),
    (("/home/milo/.cache/vllm", "/root/.cache/vllm", True), ()),
]


@pytest.mark.parametrize(("mount", "found"), MOUNTS)
def test_only_compile_caches_are_caches(mount: tuple[str, str, bool], found: tuple[str, ...]) -> None:
    source, target, read_only = mount
    container = ContainerSpec(mounts=(Mount(source=source, target=target, read_only=read_only),))
    assert caches.folders(deployment(container=container)) == found


def test_a_whole_cache_folder_counts_for_what_is_compiled_in_it() -> None:
    container = ContainerSpec(mounts=(Mount(source="/home/milo/.cache", target="/root/.cache"),))
    found = caches.folders(deployment(container=container))
    assert "/home/milo/.cache/vllm" in found
    assert "/home/milo/.cache/huggingface" not in found
