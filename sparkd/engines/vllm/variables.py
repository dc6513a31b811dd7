"""The variables that mean something to vLLM."""

from __future__ import annotations

from sparkd.engines.base import Broken, Patience, Variables

METHOD = "VLLM_WORKER_MULTIPROC_METHOD"

VARIABLES = Variables(
    own="VLLM_",
    key="VLLM_API_KEY",
    address="VLLM_HOST_IP",
    caches=("VLLM_CACHE_ROOT",),
    # vllm/envs.py of 0.32; the server waits so long for its engine core, whose weights are loaded meanwhile.
    patience=Patience(name="VLLM_ENGINE_READY_TIMEOUT_S", default_s=600),
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
