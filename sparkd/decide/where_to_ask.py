"""Deployments, their states and the last look -> on which node an engine may be asked for its parser. Pure.

Importing an engine takes a processor for some seconds and up to 4 GB: that belongs to a start wherever one is under way
or near, so it is done while a node's deployments stand still or serve, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sparkd.model.config import Deployment
from sparkd.model.decision import Phase, State
from sparkd.model.machine import Memory
from sparkd.model.snapshot import NodeView

QUIET = frozenset({Phase.STOPPED, Phase.HELD, Phase.PAUSED, Phase.SERVE})
"""Nothing is being started, checked before a start, or taken down. A hold that heals is checked again first."""
SPARE_BYTES = 6 << 30
"""What must be available: the limit of what is asked and as much as an engine that serves may take meanwhile."""


def quiet(deployments: Iterable[Deployment], states: Mapping[str, State], nodes: Iterable[str]) -> frozenset[str]:
    """The nodes on which no deployment is between being wanted and serving."""
    busy = {
        node for one in deployments if one.name in states and states[one.name].phase not in QUIET for node in one.nodes
    }
    return frozenset(nodes) - busy


def where(deployment: Deployment, free: frozenset[str], seen: Mapping[str, NodeView]) -> str | None:
    """The node with the most memory available, of those where it does no harm; None where there is none."""
    spare = {
        node: _available(seen[node], deployment.runtime) for node in deployment.nodes if node in free and node in seen
    }
    able = [node for node, available in spare.items() if available >= SPARE_BYTES]
    return max(able, key=lambda node: spare[node], default=None)


def _available(view: NodeView, runtime: str) -> int:
    """0 for a node that cannot be asked."""
    readable = view.unread_for(runtime) is None and isinstance(view.memory, Memory)
    return view.memory.available if readable and isinstance(view.memory, Memory) else 0
