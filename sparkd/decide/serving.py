"""Serving: nothing to do, a canary to send or the fixed question to ask, or the end of this generation."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from sparkd.decide import budget, sanity
from sparkd.decide import evidence as health
from sparkd.decide.case import Case, decide, duration, unread_words
from sparkd.decide.classify import Kind
from sparkd.decide.doubts import canary_words, details, doubts, suspect
from sparkd.decide.failing import fail
from sparkd.decide.loss import loss, proven_gone
from sparkd.decide.memory_guard import stop
from sparkd.decide.teardown import clear_stale
from sparkd.decide.working import effort_words, learned, planned, told
from sparkd.model.action import Action, AskSanity, SendCanary
from sparkd.model.decision import Decision, FailureClass, State, Watch


def serve(case: Case) -> Decision:
    """Facts first, then the clocks. A node that cannot be read ends nothing, and the rest is watched on meanwhile."""
    if case.group.unread:
        return _half_blind(case)
    end = loss(case, case.ranks) or stop(case)
    if end is not None:
        return end
    watch = health.observed(case, health.unasked(case, case.state.watch))
    watch, events = told(case, watch)
    case = replace(case, state=_forgive(case, learned(case, replace(case.state, watch=watch))))
    verdict = health.verdict(case, watch)
    if verdict is not None:
        evidence, since = verdict
        kind = Kind(FailureClass.TRANSIENT, evidence.signature, evidence.text)
        text = f"{evidence.text}, for {duration(case.now - since)} ({canary_words(watch)})"
        down, seen = _not_answering_since(watch, since), (*details(case), *effort_words(watch))
        return fail(case, kind, text, cause=evidence.cause, evidence=seen, since=down)
    case = sanity.allowed(case)
    return sanity.restart(case) or _going_on(case, watch, events)


def _going_on(case: Case, watch: Watch, events: Iterable[tuple[str, str]]) -> Decision:
    """Nothing ends this generation: what is said of it, and what it is asked."""
    asked: list[Action] = [*sanity.due(case, watch)] or [*_canary(case, watch)]
    stale = _clear_stale(case, watch, asked)
    for said, code, holds in (
        (f"not answering: {doubts(case, watch)}", "not-answering", watch.not_answering),
        (sanity.words(case.state), sanity.CODE, case.state.nonsense),
        (f"not sure that it serves: {doubts(case, watch)}", "suspect", suspect(case, watch)),
    ):
        if holds:
            actions, at = asked or (stale.actions if stale else ()), planned(case, watch)
            return decide(case.state, said, code, actions, at, (*events, *sanity.events(case)))
    return stale or decide(case.state, f"serving (generation {case.state.generation})", "serving", asked)


def _half_blind(case: Case) -> Decision:
    """Nothing is started or stopped, but the rest is watched, so that the truth is known when the node is back."""
    watch = health.observed(case, case.state.watch)
    state = replace(case.state, watch=watch)
    said, code = f"serving as far as can be seen: {unread_words(case)}", "node-unknown"
    gone = proven_gone(case, case.state)
    if gone:
        said = f"not serving: rank {gone[0]} on {case.node_of(gone[0])} is gone; {unread_words(case)}"
    elif watch.not_answering:
        said, code = f"not answering: {doubts(case, watch)}; {unread_words(case)}", "not-answering"
    elif state.nonsense:
        said, code = f"{sanity.words(state)}; {unread_words(case)}", sanity.CODE
    elif suspect(case, watch):
        said = f"{said}; {doubts(case, watch)}"
    # Also with the head's node unread: its engine is asked over another way, and an answer is all there is to know then.
    actions = _canary(case, watch) if case.node_of(0) not in case.group.lost and 0 not in gone else []
    events = sanity.events(replace(case, state=state))
    return decide(state, f"{said}; nothing is started or stopped until it can be read", code, actions, events=events)


def _canary(case: Case, watch: Watch) -> list[SendCanary]:
    """None while the fixed question is on its way, which is a canary too: another would take its place."""
    asked = isinstance(case.snapshot.busy.get(case.deployment.name), AskSanity)
    due = not asked and health.canary_due(case, watch)
    return [SendCanary(case.state.generation, case.policy.canary_timeout)] if due else []


def _clear_stale(case: Case, watch: Watch, asked: list[Action]) -> Decision | None:
    """Only while nothing is asked and nothing is wrong: one that cannot be removed would keep canaries from being sent."""
    asks = bool(asked) or case.deployment.name in case.snapshot.busy
    return None if asks or watch.canary_failing_since is not None else clear_stale(case)


def _not_answering_since(watch: Watch, since: float) -> float:
    """The outage began with the first failed request, not with the verdict on it."""
    return min(since, watch.canary_failing_since) if watch.canary_failing_since is not None else since


def _forgive(case: Case, state: State) -> State:
    """Long serving forgets earlier failures (DESIGN 7), unless requests fail just then."""
    if state.watch.canary_failing_since is not None:
        return state
    long = budget.served_long(case.policy.backoff, state, case.now)
    return replace(state, failures=0, resource_tries=0) if long else state
