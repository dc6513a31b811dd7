"""TensorRT-LLM, which sparkd does not run."""

from __future__ import annotations

from sparkd.node.signs import Signs

SIGNS = Signs(name="trtllm", starts="trtllm-serve", about="trt-?llm")
