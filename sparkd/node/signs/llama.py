"""llama.cpp with its RPC servers, which sparkd does not run."""

from __future__ import annotations

from sparkd.node.signs import Signs

SIGNS = Signs(
    name="llama",
    engine="llamacpp-rpc",
    commands=(("llama-server",), ("rpc-server",), ("ggml-rpc-server",)),
    starts="llama-server|rpc-server",
    about="llama-?(?:server|cpp)|rpc-server",
    loosely="llama|rpc-server",
)
