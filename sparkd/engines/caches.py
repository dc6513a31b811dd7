"""A deployment's mounts -> folders on its nodes that hold nothing but compiled kernels and graphs.

Engines make them anew when they are missing. A stale or half-written one makes engines fail or hang. Where some ranks
have one and others have none, the others are late. Model weights are no cache, whatever folder they are in.
"""

from __future__ import annotations

import re

from sparkd.model.config import Deployment

_COMPILED = ("vllm", "flashinfer", "torch", "triton", "tilelang", "deep_gemm", "torch_extensions")
_IN_CACHE = re.compile(rf"/(.*/)?\.cache/({'|'.join(_COMPILED)})(/.*)?")
_OF_ITS_OWN = re.compile(r"/(.*/)?(\.(triton|tilelang|deep_gemm)|\.nv/ComputeCache|torchinductor_[\w.-]+)(/.*)?")
_WHOLE = re.compile(r"/(.*/)?\.cache")
"""Mounted as a whole it also holds Hugging Face's models, so only known folders of it count."""


def folders(deployment: Deployment) -> tuple[str, ...]:
    """Paths on the node, by what the rank sees them as. Read-only mounts hold no cache."""
    found: dict[str, None] = {}
    for mount in deployment.container.mounts:
        if mount.read_only:
            continue
        if _WHOLE.fullmatch(mount.target):
            found.update((f"{mount.source.rstrip('/')}/{name}", None) for name in _COMPILED)
        elif _IN_CACHE.fullmatch(mount.target) or _OF_ITS_OWN.fullmatch(mount.target):
            found[mount.source.rstrip("/")] = None
    return tuple(found)
