"""The variables that mean something to vLLM."""

from __future__ import annotations

from sparkd.engines.base import Broken, Variables

METHOD = "VLLM_WORKER_MULTIPROC_METHOD"

VARIABLES = Variables(
    own="VLLM_",
    key="VLLM_API_KEY",
    address="VLLM_HOST_IP",
    caches=("VLLM_CACHE_ROOT",),
    secret_flags={"api-key": "VLLM_API_KEY", "hf-token": "HF_TOKEN"},
    broken=(
        Broken(
            name=METHOD,
            value="fork",
            instead="spawn",
            why="forked workers lose the shared ring buffer and crash (vllm#24580)",
        ),
    ),
)
