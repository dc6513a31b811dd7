"""The engines sparkd can run, by the name that deployment files use.

An engine is a folder here whose package holds its `ENGINE`, and is found by listing them; the modules beside the folders
belong to all engines. How its processes look on a node is said in one file of `sparkd/node/signs`, since a node has no more
of sparkd than the node service.
"""

from __future__ import annotations

from collections.abc import Mapping

from sparkd.base import listed
from sparkd.engines.base import Engine, MemoryNeed, PortUse, base_url

_FOUND: list[Engine] = listed.each(__name__, __path__, "ENGINE", lambda engine: engine.name, packages=True)
ENGINES: Mapping[str, Engine] = {engine.name: engine for engine in _FOUND}

FIRST = "vllm"
"""What is meant where nothing else is said, and what people are told to write."""


def like(name: str) -> Engine:
    """The engine of this name. One that sparkd does not run, in a script that is compared, is read as the first one is."""
    return ENGINES.get(name, ENGINES[FIRST])


__all__ = ["ENGINES", "FIRST", "Engine", "MemoryNeed", "PortUse", "base_url", "like"]
