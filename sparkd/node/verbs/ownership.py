"""Who serves here, and whose node is it: the two verbs that need no owner."""

from __future__ import annotations

from typing import Any, Mapping

from sparkd import __version__
from sparkd.node import arguments
from sparkd.node.node import Node
from sparkd.node.protocol import PROTOCOLS


def hello(node: Node, owner: str, args: Mapping[str, Any], deadline_s: float) -> Mapping[str, Any]:
    return {
        "service": __version__,
        "protocols": list(PROTOCOLS),
        "owner": node.owner.owner,
        "boot_id": node.boot.boot_id,
        "pid1_ticks": node.boot.pid1_ticks,
        "hostname": node.hostname,
        "config_problem": node.config.problem,
    }


def claim(node: Node, owner: str, args: Mapping[str, Any], deadline_s: float) -> Mapping[str, Any]:
    previous = node.owner.claim(owner, take=arguments.flag(args, "take"))
    return {"owner": owner, "previous": previous}
