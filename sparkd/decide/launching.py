"""From an empty cluster to an answer: the ranks in the engine's own order, the wait for the engine, and the warm-up."""

from __future__ import annotations

from dataclasses import replace

from sparkd.decide import classify, peers, stages
from sparkd.decide import evidence as health
from sparkd.decide.case import Case, decide, duration, names, waiting_for_unread
from sparkd.decide.classify import Kind
from sparkd.decide.failing import fail, postpone
from sparkd.decide.group import shutting_down, target, young
from sparkd.decide.loss import loss, reboot
from sparkd.decide.memory_guard import stop
from sparkd.decide.teardown import clear_stale
from sparkd.model.action import RemoveRanks, StartRanks, WarmUp
from sparkd.model.decision import Decision, FailureClass, Phase, Planned, Watch
from sparkd.model.failure_code import FailureCode
from sparkd.model.snapshot import Canary, Unknown

WARM_UP_AGAIN_S = 15.0
"""Between two warm-up requests: an engine that refuses them is not asked every cycle."""
WARM_UP_AT_LEAST_S = 60.0
"""The first warm-up always has this long, even when a pause or an unread node has used up the start-up budget."""
AFTER_GAP_S = 60.0
"""After a gap a start is not given up at once: the engine may be ready by now, and its answer still on the way."""


def start_ranks(case: Case) -> Decision:
    """Start the ranks of this phase, then go on to the next phase, or wait for the engine to become ready."""
    case = _sighted(case)
    waiting = waiting_for_unread(case, "starting")
    if waiting is not None:
        return waiting
    trouble = (
        reboot(case) or _stopping(case) or _refused(case) or loss(case, owed(case)) or stop(case) or clear_stale(case)
    )
    if trouble is not None:
        return trouble
    ranks = dict(case.stages).get(case.state.phase, ())
    seen = {rank: case.group.ranks[rank] for rank in ranks if rank in case.group.ranks}
    unborn = tuple(target(case.node_of(rank), one) for rank, one in seen.items() if one.state == "created")
    if unborn:  # sparkd died between create and start
        said = "starting: removing a rank that was created and never started"
        return decide(case.state, said, "unborn", [RemoveRanks(unborn)])
    missing = tuple(rank for rank in ranks if rank not in seen)
    if missing:
        said = f"starting rank {', '.join(map(str, missing))} on {names(case.node_of(rank) for rank in missing)}"
        return decide(case.state, said, "start-ranks", [StartRanks(missing, case.state.generation)])
    following = [phase for phase, _ in case.stages[_stage_index(case) + 1 :]]
    if following:
        return decide(case.enter(following[0]), f"started; next is {following[0].value}", "next-stage")
    return _wait_until_ready(case)


def _sighted(case: Case) -> Case:
    """With this look's gaps in its watch. A warm-up that failed before or in a gap says nothing: another is sent at once."""
    watch = health.sighted(case, case.state.watch)
    launch = case.state.launch
    if watch.gap_until == case.now:
        watch, launch = replace(watch, canary_at=None), launch.blinded()
    return replace(case, state=replace(case.state, watch=watch, launch=launch))


def _stage_index(case: Case) -> int:
    phases = [phase for phase, _ in case.stages]
    return phases.index(case.state.phase) if case.state.phase in phases else len(phases)


def owed(case: Case) -> frozenset[int]:
    """Ranks that must be there: those of earlier phases, and those whose start succeeded in this one."""
    earlier = (rank for _, ranks in case.stages[: _stage_index(case)] for rank in ranks)
    return frozenset((*earlier, *case.state.ranks_started))


def _stopping(case: Case) -> Decision | None:
    """A node that is shutting down refuses starts and takes its ranks along; both are no failures (DESIGN rule 6)."""
    stopping = shutting_down(case.group)
    return decide(case.state, f"waiting: {names(stopping)} is shutting down", "node-stopping") if stopping else None


def _refused(case: Case) -> Decision | None:
    outcome = case.outcome_of(StartRanks)
    if outcome is None or outcome.ok or not isinstance(outcome.action, StartRanks):
        return None
    if outcome.action.generation != case.state.generation:
        return None
    made = all(rank in case.group.ranks for rank in outcome.action.ranks)
    if outcome.code is FailureCode.NAME_TAKEN and (made or case.group.stale):
        return None  # Docker finished the request of a sparkd that died, for this generation or an older one
    kind = classify.of_refusal(outcome, foreign=bool(case.group.foreign))
    where = f" on {outcome.node}" if outcome.node else ""
    text = f"a rank could not be started{where}: {outcome.error or kind.text}"
    if kind.fact in classify.NOT_YET and young(case.group.views.get(outcome.node), case.policy.not_yet):
        return postpone(case, f"{text}, not yet (the node booted recently)")
    detail = case.deployment.image if kind.fact == "image" else outcome.code
    return fail(case, kind, text, fact=f"{kind.fact}:{outcome.node}:{detail}" if kind.fact else None)


