"""The standing states: stopped, adopting, backoff, held, paused."""

from __future__ import annotations

from dataclasses import replace

from sparkd.decide import budget, hardware, maintenance
from sparkd.decide.case import Case, decide, names, waiting_for_unread
from sparkd.decide.failing import hold_for_budget, pause_after, restarting
from sparkd.decide.group import boots, gather
from sparkd.decide.holds import healed
from sparkd.decide.loss import loss
from sparkd.decide.teardown import teardown
from sparkd.model.decision import STARTING, Cause, Decision, Hold, Phase, Planned, State, Watch
from sparkd.model.launch import Launch

OWN_WAY = {hardware.NODE: hardware.wait_for_node, maintenance.KIND: maintenance.wait}
"""Kind of the fact of a hold that is not waited for as the others are."""
UNREAD = "intent-unread"
DOWN = frozenset({Phase.BACKOFF, Phase.HELD, Phase.CLEANUP, Phase.PRECHECK, Phase.STOPPED})
"""Phases in which it was decided already that what runs has to go."""


def woken(state: State, now: float) -> State:
    """The state of the last sparkd, as this one begins with it: nothing is known of what happened in between."""
    before = state.before if state.phase in (Phase.ADOPTING, Phase.PAUSED) else state.phase
    outage = replace(state.outage, unwatched=True) if state.outage is not None else None
    known = replace(state, since=now, watch=Watch(), outage=outage, looked_at=None)
    return replace(known, phase=Phase.ADOPTING, before=None if state == State() else before)


def stopped(case: Case) -> Decision:
    """No rank may run: a person has stopped the deployment, and only a person starts it again (rule 8)."""
    down = teardown(case, "stopping" if case.group.ours else "stopped")
    if down is not None:
        return down
    by = f" by {case.intent.by}" if case.intent.by else ""
    why = f": {case.intent.message}" if case.intent.message else ""
    # Verified gone everywhere: from here on only the file counts. Not so on a node that was declared lost unseen.
    state = case.state if case.group.lost else replace(case.state, started=None)
    lost = f"; {names(sorted(case.group.lost))} declared lost, what runs there is stale" if case.group.lost else ""
    return decide(state, f"stopped{by}{why}{lost}", "stopped")


def paused(case: Case) -> Decision:
    """Observe and report, act on nothing."""
    by = f" by {case.intent.by}" if case.intent.by else ""
    running = len(case.group.alive)
    unread = f", {names(case.group.unread)} unknown" if case.group.unread else ""
    seen = f"{running} of {len(case.deployment.nodes)} ranks run{unread}"
    if case.intent.unread and not case.intent.paused:
        name = case.deployment.name
        say = f"say it: sparkd ctl start {name}, or sparkd ctl stop {name}"
        return decide(case.state, f"what was wanted of it is lost: {say}; until then nothing is done; {seen}", UNREAD)
    return decide(case.state, f"paused{by}: observing only; {seen}", "paused")


def backoff(case: Case) -> Decision:
    """Take the failed group down at once (it holds memory), then wait for the planned time."""
    down = teardown(case, "taking the failed group down")
    retry_at = case.state.retry_at if case.state.retry_at is not None else case.now
    failure = case.state.failure
    why = failure.text if failure is not None and failure.generation == case.state.generation else "not yet"
    planned_at, said = restarting(case, case.state, why, retry_at)
    planned = Planned(planned_at, "group restart")
    if down is not None:
        # It ends after the pause may be over, and with a node unread nobody knows when.
        still = down.state.phase is Phase.BACKOFF and not case.group.unread and case.now < planned_at
        return replace(down, next=planned) if still else down
    if case.automatic and (spent := budget.spent_today(case.policy.budget, case.state.starts, case.now)):
        return hold_for_budget(case, case.state, f"{why}; {spent}" if failure is not None else spent)
    if case.now < planned_at:
        code = "budget-pause" if planned_at > retry_at else "backoff"
        return decide(case.state, said, code, planned=planned)
    return decide(case.enter(Phase.PRECHECK, retry_at=None), "time for the next start", "retry")


def held(case: Case) -> Decision:
    """Given up, visibly. A hold that names a fact heals itself when the fact passes (rule 7)."""
    hold = case.state.hold
    kind = hold.fact.partition(":")[0] if hold is not None else ""
    if hold is not None and kind in OWN_WAY:
        return OWN_WAY[kind](case, hold)
    down = teardown(case, f"held: {hold.text if hold else 'given up'}")
    if down is not None:
        return down
    if hold is None:
        return decide(case.enter(Phase.PRECHECK), "held for no known reason; going on", "healed")
    if budget.raised(case.policy.budget, hold.fact, case.state.starts, case.now):
        said = "more automatic starts are allowed now; going on"
        state = case.enter(Phase.PRECHECK, hold=None, resource_tries=0, retry_at=None)
        return decide(state, said, "healed", events=[("healed", said)])
    if not hold.heals_itself and not hardware.mended(case, hold):
        return decide(case.state, f"held: {hold.text}", f"held-{hold.fact.partition(':')[0]}")
    return _look_again(case.anew(), hold)


