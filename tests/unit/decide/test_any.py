"""Whatever is seen, known or not, `step` decides, decides the same again, and touches nothing that it cannot judge."""

from __future__ import annotations

from dataclasses import fields, replace
from itertools import product
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import Phase as Step
from hypothesis import strategies as st

from sparkd.model.action import (
    AskSanity,
    CaptureEvidence,
    CleanNodes,
    KillProcesses,
    RemoveRanks,
    SendCanary,
    StartRanks,
    StopRanks,
    Target,
    WarmUp,
)
from sparkd.model.check import Checked, Finding, Level, Status
from sparkd.model.config import Cleanup, as_started
from sparkd.model.decision import Failure, FailureClass, Hold, Intent, Phase, State, Watch
from sparkd.model.failure_code import FailureCode
from sparkd.model.log_finding import FindingKind, LogFinding
from sparkd.model.machine import Boot, Holders, Memory, Ping
from sparkd.model.outage import Outage
from sparkd.model.sanity import Known, Said, Sanity
from sparkd.model.snapshot import Canary, Container, EngineMetrics, EngineView, NodeView, Outcome, Snapshot, Unknown

from .world import BOOTS, DEPLOYMENT, NOW, OWNER, close_wait, container, decide, listening, node, process, stray

WHY = Unknown("unreadable", NOW - 5)
moments = st.sampled_from((None, NOW - 90_000, NOW - 700, NOW - 61, NOW - 5, NOW, NOW + 50))
generations = st.integers(0, 3)

containers = st.builds(
    container,
    st.integers(-1, 3),
    generations,
    st.sampled_from(("created", "running", "paused", "restarting", "removing", "exited", "dead", "odd")),
    owner=st.sampled_from((OWNER, OWNER, OWNER, "somebody", "")),
    exit_code=st.sampled_from((None, 0, 1, 2, 127, 137)),
    oom_killed=st.booleans(),
    deployment=st.sampled_from(("demo", "demo", "other")),
)
processes = st.builds(
    process,
    st.sampled_from(("-", "sparkd-demo-0-g1", "sparkd-demo-1-g1")),
    st.integers(500, 503),
    st.sampled_from("SDTZ"),
)
sockets = st.one_of(
    st.builds(listening, st.sampled_from((8000, 29501, 22))), st.builds(close_wait, pid=st.integers(500, 502))
)
REMOVALS = st.sampled_from(("own", "holders", "never"))
gibs = st.sampled_from((0, 20 << 30, 120 << 30))
strays = st.builds(
    stray,
    st.integers(500, 503),
    owner=st.sampled_from(("-", "a" * 64, "sparkd-demo-0-g1", "old.service")),
    ports=st.sampled_from(((), (8000,), (29501,))),
    mark=st.sampled_from((None, (OWNER, "demo", 1), (OWNER, "other", 1), ("somebody", "demo", 1))),
)
FACTS: dict[str, Any] = {
    "boot": st.builds(Boot, st.sampled_from(("spark1-boot1", "spark2-boot1", "b")), st.just(10), st.floats(0, 9000)),
    "system": st.sampled_from(("running", "stopping")),
    "containers": st.lists(containers, max_size=3, unique_by=lambda one: one.id).map(tuple),
    "processes": st.lists(processes, max_size=3).map(tuple),
    "sockets": st.lists(sockets, max_size=2).map(tuple),
    "pings": st.sampled_from(((), (Ping("x", None),), (Ping("x", 0.1),), (Ping("x", None, "no route to host"),))),
    "images": st.sampled_from(({}, {"vllm:1": None}, {"vllm:1": "sha"})),
    "paths": st.sampled_from(({}, {"/models": "missing"}, {"/models": "dir"})),
    "memory": st.builds(Memory, st.just(128 << 30), gibs, gibs, gibs, st.just(0), st.just(0)),
    "engines": st.lists(strays, max_size=2).map(tuple),
    "holders": st.one_of(
        st.none(), st.builds(Holders, st.just(()), st.lists(processes, max_size=2).map(tuple), gibs, gibs)
    ),
    "leftovers": st.lists(processes, max_size=2).map(lambda found: {"demo": tuple(found)}),
}