def _wait_until_ready(case: Case) -> Decision:
    case = peers.followed(stages.tracked(case))
    if case.view is not None and case.view.health == 200:
        return decide(case.enter(Phase.WARMUP), "the engine answers; warming up", "warmup")
    watch = replace(case.state.watch, dead_since=health.said_dead(case, case.state.watch.dead_since))
    case = replace(case, state=replace(case.state, watch=watch))
    end = _said_dead(case) or peers.ended(case) or _too_late(case)
    if end is not None:
        return end
    words = "; ".join(filter(None, (f"waiting for the engine: {stages.waiting_words(case)}", peers.words(case))))
    case, events = stages.news(case, words)
    given_up_at = _started_at(case) + start_budget_s(case)
    return decide(case.state, words, "loading", planned=Planned(given_up_at, "give up on this start"), events=events)


def _started_at(case: Case) -> float:
    return case.state.started_at if case.state.started_at is not None else case.now


def start_budget_s(case: Case) -> float:
    """40-minute first boots are normal (DESIGN 6)."""
    start = case.deployment.start
    return start.warm_timeout if stages.warm(case, case.state.digest) else start.timeout


def _too_late(case: Case) -> Decision | None:
    limit = start_budget_s(case)
    gap = case.state.watch.gap_until
    if case.now - _started_at(case) < limit or (gap is not None and case.now - gap < AFTER_GAP_S):
        return None
    kind = Kind(FailureClass.TRANSIENT, "start-timeout", "did not become ready")
    last = case.state.stage or "none"
    text = f"generation {case.state.generation} was not ready after {duration(limit)}, last stage: {last}"
    return fail(case, kind, "; ".join(filter(None, (text, peers.words(case)))))


def _said_dead(case: Case) -> Decision | None:
    """The engine is dead while its container stays up (vllm-project/vllm#40926)."""
    since = case.state.watch.dead_since
    if since is None or case.now - since < case.policy.dead_after:
        return None
    kind = Kind(FailureClass.TRANSIENT, "engine-dead", "says that it is dead")
    return fail(case, kind, f"the engine says that it is dead, for {duration(case.now - since)}, before it was ready")


def warmup(case: Case) -> Decision:
    """Ready is a correct completion, streamed to its end; /health proves nothing (DESIGN 6)."""
    outcome = case.outcome_of(WarmUp)
    canary = outcome.value if outcome is not None and isinstance(outcome.value, Canary) else None
    if canary is not None and canary.ok and canary.generation == case.state.generation:
        return serve_from_now(case, canary)
    case = _sighted(case)
    waiting = waiting_for_unread(case, "warming up")
    if waiting is not None:
        return waiting
    trouble = loss(case, case.ranks) or stop(case) or clear_stale(case) or _strange_listener(case)
    if trouble is not None:
        return trouble
    watch = health.observed(case, case.state.watch)
    case = replace(case, state=replace(case.state, watch=watch))
    case = peers.followed(stages.tracked(case))
    end = _said_dead(case) or peers.ended(case) or (_too_late(case) if watch.canary_at is not None else None)
    if end is not None:
        return end
    said = _warming_words(case) + (f" (last answer: {canary.why})" if canary is not None else "")
    case, events = stages.news(case, said)
    left = start_budget_s(case) - (case.now - _started_at(case))
    again = watch.canary_at is None or case.now - watch.canary_at >= WARM_UP_AGAIN_S
    actions = [WarmUp(case.state.generation, timeout_s=max(WARM_UP_AT_LEAST_S, left))] if again else []
    return decide(case.state, said, "warmup", actions, events=events)


def _warming_words(case: Case) -> str:
    late = stages.overdue(case)
    return "warming up with a real completion" + (f": {stages.waiting_words(case)}" if late is not None else "")


def _strange_listener(case: Case) -> Decision | None:
    """The listener on the API port must belong to our rank: another server would answer for us (evidence 09)."""
    view, head = case.group.views[case.node_of(0)], case.group.ranks[0]
    if isinstance(view.sockets, Unknown) or isinstance(view.processes, Unknown):
        return None
    ours = {process.pid for process in view.processes if process.owner == head.id}
    for socket in view.sockets:
        strange = socket.pid is not None and socket.pid not in ours
        if socket.state == "LISTEN" and socket.local_port == case.deployment.port and strange and ours:
            kind = Kind(FailureClass.RESOURCE, "port-taken", "the API port is held by another process", "port")
            text = f"port {socket.local_port} on {view.name} is answered by pid {socket.pid}, which is not our rank"
            return fail(case, kind, text, fact=f"port:{view.name}:{socket.local_port}")
    return None


def serve_from_now(case: Case, canary: Canary) -> Decision:
    """The first correct answer of this generation."""
    state = case.state
    serving = case.enter(
        Phase.SERVE,
        serving_since=case.now,
        serving_since_wall=case.snapshot.wall,
        stage=None,
        stages=(*state.stages, ("ready", case.now)),
        watch=Watch(canary_at=case.now, tokens_at=case.now),
        hold=None,
        warm_digest=state.digest,
    )
    took = duration(case.now - state.started_at) if state.started_at is not None else "unknown time"
    rate = f", {canary.tokens_per_second:.1f} tok/s" if canary.tokens_per_second else ""
    serving = stages.learned(case, serving)
    said = f"serving: generation {state.generation} answered after {took}{rate}"
    if state.outage is not None:
        said += f"; it was down for {duration(state.outage.down_s(case.now))}"
    return decide(serving, said, "serving", events=[("serving", said)])
