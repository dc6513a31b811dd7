"""From a failure to what happens next: back off, measure again, or hold with the fact that would heal it."""

from __future__ import annotations

from dataclasses import replace

from sparkd.decide import budget
from sparkd.decide.case import Case, decide, duration
from sparkd.decide.classify import Kind
from sparkd.decide.holds import hold
from sparkd.decide.prechecks import differs
from sparkd.decide.teardown import in_flight
from sparkd.model.decision import STARTING, Cause, Decision, Failure, FailureClass, Phase, Planned, State


def fail(
    case: Case,
    kind: Kind,
    text: str,
    *,
    cause: Cause = Cause.CRASH,
    rank: int | None = None,
    exit_code: int | None = None,
    evidence: tuple[str, ...] = (),
    fact: str | None = None,
    since: float | None = None,
) -> Decision:
    """Record the failure of this generation and choose what follows. `since`: when it stopped answering, if earlier."""
    state = case.state
    if state.phase in STARTING and (differences := differs(case)):
        text = f"{differences}; {text}"  # what was changed is the first suspect (first field report)
    cut = in_flight(case) if state.phase is Phase.SERVE else ""
    failure = Failure(
        generation=state.generation,
        cls=kind.cls,
        signature=kind.signature,
        text=text,
        at=case.now,
        wall=case.snapshot.wall,
        rank=rank,
        exit_code=exit_code,
        evidence=(*evidence, f"the group went down{cut}") if cut else evidence,
    )
    first = budget.served_long(case.policy.backoff, state, case.now)
    earlier = replace(state, failures=0, spared=False) if first or not state.failures else state
    failed = replace(
        earlier, failure=failure, failures=earlier.failures + 1, spared=first or earlier.spared, cause=cause, stage=None
    )
    decision = _what_follows(replace(case, state=earlier), failed, kind, text, fact)
    return replace(decision, events=(("failed", text), *decision.events), lost_at=since)


def _what_follows(case: Case, failed: State, kind: Kind, text: str, fact: str | None) -> Decision:
    if kind.cls is FailureClass.PERMANENT and (kind.proven or _repeated(case.state, failed)):
        return hold(case, failed, kind.cls, fact or kind.signature, text, kind.fix)
    if kind.cls is FailureClass.RESOURCE and case.state.resource_tries >= len(case.policy.resource_retries):
        return hold(case, failed, kind.cls, fact or kind.signature, text, kind.fix)
    if spent := budget.spent_today(case.policy.budget, failed.starts, case.now):
        return hold_for_budget(case, failed, f"{text}; {spent}")
    if kind.cls is FailureClass.RESOURCE:
        failed = replace(failed, resource_tries=failed.resource_tries + 1)
    return back_off(case, failed, text, "failed", pause_after(case, failed))


def pause_after(case: Case, failed: State) -> float:
    """Seconds from a failure to the next try: those of what is measured again, or doubling."""
    retries = case.policy.resource_retries
    if retries and failed.failure is not None and failed.failure.cls is FailureClass.RESOURCE:
        return retries[min(max(failed.resource_tries, 1), len(retries)) - 1]
    seed = f"{case.deployment.name}:{failed.generation}"
    return budget.pause_s(case.policy.backoff, failed.failures - failed.spared, seed)


def hold_for_budget(case: Case, state: State, text: str) -> Decision:
    """No automatic start is left today."""
    name = case.deployment.name
    fix = f"find the cause with `sparkd ctl why {name}`, then `sparkd ctl release {name}`"
    fact = f"budget:{budget.allowed(case.policy.budget)}"
    return hold(case, state, FailureClass.TRANSIENT, fact, text, fix)


def restarting(case: Case, state: State, why: str, retry_at: float) -> tuple[float, str]:
    """When the next start is tried, and the sentence that says so: a full window of the budget makes it later."""
    spent = budget.spent(case.policy.budget, state.starts, case.now) if state.cause not in budget.FREE else None
    if spent is not None and spent.until > retry_at:
        why, retry_at = f"{why}; {spent.why}", spent.until
    left = retry_at - case.now
    return retry_at, f"{why}; restarting the group {f'in {duration(left)}' if left > 0 else 'now'}"


def back_off(case: Case, state: State, why: str, reason: str, pause: float) -> Decision:
    """Wait for the next automatic start, with the group taken down meanwhile."""
    retry_at = case.now + pause
    planned_at, said = restarting(case, state, why, retry_at)
    waiting = replace(case, state=state).enter(Phase.BACKOFF, retry_at=retry_at)
    events = [("budget-pause", said)] if planned_at > retry_at else []
    return decide(waiting, said, reason, planned=Planned(planned_at, "group restart"), events=events)


def postpone(case: Case, text: str) -> Decision:
    """Not a failure: something is not there yet, so the group is taken down and started again soon, at no cost."""
    return back_off(case, budget.given_back(case.state), text, "not-yet", case.policy.hold_recheck)


def _repeated(before: State, failed: State) -> bool:
    """The second identical failure in a row, of another generation."""
    last, failure = before.failure, failed.failure
    if last is None or failure is None:
        return False
    return before.failures > 0 and last.signature == failure.signature and last.generation != failure.generation
