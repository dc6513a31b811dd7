"""From a failure to what happens next: back off, measure again, or hold with the fact that would heal it."""

from __future__ import annotations

from dataclasses import replace

from sparkd.decide import budget
from sparkd.decide.case import Case, decide, duration
from sparkd.decide.classify import Kind
from sparkd.decide.holds import hold
from sparkd.decide.prechecks import differs
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
    failure = Failure(
        generation=state.generation,
        cls=kind.cls,
        signature=kind.signature,
        text=text,
        at=case.now,
        wall=case.snapshot.wall,
        rank=rank,
        exit_code=exit_code,
        evidence=evidence,
    )
    failed = replace(state, failure=failure, failures=state.failures + 1, cause=cause, stage=None)
    if kind.cls is FailureClass.PERMANENT and (kind.proven or _repeated(state, failure)):
        decision = hold(case, failed, kind.cls, fact or kind.signature, text, kind.fix)
    elif kind.cls is FailureClass.RESOURCE:
        decision = _measure_again(case, failed, kind, text, fact)
    else:
        pause = budget.pause_s(case.policy.backoff, failed.failures, f"{case.deployment.name}:{state.generation}")
        decision = _wait(case, failed, text, "failed", pause)
    return replace(decision, events=(("failed", text), *decision.events), lost_at=since)


def postpone(case: Case, text: str) -> Decision:
    """Not a failure: something is not there yet, so the group is taken down and started again soon, at no cost."""
    return _wait(case, budget.given_back(case.state), text, "not-yet", case.policy.hold_recheck)


def _repeated(state: State, failure: Failure) -> bool:
    """The second identical failure in a row, of another generation."""
    last = state.failure
    same = last is not None and (last.signature == failure.signature) and (last.generation != failure.generation)
    return same and state.failures > 0


def _measure_again(case: Case, failed: State, kind: Kind, text: str, fact: str | None) -> Decision:
    tries = failed.resource_tries
    if tries >= len(case.policy.resource_retries):
        return hold(case, failed, kind.cls, fact or kind.signature, text, kind.fix)
    return _wait(case, replace(failed, resource_tries=tries + 1), text, "failed", case.policy.resource_retries[tries])


def _wait(case: Case, state: State, text: str, reason: str, pause: float) -> Decision:
    retry_at = case.now + pause
    waiting = replace(case, state=state).enter(Phase.BACKOFF, retry_at=retry_at)
    said = f"{text}; restarting the group in {duration(pause)}"
    return decide(waiting, said, reason, planned=Planned(retry_at, "group restart"))
