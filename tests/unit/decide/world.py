"""A healthy cluster of two nodes in one snapshot, and the few words that break it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from sparkd.decide.machine import step
from sparkd.model.action import Action, SendCanary
from sparkd.model.check import Checked
from sparkd.model.config import ContainerSpec, Deployment, Mount, Policy
from sparkd.model.decision import Cause, Decision, Intent, Phase, State, Watch
from sparkd.model.failure_code import FailureCode
from sparkd.model.log_finding import FindingKind, LogFinding
from sparkd.model.machine import Boot, DockerUnit, EngineProcess, Memory, Ping, Process, Socket
from sparkd.model.outage import Outage
from sparkd.model.sanity import Sanity
from sparkd.model.snapshot import Canary, Container, EngineMetrics, EngineView, NodeView, Outcome, Snapshot, Unknown

NOW = 100_000.0
OWNER = "us"
POLICY = Policy()
UP, STOPPED = Intent(wanted="up"), Intent(wanted="stopped", by="milo", message="nightly")
PAUSED = Intent(wanted="up", paused=True)
DEPLOYMENT = Deployment(
    name="demo",
    engine="vllm",
    nodes=("spark1", "spark2"),
    image="vllm:1",
    container=ContainerSpec(mounts=(Mount(source="/models", target="/models"),)),
    digest="d1",
)
AWAY = Unknown("unreachable", NOW - 70, "unreachable")


def container(rank: int, generation: int = 1, state: str = "running", **more: Any) -> Container:
    name = f"sparkd-demo-{rank}"
    base = Container(f"{name}-g{generation}", name, "demo", rank, generation, OWNER, "spec", state)
    return replace(base, **more)


def ended(rank: int, code: int = 137, generation: int = 1, **more: Any) -> Container:
    return container(rank, generation, "exited", exit_code=code, **more)


def process(owner: Container | str, pid: int = 500, state: str = "S", title: str = "VLLM::Worker") -> Process:
    return Process(pid, 1, pid * 10, state, 1 << 30, owner if isinstance(owner, str) else owner.id, title)


def stray(pid: int = 500, title: str = "VLLM::Worker", **more: Any) -> EngineProcess:
    base = EngineProcess(pid, 1, pid * 10, "S", 1 << 30, "-", 600.0, (), None, title)
    return replace(base, **more)


def listening(port: int, pid: int | None = 99) -> Socket:
    return Socket("LISTEN", "0.0.0.0", port, "0.0.0.0", 0, 0, 0, 1, pid)


def close_wait(port: int = 29501, pid: int | None = 500) -> Socket:
    return Socket("CLOSE_WAIT", "10.0.0.2", 40000, "10.0.0.1", port, 0, 0, 2, pid)


def node(name: str, *containers: Container, **facts: Any) -> NodeView:
    """A node on which everything is well and everything was asked."""
    base = NodeView(
        name=name,
        boot=Boot(f"{name}-boot1", 10, 86400.0),
        memory=Memory(128 << 30, 118 << 30, 120 << 30, 2 << 30, 0, 0),
        system="running",
        docker=DockerUnit(running=True, pid=1),
        containers=containers,
        processes=tuple(process(one, 500 + one.rank) for one in containers if one.state == "running"),
        sockets=(),
        pings=(Ping("10.0.0.9", 0.1),),
        images={"vllm:1": "sha256:1"},
        paths={"/models": "dir"},
        leftovers={"demo": ()},
    )
    return replace(base, **facts)


def away(name: str, why: Unknown = AWAY) -> NodeView:
    return NodeView(name, *[why] * 12)


def young(name: str, *containers: Container, **facts: Any) -> NodeView:
    return node(name, *containers, boot=Boot(f"{name}-boot2", 0, 30.0), **facts)


HEALTHY = EngineView(health=200, metrics=EngineMetrics(0.0, 0.0, 10.0, 10.0, 0.0))


def seen(*nodes: NodeView, engine: EngineView | None = None, outcome: Outcome | None = None) -> Snapshot:
    """One look; nodes that are not given are well and empty."""
    views = {name: node(name) for name in DEPLOYMENT.nodes} | {one.name: one for one in nodes}
    engines = {"demo": engine} if engine is not None else {}
    outcomes = {"demo": outcome} if outcome is not None else {}
    return Snapshot(NOW, 1.7e9, views, OWNER, engines, outcomes, checks={"demo": Checked(NOW, 0.1, ())})


def both(engine: EngineView | None = HEALTHY, outcome: Outcome | None = None, **head: Any) -> Snapshot:
    """Both ranks of generation 1 run. `head` are facts of spark1."""
    return seen(node("spark1", container(0), **head), node("spark2", container(1)), engine=engine, outcome=outcome)


ASKED = Sanity(generation=1, asked_at=NOW - 300, wall=1.7e9 - 300)
"""The fixed question is not due for most of an hour."""
BOOTS = (("spark1", "spark1-boot1:10"), ("spark2", "spark2-boot1:10"))


def state(phase: Phase, **more: Any) -> State:
    """A state in which generation 1 was begun ten minutes ago."""
    base = State(
        phase=phase,
        since=NOW - 600,
        generation=1,
        cause=Cause.OPERATOR,
        started_at=NOW - 600,
        boots=BOOTS,
        digest="d1",
        captured=1,
        highest=1,
        sanity=replace(ASKED, generation=more.get("generation", 1)),
    )
    return replace(base, **more)


def serving(watch: Watch | None = None, **more: Any) -> State:
    recent = Watch(tokens=20.0, tokens_at=NOW - 5, canary_at=NOW - 30)
    known: dict[str, Any] = {"serving_since": NOW - 500, "ranks_started": (0, 1), "warm_digest": "d1"}
    return state(Phase.SERVE, watch=watch or recent, **known | more)


def down(since: float, **more: Any) -> Outage:
    """An outage that goes on, of generation 1."""
    return replace(Outage(since, 1.7e9 - (NOW - since), 1, "exit-137", "rank 1 on spark2 was killed"), **more)


def began(decision: Decision) -> float | None:
    """When the outage that goes on after this decision began."""
    return decision.state.outage.began if decision.state.outage is not None else None


WORKERS, HEAD, WARMUP = state(Phase.START_WORKERS), state(Phase.START_HEAD), state(Phase.WARMUP)
LOADING = EngineView(health=None, stage="weights")

Look = Callable[[float], Snapshot]
CANARY = SendCanary(1, 60.0)
LOST, SENT = Ping("10.0.0.2", None), Ping("10.0.0.2", 0.2)
DEAD, REFUSED, LATE = EngineView(health=503), EngineView(health=None), EngineView(health=Unknown("late", NOW))
EXCEPTION = replace(HEALTHY, log_findings=(LogFinding("worker-exception", FindingKind.FAULT, 1),))
BUSY = replace(HEALTHY, metrics=EngineMetrics(1.0, 4.0, 10.0, 10.0, 0.0))


def moving(at: float, **more: Any) -> EngineView:
    return replace(HEALTHY, metrics=EngineMetrics(1.0, 0.0, 10.0, 10.0 + at, 0.1), **more)


def stuck(state: str = "T", rank: int = 1, pid: int = 501, engine: EngineView = HEALTHY) -> Snapshot:
    ranks = (container(0), container(1))
    facts = {"processes": (process(ranks[rank], pid, state),)}
    head, worker = (facts, {}) if rank == 0 else ({}, facts)
    return seen(node("spark1", ranks[0], **head), node("spark2", ranks[1], **worker), engine=engine)


def silent(engine: EngineView = HEALTHY, ping: Ping = LOST) -> Snapshot:
    return both(engine, pings=(ping,))


def never(at: float) -> bool:
    return False


def decide(
    before: State,
    snapshot: Snapshot,
    intent: Intent = UP,
    *,
    now: float = NOW,
    policy: Policy = POLICY,
    deployment: Deployment = DEPLOYMENT,
) -> Decision:
    return step(deployment, before, snapshot, intent, policy, now)


def kinds(decision: Decision) -> list[str]:
    return [type(action).__name__ for action in decision.actions]


def failed(
    action: Action,
    code: FailureCode = FailureCode.TIMEOUT,
    where: str = "spark2",
    error: str = "it did not work",
) -> Outcome:
    return Outcome(action, False, NOW, error, code, where)


def answer(action: Action, *, ok: bool, generation: int = 1, sent_at: float = NOW - 2, why: str = "") -> Outcome:
    return Outcome(action, True, NOW, value=Canary(generation, sent_at, NOW, ok, why))


def play(
    before: State,
    look: Callable[[float], Snapshot],
    seconds: float,
    *,
    intent: Intent = UP,
    canary: Callable[[float], bool | None] = lambda at: True,
) -> tuple[float, Decision]:
    """Decide every 5 s until the phase changes; returns (seconds passed, last decision).

    Canaries that are sent are answered at once, fail after 60 s, or (None) end when the phase does.
    """
    at, ends, now = before, None, NOW
    decision = decide(at, look(0.0), intent)
    while now - NOW <= seconds:
        snapshot = replace(look(now - NOW), at=now)
        if ends is not None and now >= ends[0]:
            outcome = Outcome(ends[1], True, now, value=Canary(1, ends[2], now, ends[3]))
            snapshot, ends = replace(snapshot, outcomes={"demo": outcome}), None
        decision = decide(at, snapshot, intent, now=now)
        at = decision.state
        if at.phase is not before.phase:
            break
        if decision.actions and ends is None:
            ok = canary(now - NOW)
            if ok is not None:
                ends = (now + (0.0 if ok else 60.0), decision.actions[0], now, ok)
        now += 5.0
    return now - NOW, decision