# Strategies are made once, here: hypothesis looks into every new one, which costs more than what it draws.
unusual = st.sets(
    st.sampled_from([field.name for field in fields(NodeView) if field.name not in ("name", "in_use")]), max_size=5
)
ANYTHING = {name: st.one_of(st.just(WHY), fact) for name, fact in FACTS.items()}


@st.composite
def nodes(draw: st.DrawFn, name: str) -> NodeView:
    """Well by default; each fact may be anything, or unknown."""
    found = {one: draw(ANYTHING[one]) if one in FACTS else WHY for one in sorted(draw(unusual))}
    return node(name, **found) if "containers" in found else node(name, *draw(FACTS["containers"]), **found)


NODES = {name: nodes(name) for name in ("spark1", "spark2", "spark3")}


metrics = st.builds(EngineMetrics, st.floats(0, 2), st.floats(0, 2), st.floats(0, 20), st.floats(0, 20), st.none())
engines = st.builds(
    EngineView,
    st.one_of(st.none(), st.just(WHY), st.sampled_from((200, 503, 404))),
    st.one_of(st.none(), st.just(WHY), metrics),
    st.sampled_from((None, "weights")),
    st.sampled_from(((), (LogFinding("it-broke", FindingKind.FAULT, 1),), (LogFinding("noise", FindingKind.HINT),))),
)
targets = st.just((Target("spark1", "sparkd-demo-0-g1", 0, 1),))
actions: Any = st.one_of(
    st.builds(CaptureEvidence, generations, targets, st.just("stop")),
    st.builds(StopRanks, targets, st.just(30.0)),
    st.builds(CleanNodes, st.just(("spark1",)), generations, st.booleans()),
    st.builds(StartRanks, st.sampled_from(((), (0,), (1,), (0, 1), (5,))), generations),
    st.builds(WarmUp, generations, st.just(60.0)),
    st.builds(SendCanary, generations, st.just(60.0)),
    st.builds(AskSanity, generations, st.just(60.0)),
)
said = st.one_of(st.none(), st.builds(Said, st.text(max_size=40), st.text(max_size=5), st.booleans()))
canaries = st.builds(Canary, generations, st.just(NOW - 60), st.just(NOW), st.booleans(), said=said)
codes = st.one_of(st.none(), st.sampled_from(FailureCode))
outcomes = st.builds(
    Outcome, actions, st.booleans(), st.just(NOW), st.text(max_size=3), codes, st.sampled_from(("", "spark1", "spark9")),
    st.one_of(st.none(), canaries),
)  # fmt: skip

findings = st.builds(
    Finding,
    code=st.sampled_from(("swap", "gpu")),
    severity=st.sampled_from(Level),
    status=st.sampled_from(Status),
    node=st.sampled_from((None, "spark1", "spark9")),
    text=st.just("t"),
    cls=st.sampled_from(FailureClass),
    not_yet=st.booleans(),
)
runs = st.builds(Checked, st.sampled_from((0.0, NOW)), st.just(0.1), st.lists(findings, max_size=2).map(tuple))
checked: st.SearchStrategy[dict[str, Checked]] = st.one_of(st.just({}), runs.map(lambda one: {"demo": one}))


cleanups = st.builds(Cleanup, drop_caches=st.booleans(), swapoff=st.booleans(), remove_strays=REMOVALS)
there = st.sets(st.sampled_from(tuple(NODES)), min_size=1)
engine_or_none, outcome_or_none = st.one_of(st.none(), engines), st.one_of(st.none(), outcomes)


@st.composite
def any_snapshot(draw: st.DrawFn) -> Snapshot:
    views = {name: draw(NODES[name]) for name in sorted(draw(there) | {"spark1"})}
    engine, outcome = draw(engine_or_none), draw(outcome_or_none)
    answers, ends = {"demo": engine} if engine else {}, {"demo": outcome} if outcome else {}
    return Snapshot(NOW, 1.7e9, views, OWNER, answers, ends, checks=draw(checked), cleanup=draw(cleanups))


