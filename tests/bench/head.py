"""`python -m tests.bench.head FOLDER`: sparkd as `sparkd run` runs it, with a simulated engine's processes as ranks.

The configuration is read from YAML, the worker is reached over SSH, and ranks are seen through both nodes' Docker: what a
real daemon pays for is in what is measured, and nothing else. Only the ranks themselves are the demo's.
"""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import anyio

from sparkd import hosts
from sparkd.daemon import run
from sparkd.demo.layout import deployment, load
from sparkd.demo.node import DemoNode
from sparkd.fleet import load_config
from sparkd.hosts import Host, Sockets
from sparkd.hosts.client import Probed
from sparkd.loop import supervisor
from sparkd.model.config import Deployment, Health, Node, Policy
from sparkd.model.rank import RankSpec
from sparkd.model.snapshot import Container
from sparkd.observe import NodeAccess
from sparkd.runtimes.docker import DockerRuntime
from sparkd.runtimes.shim import ShimRuntime

from .clocks import Clocks, docker_socket
from .longest import Longest
from .sshd import KNOWN_HOSTS


class Ranks(ShimRuntime):
    """Processes that are started and ended by shims, but looked at through a Docker client, as containers are."""

    def __init__(self, node: str, folder: Path, socket: Callable[[], Path]) -> None:
        super().__init__(node, folder)
        self._docker = DockerRuntime(node, socket)
        self._owners: dict[int, str] | None = None

    async def containers(self) -> tuple[Container, ...]:
        return await self._docker.containers()

    async def events(self, wake: Callable[[], None]) -> None:
        await self._docker.events(wake)

    async def owners(self) -> dict[int, str]:
        """Remembered: of a container the node service tells it at no cost, and reading records takes a thread."""
        if self._owners is None:
            self._owners = await super().owners()
        return self._owners

    async def start(self, spec: RankSpec, secrets: Mapping[str, str]) -> str:
        started = await super().start(spec, secrets)
        self._owners = None
        return started

    async def remove(self, container_id: str) -> None:
        await super().remove(container_id)
        self._owners = None

    async def aclose(self) -> None:
        await self._docker.aclose()


class FastNode(DemoNode):
    """For a loop that is a hundred times too fast: it leaves a hundred times too many closed connections in the tables of
    its node, which would be most of what is looked at."""

    async def probe(self, requests: Mapping[str, Mapping[str, Any] | None], deadline_s: float) -> Probed:
        probed = await super().probe(requests, deadline_s)
        lines = probed.texts.get("sockets", "").splitlines(keepends=True)
        kept = "".join(line for line in lines if not line.startswith("TIME_WAIT"))
        return replace(probed, texts={**probed.texts, "sockets": kept} if lines else probed.texts)


def main(folder: str) -> int:
    layout = load(Path(folder))
    signal.signal(signal.SIGUSR1, partial(_measure, Longest(), layout.folder / "steps.json"))
    clocks = Clocks.load(layout)
    node_client = DemoNode
    if clocks.gap_s is not None:
        supervisor.GAP_S, node_client = clocks.gap_s, FastNode
    config = anyio.run(load_config.load, layout.folder / "etc")

    def reach(node: Node, owner: str, wake: Callable[[], None]) -> tuple[Host, NodeAccess]:
        sockets = Sockets(docker=docker_socket(layout, node.name), service=layout.service(node.name))
        known_hosts = layout.folder / KNOWN_HOSTS
        host = hosts.make(node, layout.folder / "ssh", known_hosts, sockets=sockets, changed=wake)
        runtime = Ranks(node.name, layout.ranks(node.name), host.docker_socket)
        return host, NodeAccess(client=node_client(host, owner, runtime), docker=runtime)

    runs = _with(deployment(layout), config.cluster.policy, clocks)
    return run.serve(replace(config, deployments=(runs,)), reach)


def _measure(longest: Longest, file: Path, *_: object) -> None:
    """Begin to measure the steps of the loop, or end and tell."""
    if not longest.begun:
        longest.begin()
        return
    partly = file.with_suffix(".part")
    partly.write_text(json.dumps(longest.end()), "utf-8")
    partly.rename(file)


def _with(deployment: Deployment, policy: Policy, clocks: Clocks) -> Deployment:
    """The demo's deployment on the real clocks."""
    return replace(deployment, runtime="docker", policy=policy, health=Health(canary_after=clocks.canary_after_s))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
