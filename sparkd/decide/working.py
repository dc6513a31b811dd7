"""Busy without tokens: since when no request is answered although a node works, and what a node draws while its ranks wait."""

from __future__ import annotations

from dataclasses import replace

from sparkd.decide.busyness import NEAR, Busy, Node, Sign, of_node, together
from sparkd.decide.case import Case, duration
from sparkd.model.decision import Planned, State, Watch
from sparkd.model.effort import GpuLoad
from sparkd.model.snapshot import EngineMetrics, Unknown

IDLE_S = 20.0
"""For so long no token has moved and no canary ended before a node is taken to draw what it draws while its ranks wait."""
SAME = 0.02
"""A figure within this share of the one that is known teaches nothing: states are written to the disk when they change."""
UPWARDS = 0.1
"""Of the difference, for a higher figure: what a warm card draws more."""

Told = tuple[tuple[str, str], ...]

SAID = {
    Busy.WORKING: "busy without tokens (a long prefill or a compile does that)",
    Busy.SPINNING: "its GPUs run and only wait, as in a collective whose peer is gone",
    Busy.IDLE: "no node works",
    Busy.UNKNOWN: "whether a node works cannot be told",
}


# ---------------------------------------------------------------------------------------------------------- the clock


def followed(case: Case, watch: Watch) -> Watch:
    """After this look. One look that shows work is not enough: a burst of something else is over by the next one.

    Nodes are not all asked in the same look: what each of them was last seen to do is kept.
    """
    if not watch.suspicious:
        return replace(watch, busy="", busy_said="", busy_nodes=(), worked_at=None)
    before = {name: Sign(Busy(says), words) for name, says, words in watch.busy_nodes if says in list(Busy)}
    seen = {**_asked(case), **{name: Sign(Busy.UNKNOWN) for name in before.keys() & case.group.unread.keys()}}
    if not seen:
        return watch
    works = {name for name, sign in seen.items() if sign.says is Busy.WORKING}
    worked = any(before[name].says is Busy.WORKING for name in works & before.keys())
    known = {name: seen.get(name) or before.get(name) or Sign(Busy.UNKNOWN) for name in case.deployment.nodes}
    group = together(list(known.items()))
    return replace(
        watch,
        busy=group.says.value,
        busy_said="; ".join(part for part in (group.words, _engine_words(case)) if part),
        busy_nodes=tuple((name, sign.says.value, sign.words) for name, sign in known.items()),
        worked_at=case.now if worked else watch.worked_at,
    )


def _asked(case: Case) -> dict[str, Sign]:
    """Node -> what this look says of it; nothing of one that it did not ask."""
    nodes = [_node(case, rank) for rank in case.ranks]
    return {one.name: of_node(one) for one in nodes if one.efforts is not None or one.gpu is not None}


def _engine_words(case: Case) -> str:
    """Told, and no sign of anything: these read 0 through a real hang, and stay above it with nobody there. Its counters of prompt
    and output tokens and its KV cache are: `evidence.progressed` clears every suspicion when one of them moves."""
    metrics = case.view.metrics if case.view is not None else None
    if not isinstance(metrics, EngineMetrics):
        return ""
    return f"the engine counts {metrics.running:.0f} requests that run and {metrics.waiting:.0f} that wait"


def _node(case: Case, rank: int) -> Node:
    name, container = case.node_of(rank), case.group.ranks.get(rank)
    view = case.group.views[name]
    owner = container.id if container is not None else None
    pids = None
    if not isinstance(view.processes, Unknown):
        pids = frozenset(one.pid for one in view.processes if one.owner == owner)
    return Node(
        name=name,
        efforts=view.effort,
        gpu=view.gpu,
        ranks={owner: rank} if owner is not None else {},
        pids=pids,
        waiting_w=dict(case.state.waiting_w).get(name),
        shared=any(one.alive and one.deployment != case.deployment.name for one in view.ranks),
        peers=len(case.ranks) > 1,
        hardware=case.deployment.hardware,
    )