def _look_again(case: Case, hold: Hold) -> Decision:
    """Waits, and does not act in every cycle: a fact that looks well and still fails (Docker refuses a mount) must not start
    a group over and over."""
    pause = case.policy.hold_recheck
    look_at = case.state.retry_at if case.state.retry_at is not None else case.state.since + pause
    if case.now >= look_at:
        if healed(case, hold.fact):
            said = f"the reason of the hold is gone ({hold.fact}); going on"
            state = _after_hold(case, hold)
            return decide(state, said, "healed", events=[("healed", said)])
        look_at = case.now + pause
    state = replace(case.state, retry_at=look_at)
    planned = Planned(look_at, "look at the fact again")
    return decide(state, f"held: {hold.text}", f"held-{hold.fact.partition(':')[0]}", planned=planned)


def _after_hold(case: Case, hold: Hold) -> State:
    """To the prechecks; or to what was left of the pause, where a group that failed could not be stopped meanwhile."""
    failure = case.state.failure
    if hold.fact.startswith("gone:") and failure is not None and failure.generation == case.state.generation:
        retry_at = failure.at + pause_after(case, case.state)
        return case.enter(Phase.BACKOFF, hold=None, retry_at=retry_at)
    return case.enter(Phase.PRECHECK, hold=None, resource_tries=0, retry_at=None)


# ------------------------------------------------------------------------------------------------------------- adopting


def adopting(case: Case) -> Decision:
    """After sparkd's own start: look before acting. What serves goes on serving (rule 5)."""
    waiting = waiting_for_unread(case, "looking at what runs")
    if waiting is not None:
        return waiting
    case = _believe_labels(case)
    before = case.state.before
    if before in DOWN:
        return _return_to(case, before)
    if all(rank in case.group.ranks and case.group.ranks[rank].alive for rank in case.ranks):
        return _adopt(case)
    if before in STARTING and before is not Phase.WARMUP:
        return _go_on_starting(case, before)
    if not case.group.alive and before not in (Phase.SERVE, Phase.WARMUP):
        return decide(case.enter(Phase.PRECHECK, cause=Cause.BOOT), "nothing runs; starting", "start")
    # A rank is missing or ended, so there is always something lost.
    return loss(case, case.ranks) or _adopt(case)


def _believe_labels(case: Case) -> Case:
    """A container newer than the journal, which was lost or could not be written: the label is the truth (rule 4)."""
    newest = case.group.newest
    if newest <= case.state.generation:
        return case
    state = replace(
        case.state,
        generation=newest,
        before=None,
        cause=Cause.ADOPT,
        hold=None,
        retry_at=None,
        started_at=None,
        ranks_started=(),
        boots=boots(case.group),
        stage=None,
        stages=(),
        watch=Watch(),
        launch=Launch(gapped=True),
        started=None,
        # Whatever was asked up to now was asked of the sparkd that started this generation.
        restart_done=case.intent.restart,
        release_done=case.intent.release,
    )
    return replace(case.anew(), state=state, group=gather(case.wanted, state, case.snapshot, case.intent))


def _return_to(case: Case, phase: Phase) -> Decision:
    """Go on where the last sparkd was."""
    return decide(case.enter(phase), f"going on with {phase.value}", "adopted")


def _go_on_starting(case: Case, phase: Phase) -> Decision:
    """Some ranks run, some do not yet. With none of this generation anywhere it never began, and costs no budget."""
    first = case.stages[0][0]
    if phase is first and not case.group.ranks and not case.state.ranks_started:
        again = replace(case, state=budget.given_back(case.state))
        return decide(again.enter(Phase.PRECHECK), "the start was cut short; starting", "start")
    seen = {rank for rank, container in case.group.ranks.items() if container.alive}
    launch = case.state.launch.blinded()
    state = case.enter(phase, ranks_started=tuple(sorted({*case.state.ranks_started, *seen})), launch=launch)
    return decide(state, f"going on with {phase.value}", "adopted")


def _adopt(case: Case) -> Decision:
    state, ranks = case.state, len(case.deployment.nodes)
    known = {
        "ranks_started": case.ranks,
        "boots": state.boots or boots(case.group),
        "cause": state.cause or Cause.ADOPT,
        "started": state.started or case.deployment,
        "hold": None,
        "retry_at": None,
    }
    if state.before is Phase.SERVE:
        # Clocks stood still meanwhile: begin anew, with a canary unless tokens move.
        said = f"adopted generation {state.generation}: {ranks} ranks serve on"
        since = state.serving_since if state.serving_since is not None else case.now
        watch = Watch(tokens=state.watch.tokens, gap_until=case.now)
        serving = case.enter(Phase.SERVE, watch=watch, **known)
        return decide(replace(serving, since=since), said, "adopted", events=[("adopted", said)])
    said = f"adopted generation {state.generation}: {ranks} ranks run; waiting until it answers"
    started = state.started_at if state.started_at is not None else case.now
    launch = state.launch.blinded()
    loading = case.enter(case.stages[-1][0], watch=Watch(), launch=launch, started_at=started, **known)
    return decide(loading, said, "adopted", events=[("adopted", said)])
