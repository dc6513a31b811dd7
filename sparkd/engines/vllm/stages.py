"""How far a start of vLLM has come, by the titles of its processes and the lines of its logs.

Recorded on vLLM 0.32.0 over two nodes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from sparkd.model.printed import shown

STAGES = ("process", "engine", "rendezvous", "weights", "compile", "kv-cache", "graphs", "api", "ready")

WORDS = {
    "process": "its processes start",
    "engine": "the engine core starts",
    "rendezvous": "the ranks meet",
    "weights": "loading weights",
    "compile": "compiling",
    "kv-cache": "sizing the KV cache",
    "graphs": "capturing CUDA graphs",
    "api": "starting the API",
    "ready": "warming up",
}

_WAITS = re.compile(r"^\S*::Worker(\s|$)")
_MET = re.compile(r"^\S*::Worker(_[A-Z]+\d+)+\b")

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


def meeting(titles: Sequence[str]) -> str | None:
    """A rank that waits says nothing for as long as torch lets it, 30 minutes: only its title tells (evidence 07, 15)."""
    titles = list(shown(titles))
    if any(map(_MET.match, titles)):
        return "met"
    return "waits" if any(map(_WAITS.match, titles)) else None
