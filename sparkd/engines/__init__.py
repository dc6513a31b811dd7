"""The engines sparkd can run, by the name that deployment files use. Adding one is one file and one entry."""

from __future__ import annotations

from collections.abc import Mapping

from sparkd.engines.base import Engine, MemoryNeed, PortUse, base_url
from sparkd.engines.vllm import Vllm

ENGINES: Mapping[str, Engine] = {engine.name: engine for engine in (Vllm(),)}

__all__ = ["ENGINES", "Engine", "MemoryNeed", "PortUse", "base_url"]
