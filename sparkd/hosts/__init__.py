"""A node of the configuration -> a Host: the two sockets through which everything on that node is reached."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from sparkd.hosts.host import SYSTEM, Host, Sockets
from sparkd.hosts.local import LocalHost
from sparkd.hosts.ssh import SshHost
from sparkd.model.config import Node

__all__ = ["SYSTEM", "Host", "LocalHost", "Sockets", "SshHost", "make"]


def make(
    node: Node,
    run_dir: Path,
    known_hosts: Path,
    *,
    sockets: Sockets = SYSTEM,
    changed: Callable[[], None] = lambda: None,
) -> Host:
    """`sockets` are the paths on the node itself. `changed()` is called when its connection comes or goes: look now."""
    if node.is_local:
        return LocalHost(node.name, sockets)
    return SshHost(node, run_dir, known_hosts, sockets=sockets, changed=changed)
