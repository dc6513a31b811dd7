"""vLLM, by itself or under Ray."""

from __future__ import annotations

from sparkd.node.signs import Signs

SIGNS = Signs(
    name="vllm",
    engine="vllm",
    titles=("VLLM",),
    commands=(
        ("vllm", "serve"),
        ("-m", "vllm.entrypoints.openai.api_server"),
        ("-m", "vllm.entrypoints.cli.main", "serve"),
    ),
    images=("vllm",),
    starts=r"vllm serve|vllm\.entrypoints\S*",
    about="vllm",
)
