"""A node of the configuration -> how the real one is reached: over SSH or here, its service, its Docker, its units."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from sparkd import hosts
from sparkd.base.errors import DockerStopped
from sparkd.daemon.links import Reach
from sparkd.hosts.client import NodeClient
from sparkd.model.config import Node
from sparkd.observe import NodeAccess
from sparkd.runtimes.docker import DockerRuntime
from sparkd.runtimes.inside import Inside
from sparkd.runtimes.throwaway import Throwaway
from sparkd.runtimes.units import UnitRuntime
from sparkd.runtimes.venvs import Venvs


def known_hosts(config_path: Path) -> Path:
    """The pinned host keys lie beside sparkd.yaml."""
    return (config_path if config_path.is_dir() else config_path.parent) / "known_hosts"


def reaching(run_dir: Path, config_path: Path) -> Reach:
    """`run_dir`: where the sockets of remote nodes are forwarded to."""

    def reach(node: Node, owner: str, wake: Callable[[], None]) -> tuple[hosts.Host, NodeAccess]:
        host = hosts.make(node, run_dir / "nodes", known_hosts(config_path), changed=wake)
        return host, _access(node, host, owner)

    return reach


def _access(node: Node, host: hosts.Host, owner: str) -> NodeAccess:
    def socket() -> Path:
        # Only a Docker that was seen running is dialled: a connection would wake one that a person stopped.
        if access.docker_runs is not True:
            raise DockerStopped(node.name, "Docker was not seen running there")
        return host.docker_socket()

    client = NodeClient(host, owner)
    access = NodeAccess(
        client=client,
        docker=DockerRuntime(node.name, socket),
        process=UnitRuntime(node.name, client),
        inside=Inside(node.name, socket),
        throwaway=Throwaway(node.name, socket),
        venvs=Venvs(node.name, client),
    )
    return access
