"""The one place where outages begin, are explained and end: looked at after every decision, by what is known of answering.

Only an answer ends an outage, or a person who stops the deployment. That sparkd was away, or a node unread, ends none and
begins none that would count as downtime.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sparkd.decide import sanity
from sparkd.decide.case import Case, duration, names
from sparkd.decide.group import shutting_down
from sparkd.decide.loss import proven_gone
from sparkd.model.decision import Cause, Decision, Failure, FailureClass, Phase, State, Watch
from sparkd.model.outage import OPERATOR, PASSING, SYMPTOMS, UNREAD, Outage


@dataclass(frozen=True, slots=True)
class Seen:
    """What a decision knows of answering: yes, no, or None (not known), and since when. `code` names a new cause."""

    answers: bool | None
    since: float
    code: str = ""
    text: str = ""
    cls: str = ""


def account(case: Case, decision: Decision) -> Decision:
    """The decision with the outage in its state begun, gone on or ended; `case.state` is the state before it."""
    outage, seen = decision.state.outage, _seen(case, decision)
    if outage is not None:
        outage = _gone_on(case, decision.state, outage, seen)
    elif seen is not None and seen.code and case.intent.wanted != "stopped":
        outage = _begun(case, decision.state, seen)
    if outage is None:
        return decision
    if case.late:  # also where it begins: it may have done so long before this look
        outage = replace(outage, unwatched=True)
    state = replace(decision.state, outage=outage)
    if state.phase is Phase.STOPPED:
        return replace(decision, state=_ended(case, state, outage, case.now))
    if seen is not None and seen.answers and seen.since > outage.began:
        ended = _ended(case, state, outage, min(seen.since, case.now), answered=state.generation)
        return replace(decision, state=ended, events=(*decision.events, *_told(decision, ended.last_outage)))
    return replace(decision, state=state)


# ---------------------------------------------------------------------------------------------------- what is known


def _seen(case: Case, decision: Decision) -> Seen | None:
    """None where this look says nothing new: before the first start has answered or failed, or while sparkd only looks."""
    before, state = case.state, decision.state
    if state.failure is not None and state.failure != before.failure:
        return _failed(case, decision, state.failure)
    phase = state.before if state.phase in (Phase.ADOPTING, Phase.PAUSED) else state.phase
    if phase is not Phase.SERVE:
        return _taken_down(case, decision)
    gone = _rank_gone(case, state)
    if gone is not None:
        return gone
    blind = _blind(case, state)
    if blind is not None:
        return blind
    failing = state.watch.canary_failing_since
    if state.watch.not_answering and failing is not None:
        return Seen(False, failing, "not-answering", "requests go without an answer")
    if state.nonsense:
        since = state.sanity.since
        return Seen(False, case.now if since is None else since, sanity.CODE, sanity.words(state))
    answered = _answered_at(state.watch)
    return Seen(True, answered) if answered is not None else None


def _failed(case: Case, decision: Decision, failure: Failure) -> Seen:
    """It began with the first request that failed, not with the verdict on it."""
    known = (decision.lost_at, case.state.watch.canary_failing_since if case.state.phase is Phase.SERVE else None)
    since = min((at for at in known if at is not None), default=case.now)
    return Seen(False, since, failure.signature, failure.text, failure.cls.value)


def _taken_down(case: Case, decision: Decision) -> Seen:
    """Nothing of it answers: it is being started, waits for that, or is held."""
    if case.state.phase is not Phase.SERVE or decision.state.phase is Phase.STOPPED:
        return Seen(False, case.now)
    if decision.state.cause is not Cause.OPERATOR:
        return Seen(False, case.now, decision.reason, decision.sentence)
    if decision.state.hold is not None and decision.state.hold.cls is FailureClass.OPERATOR:
        return Seen(False, case.now, OPERATOR, decision.state.hold.text)
    by = f" by {case.intent.by}" if case.intent.by else ""
    why = f": {case.intent.message}" if case.intent.message else ""
    return Seen(False, case.now, OPERATOR, f"restart asked{by}{why}")


def _rank_gone(case: Case, state: State) -> Seen | None:
    """A rank is seen to be gone while nothing is done about it yet: its node shuts down, or another cannot be read."""
    gone = proven_gone(case, state)
    if not gone:
        return None
    failing = state.watch.canary_failing_since
    since = min(case.now, failing) if failing is not None else case.now
    if stopping := shutting_down(case.group):
        return Seen(False, since, "node-stopping", f"{names(stopping)} is shutting down and took the group along")
    return Seen(False, since, "rank-gone", f"rank {gone[0]} on {case.node_of(gone[0])} is gone")


def _blind(case: Case, state: State) -> Seen | None:
    """Not known: the head's node has been unread for longer than the time between two requests."""
    head = case.node_of(0)
    why = case.group.unread.get(head)
    if why is None or state.phase is Phase.PAUSED:
        return None
    known = (None if state.watch.unsent else state.watch.canary_at, state.watch.tokens_at)
    last = max((at for at in known if at is not None), default=state.since)
    since = max(why.since, last)
    patience = case.deployment.health.canary_after + case.policy.canary_timeout
    blind = case.now - since > patience  # canaries go on meanwhile: for as long as one of them takes it is not silent
    return Seen(None, since, UNREAD, f"{head} could not be read ({why.why})") if blind else None


