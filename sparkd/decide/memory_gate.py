"""The memory gate: measured after the cleanup, right before a start.

An engine that finds too little dies five minutes into its start (second addendum of the first report), or takes the
whole node down (vllm#56824).
"""

from __future__ import annotations

from dataclasses import replace

from sparkd.decide.case import Case, decide, duration
from sparkd.decide.holds import hold
from sparkd.decide.memory_back import coming_back, not_back
from sparkd.decide.memory_need import Short, shorts, unread
from sparkd.model.decision import Decision, FailureClass, Planned


def gate(case: Case) -> Decision | None:
    """None when every node has enough, and no more is coming back of what the last generation had.

    Else: clean and measure again (`resource_retries`), then hold with what is missing.
    """
    unknown = unread(case.deployment, case.group.views)
    if unknown:
        said = f"cleaning up: the memory of {'; '.join(unknown)} cannot be read"
        return decide(case.state, said, "memory-unknown")
    if returning := coming_back(case):  # whatever is there: it is more with the next look, and costs no try
        return decide(case.state, f"waiting for the memory of the last generation: {returning}", "memory-returns")
    found = shorts(case.deployment, case.group.views)
    if not found:
        return None
    worst, more = max(found, key=lambda one: one.missing), len(found) - 1
    text = worst.text + not_back(case, worst.node) + (f" (and {more} more of its nodes)" if more else "")
    return _measure_again(case, worst, text)


def _measure_again(case: Case, worst: Short, text: str) -> Decision:
    state, pauses = case.state, case.policy.resource_retries
    retry_at, events = state.retry_at, []
    if retry_at is not None and case.now >= retry_at:
        return decide(replace(state, cleaned=0, retry_at=None), f"cleaning up again: {text}", "memory-again")
    if retry_at is None:
        if state.resource_tries >= len(pauses):
            return hold(case, state, FailureClass.RESOURCE, worst.fact, text, worst.fix)
        retry_at = case.now + pauses[state.resource_tries]
        state = replace(state, retry_at=retry_at, resource_tries=state.resource_tries + 1)
        events = [("waiting", f"waiting for memory: {text}")]
    said = f"waiting for memory: {text}; cleaning up and measuring again in {duration(retry_at - case.now)}"
    planned = Planned(retry_at, "measure the memory again")
    return decide(state, said, "memory-wait", planned=planned, events=events)
