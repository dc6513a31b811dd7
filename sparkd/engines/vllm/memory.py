"""A vLLM rank and the memory of its node -> what vLLM itself will ask for when it starts, as its versions count.

A GPU rank is admitted by `gpu-memory-utilization` alone, also where the KV cache is given in bytes (0.32:
v1/worker/utils.py, request_memory); what it then allocates are weights and KV cache. The CPU build asks for the same
fraction of the node's memory, but only where no size of the KV cache is given (v1/worker/cpu_worker.py).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from sparkd.engines.base import MemoryNeed
from sparkd.model.config import Deployment
from sparkd.model.printed import whole
from sparkd.model.size import parse_size, spoken

UTILIZATION = 0.9
"""vLLM's default; 0.92 in later versions."""
AVAILABLE_SINCE = 24
"""0.24 was seen to read MemAvailable on a GB10 (vllm-project/vllm#48140). The second report's build, a main of May 2026,
counted page cache as used. Anything else is judged by the stricter figure; right after caches were dropped they are close."""
_TAG = re.compile(r"[^/]*:v?0\.([0-9]{1,9})(?:[.\-+_].*)?")
_GIB = 1 << 30


def memory(deployment: Deployment, total_bytes: int) -> MemoryNeed:
    if deployment.hardware == "cpu":
        return _cpu(deployment, total_bytes)
    if deployment.hardware == "gpu":
        return MemoryNeed(0, "available", "a GPU has memory of its own")
    admission = _fraction(deployment, total_bytes)
    weights = _size(deployment.memory.get("weights"))
    kv = _size(deployment.args.get("kv-cache-memory-bytes"))
    allocated = weights + kv if weights and kv else 0
    why = f"{spoken(weights)} of weights and {spoken(kv)} of KV cache"
    reads = deployment.memory.get("reads") or ("available" if _reads_available(deployment.image) else "free")
    return (
        MemoryNeed(allocated, reads, why)
        if allocated > admission.bytes
        else MemoryNeed(admission.bytes, reads, admission.why)
    )


def _cpu(deployment: Deployment, total_bytes: int) -> MemoryNeed:
    """VLLM_CPU_KVCACHE_SPACE counts in GiB, and wins over the argument as vLLM reads it last."""
    limit, reads = _size(deployment.container.memory), deployment.memory.get("reads") or "available"
    space = deployment.env.get("VLLM_CPU_KVCACHE_SPACE", "")
    given = whole(space)
    kv = given * _GIB if given is not None and given >= 0 else _size(deployment.args.get("kv-cache-memory-bytes"))
    if kv:
        weights = _size(deployment.memory.get("weights"))
        return MemoryNeed(kv + weights, reads, f"{spoken(kv)} of KV cache" + (" and the weights" if weights else ""))
    need = _fraction(deployment, min(limit, total_bytes) if limit else total_bytes)
    return MemoryNeed(need.bytes, reads, need.why)


def _fraction(deployment: Deployment, total_bytes: int) -> MemoryNeed:
    fraction = _utilization(deployment.args)
    if fraction is None:
        return MemoryNeed(0, "free", "gpu-memory-utilization is no fraction")
    return MemoryNeed(int(total_bytes * fraction), "free", f"{fraction:g} of {spoken(total_bytes)}")


def _utilization(args: Mapping[str, Any]) -> float | None:
    given = args.get("gpu-memory-utilization")
    try:
        fraction = UTILIZATION if given is None else float(given)
    except (TypeError, ValueError, OverflowError):
        return None
    return fraction if 0 < fraction <= 1 else None


def _size(given: object) -> int:
    """0 for what is not given, or no size."""
    try:
        return parse_size(str(given)) if given is not None else 0
    except ValueError:
        return 0


def _reads_available(image: str | None) -> bool:
    """By the version in the image's tag. `25.11-py3` of another registry is no version of vLLM."""
    match = _TAG.fullmatch((image or "").partition("@")[0].rpartition("/")[2])
    return match is not None and int(match[1]) >= AVAILABLE_SINCE
