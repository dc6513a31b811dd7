"""Two nodes and the real daemon as processes of this machine: made, waited for, frozen in part, and taken away again."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import anyio

from sparkd.ctl.client import Api
from sparkd.ctl.errors import CtlError
from sparkd.demo.layout import NAME, NODES, Layout, plan
from sparkd.demo.stand import end_ranks

from .clocks import Clocks, docker_socket
from .sshd import USER_KEY, pin

HEAD, WORKER = NODES
READY_S, SERVING_S, END_S, POLL_S = 60.0, 60.0, 8.0, 0.05
PR_SET_PDEATHSIG = 1
ROOT = Path(__file__).parents[2]


class BenchError(Exception):
    """A benchmark could not be run; the text says why."""


class World:
    """A serving deployment on two nodes; the worker is reached over SSH."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.api = Api(str(layout.socket), deadline_s=30.0)
        self.children: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def pid(self) -> int:
        """Of the daemon."""
        return self.children["daemon"].pid

    def start(self, ssh_port: int) -> None:
        """Returns when it serves. Raises BenchError."""
        folder = str(self.layout.folder)
        for name in NODES:
            state = ("--config", f"{folder}/none.json", "--state-dir", str(self.layout.node(name)))
            self._spawn(f"{name} service", "sparkd.node", "--socket", str(self.layout.service(name)), *state)
            docker = (str(docker_socket(self.layout, name)), str(self.layout.ranks(name)))
            self._spawn(f"{name} docker", "tests.bench.docker", *docker)
        self._spawn("sshd", "tests.bench.sshd", folder, NODES[WORKER], str(ssh_port))
        self.until("all services listen", lambda: all(map(self._listens, NODES)), READY_S)
        self._spawn("daemon", "tests.bench.head", folder)
        self.until("the daemon answers", lambda: self._reads(WORKER), READY_S)
        self.api.post(f"/api/v1/deployments/{NAME}/start", {"message": "bench", "assume_lost": []})
        self.until("it serves", lambda: bool(self.deployment()["serving"]), SERVING_S)

    def deployment(self) -> dict[str, object]:
        found: dict[str, object] = self.api.get("/api/v1/status")["deployments"][0]
        return found

    def _listens(self, node: str) -> bool:
        return self.layout.service(node).exists() and docker_socket(self.layout, node).exists()

    def _reads(self, node: str) -> bool:
        try:
            nodes = self.api.get("/api/v1/nodes")["nodes"]
        except CtlError:
            return False
        return any(one["name"] == node and one["state"] not in ("unknown", "unreachable") for one in nodes)

    def _spawn(self, what: str, module: str, *words: str) -> None:
        with (self.layout.folder / f"{what}.log").open("wb") as output:
            self.children[what] = subprocess.Popen(
                [sys.executable, "-m", module, *words],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                preexec_fn=_end_with_parent,  # noqa: PLW1509 - this process has one thread
            )

    def until(self, what: str, look: Callable[[], bool], seconds: float) -> None:
        end = time.monotonic() + seconds
        while not look():
            ended = next((name for name, child in self.children.items() if child.poll() is not None), None)
            if ended is not None or time.monotonic() > end:
                log = self.layout.folder / f"{ended or 'daemon'}.log"
                said = log.read_text("utf-8", "replace")[-2000:] if log.exists() else ""
                raise BenchError(f"not within {seconds:.0f} s: {what}; {ended or 'the daemon'} says:\n{said}")
            time.sleep(POLL_S)

    @contextmanager
    def frozen(self, *names: str) -> Iterator[None]:
        """These processes accept connections, by their kernel queue, and answer nothing."""
        for name in names:
            os.kill(self.children[name].pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for name in names:
                os.kill(self.children[name].pid, signal.SIGCONT)

    def end(self) -> None:
        """The daemon first, which would start the ranks again; then the ranks; then the rest."""
        if "daemon" in self.children:
            _end(self.children.pop("daemon"))
        anyio.run(end_ranks, self.layout.folder)
        for child in self.children.values():
            _end(child)


def _end_with_parent() -> None:
    """In the child: a benchmark that is killed takes them along."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _end(child: subprocess.Popen[bytes]) -> None:
    child.terminate()
    try:
        child.wait(END_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


@contextmanager
def world(clocks: Clocks) -> Iterator[World]:
    """A serving one. Nothing of it is left afterwards."""
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="sparkd-bench-", dir=os.environ.get("TMPDIR") or "/tmp"))
        stack.callback(shutil.rmtree, folder)
        layout = plan(folder)
        port = _free_port(NODES[WORKER])
        pin(folder, NODES[WORKER], port)
        clocks.save(layout)
        _configure(layout, clocks, port)
        made = World(layout)
        stack.callback(made.end)
        made.start(port)
        yield made


def _free_port(address: str) -> int:
    with socket.socket() as sock:
        sock.bind((address, 0))
        port: int = sock.getsockname()[1]
        return port


def _configure(layout: Layout, clocks: Clocks, ssh_port: int) -> None:
    """Files that the daemon reads. The deployment is one for Docker, read and checked like any other; the head puts the
    demo's in its place, because no configuration can ask for a simulated engine."""
    folder = layout.folder / "etc"
    (folder / "deployments").mkdir(parents=True)
    worker = {"address": NODES[WORKER], "port": ssh_port, "key": str(layout.folder / USER_KEY)}
    cluster = {
        "cluster": "bench",
        "nodes": {
            HEAD: {"address": "local", "data_address": NODES[HEAD]},
            WORKER: {**worker, "data_address": NODES[WORKER]},
        },
        "policy": {"period": clocks.period_s, "node_deadline": clocks.node_deadline_s, **clocks.policy},
        "cleanup": {"drop_caches": False},
        "http": {"listen": layout.page},
        "paths": {"state": str(layout.folder / "state"), "run": str(layout.folder / "run")},
    }
    deployment = {
        "name": NAME,
        "engine": "vllm",
        "nodes": list(NODES),
        "image": "registry.example/vllm:1",
        "model": "demo/tiny-llm",
        "args": {"tensor-parallel-size": 2},
    }
    (folder / "sparkd.yaml").write_text(json.dumps(cluster, indent=1), "utf-8")
    (folder / "deployments" / f"{NAME}.yaml").write_text(json.dumps(deployment, indent=1), "utf-8")
