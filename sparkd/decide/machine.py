"""The state machine: a table of phases, and the wishes of people that come before it.

`step` is pure and total: it returns a decision for every state and snapshot and never raises.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sparkd.decide import evidence as health
from sparkd.decide import hardware, launching, maintenance, memory_guard, outages, sanity, serving, standing, starting
from sparkd.decide.case import Case, decide
from sparkd.decide.group import gather
from sparkd.decide.teardown import in_flight
from sparkd.engines import ENGINES
from sparkd.model.action import CaptureEvidence, CleanNodes, SendCanary, StartRanks, WarmUp
from sparkd.model.config import Deployment, Policy, as_started
from sparkd.model.decision import Cause, Decision, Intent, Phase, State
from sparkd.model.snapshot import Snapshot

LOST = "what was wanted of it is lost"
Handler = Callable[[Case], Decision]

PHASES: dict[Phase, Handler] = {
    Phase.STOPPED: standing.stopped,
    Phase.ADOPTING: standing.adopting,
    Phase.PRECHECK: starting.precheck,
    Phase.CLEANUP: starting.cleanup,
    Phase.START_WORKERS: launching.start_ranks,
    Phase.START_HEAD: launching.start_ranks,
    Phase.WARMUP: launching.warmup,
    Phase.SERVE: serving.serve,
    Phase.BACKOFF: standing.backoff,
    Phase.HELD: standing.held,
    Phase.PAUSED: standing.paused,
}


def step(
    deployment: Deployment, state: State, snapshot: Snapshot, intent: Intent, policy: Policy, now: float
) -> Decision:
    """Decide the next step of one deployment, `deployment` being what its file says.

    `now` is on the same clock as every time in `state` and `snapshot` (seconds of CLOCK_BOOTTIME). Only the first
    action is performed before the next look. The returned state must be persisted before its actions are performed.
    """
    late = health.late(state.looked_at, snapshot, policy, now)
    if late:
        state = replace(state, watch=health.after_gap(state.watch, now, late=True))
    state = _nothing_to_release(absorb(state, snapshot, deployment.name), intent)
    state = replace(state, looked_at=now)
    running = as_started(state.started, deployment)
    state = sanity.heard(state, snapshot, running, now)
    group = gather(running, state, snapshot, intent)
    state = replace(state, highest=max(state.highest, group.newest))
    case = Case(running, state, snapshot, intent, policy, now, group, ENGINES[running.engine], deployment, late)
    return outages.account(case, memory_guard.account(case, _decided(case)))


def _decided(case: Case) -> Decision:
    for wish in WISHES:
        decision = wish(case)
        if decision is not None:
            return decision
    return PHASES[case.state.phase](case)


def absorb(state: State, snapshot: Snapshot, name: str) -> State:
    """What the end of the last action says about the state. Outcomes of another generation say nothing (rule 4)."""
    outcome = snapshot.outcomes.get(name)
    if outcome is None:
        return state
    action = outcome.action
    if isinstance(action, CaptureEvidence):
        # Evidence is taken once, in bounded time: a capture that failed must not keep a dead group in memory.
        return replace(state, captured=action.generation)
    if isinstance(action, CleanNodes):
        emptied = action.clean > state.clean_done
        cleaned = replace(state, cleaned=action.generation, clean_done=max(state.clean_done, action.clean))
        return replace(cleaned, warm_digest="") if emptied else cleaned
    if isinstance(action, StartRanks) and outcome.ok and action.generation == state.generation:
        return replace(state, ranks_started=tuple(sorted({*state.ranks_started, *action.ranks})))
    if isinstance(action, SendCanary | WarmUp) and action.generation == state.generation:
        return replace(state, watch=health.after_canary(state.watch, outcome, state.generation))
    return state


def _nothing_to_release(state: State, intent: Intent) -> State:
    """A release of what is not held is done at once; left open, it would free the next failure from its backoff."""
    open_in = (Phase.HELD, Phase.BACKOFF, Phase.ADOPTING, Phase.PAUSED)
    return state if state.phase in open_in else replace(state, release_done=max(state.release_done, intent.release))


# ---------------------------------------------------------------------------------------- what people want comes first


def _pause(case: Case) -> Decision | None:
    state = case.state
    hands_off = case.intent.paused or case.intent.unread
    if hands_off and state.phase is not Phase.PAUSED:
        before = state.before if state.phase is Phase.ADOPTING else state.phase
        said = "paused" if case.intent.paused else LOST
        paused = case.enter(Phase.PAUSED, before=before)
        return decide(paused, f"{said}: observing only", "paused", events=[("paused", said)])
    if not hands_off and state.phase is Phase.PAUSED:
        said = "resumed: looking at what runs"
        return decide(case.enter(Phase.ADOPTING, before=state.before), said, "resumed", events=[("resumed", "resumed")])
    return None


def _stop(case: Case) -> Decision | None:
    state = case.state
    if case.intent.wanted != "stopped" or state.phase in (Phase.PAUSED, Phase.STOPPED):
        return None
    stopping = case.enter(Phase.STOPPED, **_anew(case))
    # After sparkd's own start a deployment that was stopped before is stopped still: nothing happened.
    known = state.phase is Phase.ADOPTING and state.before in (None, Phase.STOPPED)
    return decide(
        stopping, "stopping", "stopping", events=[] if known else [("stopping", f"stop asked{in_flight(case)}")]
    )


def _start(case: Case) -> Decision | None:
    if case.state.phase is not Phase.STOPPED or case.intent.wanted != "up":
        return None
    state = case.enter(Phase.PRECHECK, cause=Cause.OPERATOR, **_anew(case))
    return decide(state, "starting", "start", events=[("start-asked", "start asked")])


def _restart(case: Case) -> Decision | None:
    state = case.state
    if state.phase in (Phase.PAUSED, Phase.ADOPTING, Phase.STOPPED) or case.intent.restart <= state.restart_done:
        return None
    restarting = case.enter(Phase.PRECHECK, cause=Cause.OPERATOR, **_anew(case))
    asked = f"restart asked{in_flight(case)}"
    return decide(restarting, "restarting the group", "restart", events=[("restart-asked", asked)])


def _release(case: Case) -> Decision | None:
    if case.state.phase not in (Phase.HELD, Phase.BACKOFF) or case.intent.release <= case.state.release_done:
        return None
    state = case.enter(Phase.PRECHECK, cause=Cause.OPERATOR, starts=(), **_anew(case))
    return decide(state, "released: starting", "released", events=[("released", "release asked")])


WISHES: tuple[Callable[[Case], Decision | None], ...] = (
    _pause,
    _stop,
    maintenance.begin,
    _start,
    _restart,
    _release,
    hardware.frozen,
)
"""Asked in this order; the last one is nobody's wish, but comes before every phase as well."""


def _anew(case: Case) -> dict[str, object]:
    """What a request of a person clears: failures counted so far, holds, planned starts, operations asked before."""
    return {
        "hold": None,
        "retry_at": None,
        "failures": 0,
        "resource_tries": 0,
        "stage": None,
        "restart_done": case.intent.restart,
        "release_done": case.intent.release,
    }
