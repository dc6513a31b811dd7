"""One look at 64 nodes, a quarter of them mute, beside one at two nodes: the daemon's own observer, clients and parsers."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import anyio

from sparkd.hosts import LocalHost, Sockets
from sparkd.hosts.client import NodeClient
from sparkd.model.config import Cluster, Deployment, Node, Policy
from sparkd.model.decision import Phase, State
from sparkd.observe import NodeAccess, Observer
from sparkd.runtimes.docker import DockerRuntime

from .bench import Bench
from .table import Row
from .world import POLL_S, READY_S, ROOT, BenchError

NODES, ALLOWED = 64, 1.5
OWNER = "11111111-1111-4111-8111-111111111111"
MUTE = range(1, NODES, 4)
"""A quarter, and the second node of the two."""


@dataclass(frozen=True, slots=True)
class Took:
    wall_s: float
    cpu_s: float


def many(bench: Bench) -> Iterator[Row]:
    """Both with mute nodes, then both without: where a node is mute a look takes as long as the node deadline."""
    found = {}
    for mute in (MUTE, range(0)):
        with _crowd(mute) as folder:
            for count in (2, NODES):
                key = (count, bool(mute))
                found[key] = anyio.run(_looks, folder, count, bench.scale.node_deadline_s, bench.scale.looks)
    few, crowd = _wall(found[2, True]), _wall(found[NODES, True])
    yield Row(
        benchmark="many",
        what="look at 64, 16 mute / at 2, 1 mute",
        value=crowd / few,
        limit=ALLOWED,
        note=f"{crowd:.2f} s beside {few:.2f} s at a node deadline of {bench.scale.node_deadline_s:g} s",
    )
    few, crowd = _wall(found[2, False]), _wall(found[NODES, False])
    cpu = median(took.cpu_s for took in found[NODES, True])
    yield Row(
        benchmark="many",
        what="look at 64 / at 2, none mute",
        value=crowd / few,
        note=f"{1000 * crowd:.0f} ms beside {1000 * few:.1f} ms; with 16 mute {1000 * cpu:.0f} ms of CPU in a look",
    )


def _wall(looks: Sequence[Took]) -> float:
    return median(took.wall_s for took in looks)


@contextmanager
def _crowd(mute: Sequence[int]) -> Iterator[Path]:
    """The folder with the sockets of 64 answering nodes but for the mute ones."""
    with tempfile.TemporaryDirectory(prefix="sparkd-bench-") as made:
        folder = Path(made)
        (folder / "mute").write_text("\n".join(map(str, mute)), "utf-8")
        argv = [sys.executable, "-m", "tests.bench.crowd", made, str(NODES)]
        child = subprocess.Popen(argv, cwd=ROOT, stdin=subprocess.DEVNULL)
        try:
            end = time.monotonic() + READY_S
            while not (folder / "ready").exists():
                if time.monotonic() > end or child.poll() is not None:
                    raise BenchError("the simulated nodes do not listen")
                time.sleep(POLL_S)
            yield folder
        finally:
            child.send_signal(signal.SIGKILL)
            child.wait()


async def _looks(folder: Path, count: int, node_deadline_s: float, looks: int) -> list[Took]:
    """The first look, which greets and dials, is not counted."""
    names = [f"n{number}" for number in range(count)]
    access = {name: _access(name, folder / name[1:]) for name in names}
    nodes = {name: Node(name=name, address=name, data_address=f"10.0.0.{name[1:]}") for name in names}
    cluster = Cluster(cluster="bench", nodes=nodes, policy=Policy(node_deadline=node_deadline_s))
    pairs = [(names[at], names[at + 1]) for at in range(0, count, 2)]
    deployments = [Deployment(name=f"d{pair[0]}", engine="vllm", nodes=pair) for pair in pairs]
    states = {one.name: State(phase=Phase.SERVE, generation=1) for one in deployments}
    observer, took = Observer(cluster, access, OWNER), []
    for _ in range(1 + looks):
        wall_s, cpu_s = time.monotonic(), time.process_time()
        await observer.look(deployments, states)
        took.append(Took(time.monotonic() - wall_s, time.process_time() - cpu_s))
    for one in access.values():
        await one.docker.aclose()
        await one.client.aclose()
    return took[1:]


def _access(name: str, path: Path) -> NodeAccess:
    sockets = Sockets(docker=path.with_name(f"{path.name}-docker.sock"), service=path.with_name(f"{path.name}.sock"))
    host = LocalHost(name, sockets)
    return NodeAccess(client=NodeClient(host, OWNER), docker=DockerRuntime(name, host.docker_socket))
