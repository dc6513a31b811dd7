"""Planned work on a node: requests in flight are answered, what runs there is stopped in order, and started when it is over.

When it is over for the node says `upkeep`; here is what a deployment makes of that.
"""

from __future__ import annotations

from dataclasses import replace

from sparkd.decide.case import Case, decide, duration
from sparkd.decide.holds import hold
from sparkd.decide.teardown import teardown
from sparkd.model.decision import Cause, Decision, FailureClass, Hold, Phase, Planned
from sparkd.model.snapshot import EngineMetrics
from sparkd.model.upkeep import Maintenance

KIND = "maintenance"
DRAINING = "draining"
"""Reason code: it still answers what it has begun, and asks for no more (`/ready` is 503)."""


def planned(case: Case) -> tuple[str, Maintenance] | None:
    """The first node of this deployment with planned work, where it runs or would run next, and the work."""
    for node in dict.fromkeys((*case.deployment.nodes, *case.wanted.nodes)):
        known = case.snapshot.upkeep.get(node)
        if known is not None and known.maintenance is not None:
            return node, known.maintenance
    return None


def begin(case: Case) -> Decision | None:
    """A wish of a person, though of a node: drain, then hold. What is paused or stopped is nobody's to stop."""
    state, work = case.state, planned(case)
    if work is None or case.intent.wanted != "up" or state.phase in (Phase.PAUSED, Phase.STOPPED):
        return None
    node, maintenance = work
    if state.hold is not None and state.hold.fact.startswith(f"{KIND}:"):
        if state.phase is Phase.ADOPTING and state.before is Phase.HELD:
            # The node may be off for hours: what is held for that needs no look at it first.
            return decide(case.enter(Phase.HELD), f"held: {state.hold.text}", KIND)
        if state.phase is Phase.HELD:
            return None
    if state.phase is Phase.ADOPTING:
        return None
    return _drain(case, node, maintenance) or _hold(case, node, maintenance)


def _drain(case: Case, node: str, work: Maintenance) -> Decision | None:
    """Wait for the answers that are on their way, for a bounded time: an engine may count requests that nobody waits for."""
    left = case.deployment.stop.drain - (case.now - work.since)
    if case.state.phase is not Phase.SERVE or left <= 0 or case.state.watch.not_answering or case.group.unread:
        return None
    metrics = case.view.metrics if case.view is not None else None
    if not isinstance(metrics, EngineMetrics):
        flight = "requests may be in flight"
    elif (count := metrics.running + metrics.waiting) > 0:
        flight = f"{count:.0f} request{'s' if count != 1 else ''} in flight"
    else:
        return None
    said = f"draining for the maintenance of {node}: {flight}, stopping in {duration(left)} at the latest"
    return decide(case.state, said, DRAINING, planned=Planned(case.now + left, "stop for the maintenance"))


def _hold(case: Case, node: str, work: Maintenance) -> Decision:
    by = f" by {work.by}" if work.by else ""
    why = f": {work.message}" if work.message else ""
    text = f"{node} is under maintenance{by}{why}"
    fix = f"sparkd ctl maintenance {node} --end"
    fresh = replace(
        case.state,
        cause=Cause.OPERATOR,
        restart_done=case.intent.restart,
        release_done=case.intent.release,
        stage=None,
        resource_tries=0,
    )
    held = hold(case, fresh, FailureClass.OPERATOR, f"{KIND}:{node}", text, fix)
    return replace(held, reason=KIND, state=replace(held.state, reason=KIND), events=((KIND, held.sentence),))


def wait(case: Case, hold: Hold) -> Decision:
    """Held for it: stop everything in order, then wait for the end of the work, whatever becomes of the node meanwhile."""
    work = planned(case)
    if work is None:
        node = hold.fact.partition(":")[2]
        said = f"the maintenance of {node} is over; going on"
        state = case.enter(Phase.PRECHECK, hold=None, retry_at=None, cause=Cause.OPERATOR)
        return decide(state, said, "healed", events=[("healed", said)])
    node, maintenance = work
    ends = Planned(maintenance.until, f"it goes on, or after the next boot of {node}")
    if case.state.started is None and node in case.group.unread:
        # Seen to be gone before the node went: off is what was meant to happen.
        said = f"held: {hold.text}; it cannot be asked, as is to be expected"
        return decide(case.state, said, KIND, planned=ends)
    down = teardown(case, f"held: {hold.text}")
    if down is not None:
        return replace(down, next=ends)
    return decide(replace(case.state, started=None), f"held: {hold.text}", KIND, planned=ends)