snapshots = any_snapshot()


FACT_NAMES = (
    "budget",
    "budget:12",
    "image:spark2:vllm:1",
    "check:spark1:swap",
    "mount:spark9:/x",
    "port:spark1:8000",
    "name:x",
    "exit:127",
    "gone:",
    "odd",
    "",
)
holds = st.builds(
    Hold, st.sampled_from(FailureClass), st.sampled_from(FACT_NAMES), st.just("t"), st.just("f"), st.booleans()
)
failures = st.builds(
    Failure,
    generations,
    st.sampled_from(FailureClass),
    st.sampled_from(("exit-127", "x")),
    st.just("t"),
    st.just(NOW),
    st.just(0.0),
)
outages = st.builds(
    Outage,
    began=st.sampled_from((NOW - 900, NOW - 100)),
    began_wall=st.just(1.7e9),
    generation=generations,
    code=st.sampled_from(("exit-127", "operator", "unread", "not-answering")),
    text=st.just("t"),
    unread_since=st.sampled_from((None, NOW - 100)),
)
watches = st.builds(
    Watch,
    tokens=st.one_of(st.none(), st.floats(0, 40)),
    tokens_at=moments,
    canary_at=moments,
    canary_failing_since=moments,
    canary_failures=st.integers(0, 3),
    unsent=st.sampled_from(("", "no canary can be sent: no such file")),
    blind=st.booleans(),
    gap_until=moments,
    late_until=moments,
    dead_since=moments,
    exception_since=moments,
    silent_since=moments,
)
sanities = st.builds(
    Sanity, generations, moments, st.integers(0, 3), moments, known=st.sampled_from((None, Known("Paris", 1.7e9, 1)))
)
states = st.builds(
    State,
    phase=st.sampled_from(Phase),
    since=st.just(NOW - 400),
    generation=generations,
    cause=st.none(),
    hold=st.one_of(st.none(), holds),
    failure=st.one_of(st.none(), failures),
    failures=st.sampled_from((0, 1, 5, 5000)),
    starts=st.lists(st.floats(0, NOW), max_size=8).map(tuple),
    retry_at=moments,
    resource_tries=st.integers(0, 9),
    started_at=moments,
    serving_since=moments,
    outage=st.one_of(st.none(), outages),
    last_outage=st.one_of(st.none(), outages.map(lambda one: replace(one, ended=one.began + 1))),
    boots=st.sampled_from(((), BOOTS, (("spark3", "x:1"),), (("spark9", "x:1"),))),
    ranks_started=st.sampled_from(((), (0,), (1,), (0, 1), (7,))),
    captured=generations,
    cleaned=generations,
    before=st.one_of(st.none(), st.sampled_from(Phase)),
    reason=st.sampled_from(("", "port-wait")),
    watch=watches,
    sanity=sanities,
    digest=st.sampled_from(("", "d1", "d0")),
    started=st.sampled_from((None, DEPLOYMENT, replace(DEPLOYMENT, nodes=("spark3", "spark1"), digest="d0"))),
    images=st.sampled_from(((), (("spark1", "sha256:1"),), (("spark9", "sha256:0"),))),
)
intents = st.builds(
    Intent,
    st.sampled_from(("up", "stopped", "odd")),
    st.booleans(),
    st.integers(0, 1),
    st.integers(0, 1),
    st.sets(st.sampled_from(("spark1", "spark2", "spark9"))).map(frozenset),
)
CHANGES = (StopRanks, RemoveRanks, KillProcesses, CleanNodes, StartRanks)


AS_EVER = settings(
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
    phases=(Step.explicit, Step.generate, Step.shrink),  # `explain` traces every line: very slow
)