def stalled_since(watch: Watch) -> float | None:
    """Since when requests fail, no token moves and no node works."""
    failing, worked = watch.canary_failing_since, watch.worked_at
    return max(failing, worked) if failing is not None and worked is not None else failing


def busy_since(watch: Watch) -> float | None:
    """Since when requests fail and no token moves, where a node worked meanwhile."""
    failing, worked = watch.canary_failing_since, watch.worked_at
    return failing if failing is not None and worked is not None and worked >= failing else None


# ---------------------------------------------------------------------------------------------------------------- words


def effort_words(watch: Watch) -> tuple[str, ...]:
    """What the nodes do while nothing is answered, in one clause; none where nobody has looked."""
    if not watch.busy or watch.canary_failing_since is None:
        return ()
    said = SAID[Busy(watch.busy)] if watch.busy in list(Busy) else watch.busy
    return (f"{said}: {watch.busy_said}" if watch.busy_said else said,)


def planned(case: Case, watch: Watch) -> Planned | None:
    """When it is acted on, if it goes on like this; only where that is later than anybody would expect."""
    since = busy_since(watch)
    if since is None or watch.busy != Busy.WORKING:
        return None
    return Planned(since + case.policy.busy_after, "group restart, unless a token moves")


def told(case: Case, watch: Watch) -> tuple[Watch, Told]:
    """Once, when it would have been restarted if no node worked."""
    since, stalled = busy_since(watch), case.policy.stalled_after
    if since is None or watch.busy_told or case.now - since < stalled:
        return watch, ()
    lasts, ends = duration(case.now - since), duration(case.policy.busy_after)
    said = f"no request was answered for {lasts}, but a node works: {watch.busy_said}; left alone until it is {ends}"
    return replace(watch, busy_told=True), (("busy", said),)


# ------------------------------------------------------------------------------------------------------------- learning


def learned(case: Case, state: State) -> State:
    """The power of each node whose ranks are loaded and wait, from looks at which the engine serves and nobody asks it."""
    if not _idle(case, state.watch):
        return state
    known = dict(state.waiting_w)
    for rank in case.ranks:
        node = _node(case, rank)
        power = _waiting_power(node)
        if power is not None:
            known[node.name] = _moved(known.get(node.name), power)
    waiting = tuple(sorted(known.items()))
    return state if waiting == state.waiting_w else replace(state, waiting_w=waiting)


def _idle(case: Case, watch: Watch) -> bool:
    """The engine itself says so, and nothing of sparkd's own is on its way to it."""
    metrics = case.view.metrics if case.view is not None else None
    if watch.suspicious or not isinstance(metrics, EngineMetrics) or metrics.running or metrics.waiting:
        return False
    moments = [moment for moment in (watch.canary_at, watch.tokens_at) if moment is not None]
    quiet = min(IDLE_S, case.deployment.health.canary_after / 2)
    return case.deployment.name not in case.snapshot.busy and bool(moments) and case.now - max(moments) >= quiet


def _waiting_power(node: Node) -> float | None:
    """None of a node that somebody else uses too, and of a card whose clock went down: what waits there has it up again.

    Utilisation is not looked at: between two nodes NCCL waits at 96 % also while nobody asks (second field report).
    """
    gpu = node.gpu
    if not isinstance(gpu, GpuLoad) or node.shared or any(card.idles for card in gpu.cards):
        return None
    strangers = node.pids is None or bool(set(gpu.pids or ()) - node.pids)
    return None if strangers else gpu.power_w


def _moved(known: float | None, power: float) -> float:
    """A lower figure counts whole, a little higher one by a tenth, and one that is far higher not at all.

    The first request to an idle engine may be a prefill of minutes, and until its first token vLLM says that none runs.
    """
    if known is None or power < known * (1 - SAME):
        return round(power, 1)
    warmer = known * (1 + SAME) < power <= known * NEAR
    return round(known + UPWARDS * (power - known), 1) if warmer else known