def _answered_at(watch: Watch) -> float | None:
    """When it answered last, unless a request has failed since. A canary that was never sent is no answer."""
    answers = (watch.tokens_at, None if watch.unsent else watch.canary_at)
    moments = [at for at in answers if at is not None]
    return max(moments, default=None) if watch.canary_failing_since is None else None


# ------------------------------------------------------------------------------------------------------ the record


def _begun(case: Case, state: State, seen: Seen) -> Outage:
    began = _not_before(case, seen.since)
    return Outage(
        began=began,
        began_wall=_wall(case, began),
        generation=state.generation,
        code=seen.code,
        text=seen.text,
        cls=seen.cls,
        unread_since=began if seen.answers is None else None,
        unwatched=_unwatched(case, began),
    )


def _unwatched(case: Case, began: float) -> bool:
    """It began before this sparkd did: both nodes lost power, and sparkd with them."""
    return case.state.phase is Phase.ADOPTING and began < case.state.since


def _not_before(case: Case, since: float) -> float:
    """Not before the last outage ended, nor before this generation answered: estimates of two clocks may cross."""
    last, serving = case.state.last_outage, case.state.serving_since if case.state.phase is Phase.SERVE else None
    floors = (last.ended if last is not None else None, serving)
    return min(case.now, max([since, *(at for at in floors if at is not None)]))


def _gone_on(case: Case, state: State, outage: Outage, seen: Seen | None) -> Outage:
    if state.generation > case.state.generation:
        outage = replace(outage, starts=outage.starts + 1)
    if seen is None:
        return outage
    if seen.answers is None and outage.unread_since is None and outage.code in PASSING:
        return replace(outage, unread_since=max(seen.since, outage.began))
    if seen.answers is False:
        return _explained(case, _known_again(case, outage, seen.since), seen)
    return outage


def _known_again(case: Case, outage: Outage, since: float) -> Outage:
    """It is known to be down again. What was known before the unread time says nothing about that time."""
    if outage.unread_since is None:
        return outage
    until = since if since > outage.unread_since else case.now
    return replace(outage, unread_s=outage.unread_s + until - outage.unread_since, unread_since=None)


def _explained(case: Case, outage: Outage, seen: Seen) -> Outage:
    """The first failure or reboot found is the cause; until then it is named by what was seen."""
    better = seen.code and outage.code in SYMPTOMS and (seen.code not in SYMPTOMS or outage.code == UNREAD)
    if not better:
        return outage
    began = min(outage.began, _not_before(case, seen.since))
    unwatched = outage.unwatched or _unwatched(case, began)
    named = replace(outage, code=seen.code, text=seen.text, cls=seen.cls, unwatched=unwatched)
    return replace(named, began=began, began_wall=outage.began_wall - (outage.began - began))


def _ended(case: Case, state: State, outage: Outage, at: float, answered: int | None = None) -> State:
    whole = replace(outage, unread_s=outage.unknown_s(at), unread_since=None)
    last = replace(whole, ended=at, ended_wall=_wall(case, at), answered=answered)
    failure = state.failure
    if failure is not None and failure.outage_s is None:
        failure = replace(failure, outage_s=last.lasted_s(at))
    return replace(state, outage=None, last_outage=last, failure=failure)


def _wall(case: Case, at: float) -> float:
    return case.snapshot.wall - (case.now - at)


def _told(decision: Decision, ended: Outage | None) -> list[tuple[str, str]]:
    """For history: the end of an outage that took no start. One that did ends with `serving`."""
    if ended is None or any(kind == "serving" for kind, _ in decision.events):
        return []
    down, unknown = ended.down_s(0.0), ended.unread_s
    if down < 1:
        return [("recovered", f"answers; for {duration(unknown)} nobody could tell: {ended.text}")]
    nobody = f", and for {duration(unknown)} nobody could tell" if unknown >= 1 else ""
    return [("recovered", f"answers again; it was down for {duration(down)}{nobody}: {ended.text}")]
