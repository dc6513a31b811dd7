"""One demo as values: where its files are, its ports, and the configuration of its daemon."""

from __future__ import annotations

import json
import os
import socket
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from sparkd.demo.errors import DemoError
from sparkd.model.config import (
    Backoff,
    Budget,
    Cleanup,
    Cluster,
    ContainerSpec,
    Deployment,
    Health,
    Http,
    LogLimit,
    Node,
    Paths,
    Policy,
    Start,
    Stop,
    Warmup,
)

NAME = "demo"
"""Of the cluster and of its one deployment."""
NODES = {"spark1": "127.0.0.1", "spark2": "127.0.0.2"}
"""Both are this machine: a loopback address of its own is a node's place on the fabric."""
ENGINE = Path(__file__).parent / "engine" / "vllm"
MODEL = "demo/tiny-llm"
DEFAULT_PORT = 9477
"""sparkd's own; used where it is free, so that the page is where the README says."""
MAX_TEMPORARY = 60
"""A Unix socket's path has room for 107 bytes."""


@dataclass(frozen=True, slots=True)
class Layout:
    """`page` is HOST:PORT of the daemon's listener. Everything else that the demo makes is in `folder`."""

    folder: Path
    api_port: int
    master_port: int
    page: str

    @property
    def socket(self) -> Path:
        return self.folder / "run" / "sparkd.sock"

    @property
    def faults(self) -> Path:
        """The simulated engine's control file; it is there only while something is wrong."""
        return self.folder / "faults.json"

    @property
    def victims(self) -> Path:
        """Ids of ranks, one a line, whose death is to look like one for lack of memory."""
        return self.folder / "oom"

    @property
    def edited(self) -> Path:
        """It is there while the deployment's file is another one than at first."""
        return self.folder / "edited"

    @property
    def log(self) -> Path:
        return self.folder / "sparkd.log"

    @property
    def engine_url(self) -> str:
        return f"http://127.0.0.1:{self.api_port}"

    def node(self, name: str) -> Path:
        return self.folder / name

    def ranks(self, name: str) -> Path:
        return self.node(name) / "ranks"

    def service(self, name: str) -> Path:
        return self.node(name) / "node.sock"

    def save(self) -> None:
        (self.folder / "demo.json").write_text(json.dumps({**asdict(self), "folder": str(self.folder)}), "utf-8")


def plan(folder: Path) -> Layout:
    """Makes what the demo's parts expect to be there, with ports that are free now."""
    api, master, page = _free_ports()
    layout = Layout(folder, api, master, f"127.0.0.1:{page}")
    for name in NODES:
        layout.node(name).mkdir()
    (folder / "shm").mkdir()
    layout.save()
    return layout


def load(folder: Path) -> Layout:
    """Raises OSError or ValueError when there is no demo in `folder`."""
    values = json.loads((folder / "demo.json").read_text("utf-8"))
    return Layout(**{**values, "folder": Path(values["folder"])})


def _free_ports() -> tuple[int, int, int]:
    """All held at once, so that they differ."""
    with socket.socket() as one, socket.socket() as two, socket.socket() as three:
        for sock in (one, two):
            sock.bind(("0.0.0.0", 0))
        three.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            three.bind(("127.0.0.1", DEFAULT_PORT))
        except OSError:
            three.bind(("127.0.0.1", 0))
        return one.getsockname()[1], two.getsockname()[1], three.getsockname()[1]


# ------------------------------------------------------------------------------------------------------ configuration

POLICY = Policy(
    period=1.0,
    budget=Budget(starts=60, per=3600.0, per_day=500),
    backoff=Backoff(first=1.0, max=4.0, jitter=0.0, reset_after=15.0),
    dead_after=3.0,
    stuck_after=4.0,
    silent_after=4.0,
    suspect_after=4.0,
    stalled_after=8.0,
    busy_after=60.0,
    not_yet=0.0,
    notice_after=10.0,
    hold_recheck=3.0,
    resource_retries=(2.0, 4.0, 8.0),
    canary_timeout=3.0,
    sanity_every=6.0,
    node_deadline=3.0,
)
"""The real rules with short clocks: nobody watches a demo for the ten minutes that an engine may be silent."""


CHECKS = dict.fromkeys(("model", "link", "ghost-path", "exit-loop", "second-supervisor"), "off")
"""What a demo has nothing of: weights, cables, and the units and containers of a machine that is made for engines."""


def cluster(layout: Layout) -> Cluster:
    nodes = {
        name: Node(name=name, address="local" if name == "spark1" else address, data_address=address)
        for name, address in NODES.items()
    }
    return Cluster(
        cluster=NAME,
        nodes=nodes,
        policy=POLICY,
        checks=CHECKS,
        cleanup=Cleanup(drop_caches=False),
        http=Http(listen=layout.page),
        paths=Paths(state=str(layout.folder / "state"), run=str(layout.folder / "run")),
    )


def deployment(layout: Layout) -> Deployment:
    """What a deployment file would say. SPARKD_NODE tells the ranks of the two nodes apart, for both are one machine;
    SPT_NOENV keeps the environment readable by which processes are found."""
    edit = {"max-num-seqs": 64} if layout.edited.exists() else {}
    return Deployment(
        name=NAME,
        engine="vllm",
        runtime="process",
        hardware="cpu",
        nodes=tuple(NODES),
        command=(sys.executable, "-S", str(ENGINE), "serve"),
        model=MODEL,
        served_name="tiny-llm",
        port=layout.api_port,
        master_port=layout.master_port,
        # A demo opens nothing to the network.
        args={"host": "127.0.0.1", "tensor-parallel-size": 2, "max-model-len": 4096, **edit},
        env={
            "SPT_NOENV": "1",
            "SPARKD_SIM_START_S": "2",
            "SPARKD_SIM_STOP_S": "0.5",
            "SPARKD_SIM_RATE": "60",
            "SPARKD_SIM_SHM_DIR": str(layout.folder / "shm"),
            "SPARKD_SIM_FAULTS": str(layout.faults),
        },
        node_env={name: {"SPARKD_NODE": name} for name in NODES},
        container=ContainerSpec(log=LogLimit(max_size="1m", max_file=2)),
        start=Start(timeout=60.0, warm_timeout=60.0),
        stop=Stop(grace=3.0),
        warmup=Warmup(max_tokens=8),
        health=Health(canary_after=4.0),
        memory={"gate": "off"},  # its ranks need no memory, whatever machine shows them
        policy=POLICY,
        file="(the demo's own)",
        digest=f"{NAME} {edit}",
    )


def temporary() -> Path:
    """Where demos live: TMPDIR, else /tmp. Raises DemoError."""
    folder = Path(os.environ.get("TMPDIR") or "/tmp").absolute()
    if len(str(folder)) > MAX_TEMPORARY:
        raise DemoError(f"{folder} is too long a path for sockets", "set TMPDIR to a shorter one: TMPDIR=/tmp")
    return folder
