"""What the daemon may know at one moment, as the real ClusterView: two nodes, one deployment, any phase."""

from __future__ import annotations

from sparkd.model.config import Deployment, Node
from sparkd.model.decision import Decision, Failure, FailureClass, Hold, Intent, Phase, Planned, State
from sparkd.model.machine import Boot, DockerUnit, Memory
from sparkd.model.outage import Outage
from sparkd.model.snapshot import Container, NodeView, Snapshot, Unknown
from sparkd.model.view import ClusterView, DaemonFacts

GIB = 2**30
NOW, WALL = 5000.0, 1_795_763_000.0
SILENT = Unknown("ssh: no answer to three keepalives", since=NOW - 361, code="timeout")
NODES = {name: Node(name=name, address=address) for name, address in (("spark1", "local"), ("spark2", "192.168.1.12"))}
DEPLOYMENT = Deployment(name="ds4-flash", engine="vllm", nodes=("spark1", "spark2"))


def node(name: str, rank: int, state: str = "running") -> NodeView:
    container = Container(
        id=f"{rank}f3c9a7712de55",
        name=f"sparkd-ds4-flash-{rank}",
        deployment="ds4-flash",
        rank=rank,
        generation=14,
        owner="o",
        spec="s",
        state=state,
        exit_code=137 if state == "exited" else None,
    )
    return NodeView(
        name=name,
        boot=Boot("b", 1, uptime_s=3600.0),
        memory=Memory(120 * GIB, 8 * GIB, 21 * GIB, 13 * GIB, 0, 0),
        system="running",
        docker=DockerUnit(True),
        containers=(container,),
        processes=(),
        sockets=(),
    )


def unread(name: str) -> NodeView:
    return NodeView(name, SILENT, SILENT, SILENT, SILENT, SILENT, SILENT, SILENT)


def view(phase: Phase, *nodes: NodeView, wanted: str = "up") -> ClusterView:
    hold = Hold(FailureClass.RESOURCE, "port:spark1:8000", "port 8000 is taken on spark1", "free it", True)
    failure = Failure(13, FailureClass.TRANSIENT, "rank-gone", "rank 1 is gone", NOW - 900, WALL - 900, outage_s=581.0)
    lost = Outage(NOW - 90, WALL - 90, 13, "rank-gone", "rank 1 is gone", "transient")
    state = State(
        phase=phase,
        since=NOW - 60,
        since_wall=WALL - 60,
        generation=14,
        hold=hold if phase is Phase.HELD else None,
        failure=failure,
        outage=None if phase is Phase.SERVE else lost,
        serving_since=NOW - 60,
        stage="weights",
        stages=(("containers", NOW - 60), ("weights", NOW - 50)),
    )
    planned = Planned(NOW + 42, "restart 2 of 5") if phase is Phase.BACKOFF else None
    return ClusterView(
        cluster="desk",
        at=NOW,
        wall=WALL,
        daemon=DaemonFacts(version="0.1.0", since_wall=WALL - 7200, loop_age_s=1.2),
        snapshot=Snapshot(at=NOW - 2, wall=WALL - 2, nodes={one.name: one for one in nodes}) if nodes else None,
        nodes=NODES,
        deployments=(DEPLOYMENT,),
        states={"ds4-flash": state},
        intents={"ds4-flash": Intent(wanted=wanted, paused=phase is Phase.PAUSED, by="milo")},
        decisions={"ds4-flash": Decision(state, (), f"it is in {phase}", "reason", planned)},
        earlier={"ds4-flash": ({"containers": 10.0, "weights": 60.0, "warmup": 20.0},)},
    )
