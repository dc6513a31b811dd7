"""How far a start of vLLM has come, by the titles of its processes and the lines of its logs.

Recorded on vLLM 0.32.0 over two nodes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from sparkd.model.printed import shown

STAGES = ("process", "engine", "rendezvous", "weights", "compile", "kv-cache", "graphs", "api", "ready")

_STAGE_TITLES = (
    ("engine", re.compile(r"::EngineCore(_DP\d+)?\b")),
    # A worker has its `_TPn` only once all ranks have met; until then it waits for peers (evidence 07).
    ("rendezvous", re.compile(r"::Worker(\s|$)")),
    ("weights", re.compile(r"::Worker(_[A-Z]+\d+)+\b")),
)

_STAGE_LINES = (
    ("engine", re.compile(r"Initializing a V1 LLM engine|headless multiproc executor, with head node")),
    ("rendezvous", re.compile(r"distributed_init_method=tcp:")),
    ("weights", re.compile(r"Starting to load model|Loading safetensors checkpoint|Loading weights took")),
    # "… disabling torch.compile, CUDAGraphs …" is logged long before, with --enforce-eager.
    ("compile", re.compile(r"Dynamo bytecode transform|torch\.compile (takes|took)|Compiling a graph|Start compiling")),
    ("kv-cache", re.compile(r"KV cache size:|GiB for KV cache|Available KV cache memory")),
    ("graphs", re.compile(r"Capturing CUDA graph|Graph capturing finished")),
    ("api", re.compile(r"Starting vLLM server on|Application startup complete|Uvicorn running on")),
)


def stage(titles: Sequence[str], lines: Sequence[str], health: int | None) -> str | None:
    if health == 200:
        return "ready"
    titles, lines = list(shown(titles)), list(shown(lines))
    reached = {"process"} if titles or lines else set()
    reached |= {stage for stage, pattern in _STAGE_TITLES if any(map(pattern.search, titles))}
    reached |= {stage for stage, pattern in _STAGE_LINES if any(map(pattern.search, lines))}
    return max(reached, key=STAGES.index, default=None)