def three(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.tuples(values, values, values)


@pytest.mark.slow
@settings(AS_EVER, max_examples=400)
@given(three(states), three(snapshots), three(intents))
def test_step_is_total_deterministic_and_careful(before: Any, look: Any, intent: Any) -> None:
    """Each of three states with each of three snapshots and each of three wishes: to make them up takes the time."""
    for case in product(before, look, intent):
        check_step(*case)


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@settings(AS_EVER, max_examples=5000)
@given(three(states), three(snapshots), three(intents))
def test_step_is_total_deterministic_and_careful_for_longer(before: Any, look: Any, intent: Any) -> None:
    for case in product(before, look, intent):
        check_step(*case)


def check_step(before: State, look: Snapshot, intent: Intent) -> None:
    decision = decide(before, look, intent)
    assert decision == decide(before, look, intent)
    assert (decision.state.sentence, decision.state.reason) == (decision.sentence, decision.reason)
    assert decision.state.generation >= before.generation
    assert decision.sentence
    assert not (intent.paused and decision.actions), "acted while paused"
    check_outages(before, decision.state)
    group = as_started(decision.state.started, DEPLOYMENT).nodes
    for action in decision.actions:
        assert not touched(action, group) & unread(look), "acted on a node that is unread"
        if isinstance(action, CHANGES):
            assert not (unread(look) & {*group}) - intent.lost, "acted while a node of the group is unread"
        if isinstance(action, StopRanks | RemoveRanks | CaptureEvidence):
            assert {one.container for one in action.targets} <= ours(look), "acted on what is not ours"
        if isinstance(action, StartRanks):
            assert intent.wanted != "stopped", "started what nobody wants"


def check_outages(before: State, after: State) -> None:
    """One begins and ends within what is known; what was recorded is never changed but by the next that ends."""
    outage, last = after.outage, after.last_outage
    if outage is not None:
        assert outage.began <= NOW
        assert outage.unread_since is None or outage.began <= outage.unread_since <= NOW
    if last != before.last_outage:
        assert (outage, before.failure is None or after.failure is not None) == (None, True)
        assert last is not None
        assert last.ended is not None
        assert last.began <= last.ended <= NOW
        assert 0 <= last.unread_s <= last.ended - last.began
        assert after.phase is Phase.STOPPED or last.answered == after.generation


def unread(look: Snapshot) -> set[str]:
    return {
        name for name in ("spark1", "spark2", "spark3") if name not in look.nodes or look.nodes[name].unread is not None
    }


def ours(look: Snapshot) -> set[str]:
    listed: list[tuple[Container, ...]] = [
        view.containers for view in look.nodes.values() if not isinstance(view.containers, Unknown)
    ]
    return {one.id for found in listed for one in found if (one.owner, one.deployment) == (OWNER, "demo")}


def touched(action: Any, group: tuple[str, ...]) -> set[str]:
    match action:
        case StopRanks() | RemoveRanks() | CaptureEvidence() | KillProcesses():
            return {one.node for one in action.targets}
        case CleanNodes():
            return set(action.nodes)
        case StartRanks():
            return {group[rank] for rank in action.ranks}
        case SendCanary():
            return set()  # it goes to the engine, not to its node
        case _:
            return {group[0]}


def test_a_chain_of_decisions_on_one_snapshot_ends() -> None:
    """The daemon decides again while only the phase changed: no two phases may send each other to and fro."""
    for phase in Phase:
        for hold in FACT_NAMES:
            before = State(
                phase=phase, generation=1, boots=BOOTS, hold=Hold(FailureClass.PERMANENT, hold, "t", "f", True)
            )
            views = {name: node(name) for name in ("spark1", "spark2")}
            look = Snapshot(NOW, 0.0, views, OWNER, checks={"demo": Checked(NOW, 0.1, ())})
            seen = [before.phase]
            for _ in range(8):
                decision = decide(before, look)
                if decision.actions or decision.state.phase is before.phase:
                    break
                before = replace(decision.state)
                seen.append(before.phase)
            assert len(seen) <= 6, seen
