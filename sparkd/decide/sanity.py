"""Whether the fixed question is due, what its answer says, and what follows when the answers are nonsense.

Engines that answer garbage with every light green are the commonest silent fault in public reports, and no canary sees them.
"""

from __future__ import annotations

from dataclasses import replace

from sparkd.base.one_line import clause
from sparkd.decide import budget
from sparkd.decide import evidence as health
from sparkd.decide.case import Case
from sparkd.decide.classify import Kind
from sparkd.decide.failing import fail
from sparkd.decide.nonsense import nonsense
from sparkd.model.action import AskSanity
from sparkd.model.config import Deployment
from sparkd.model.decision import Cause, Decision, FailureClass, State, Watch
from sparkd.model.sanity import ROW, Known, Said, Sanity
from sparkd.model.snapshot import Canary, EngineMetrics, Outcome, Snapshot
from sparkd.model.words import rfc3339

CODE = "nonsense"
SHOWN = 100
"""Characters of an answer in a sentence: two of them have to fit beside words."""

NO_INSTRUCTIONS = "a model that is not made to follow instructions: write `health: {sanity: false}`"
"""A guard model says `safe` to anything, and is well."""


def current(state: State) -> Sanity:
    """What is known of this generation. A new one begins anew; when it last made sense, whatever generation that was, stays."""
    known = state.sanity
    if known.generation == state.generation:
        return known
    return Sanity(generation=state.generation, known=known.known, restarted=known.restarted)


# -------------------------------------------------------------------------------------------------------------- asking


def due(case: Case, watch: Watch) -> list[AskSanity]:
    """In the place of a canary, and never beside a request of a person or while anything looks wrong."""
    if not case.deployment.health.sanity or case.deployment.name in case.snapshot.busy:
        return []
    doubted = watch.alarmed or watch.unsent or watch.blind
    if doubted or not _idle(case, watch) or not _time_for(case, watch):
        return []
    return [AskSanity(case.state.generation, case.policy.canary_timeout)]


def _time_for(case: Case, watch: Watch) -> bool:
    known = current(case.state)
    if known.asked_at is None or 0 < known.bad < ROW:
        return True
    since = case.now - known.asked_at
    if known.bad:  # it is out of service until it makes sense: as soon as a canary would see it
        return since >= case.deployment.health.canary_after
    return since >= case.policy.sanity_every and health.canary_due(case, watch)


def _idle(case: Case, watch: Watch) -> bool:
    """Nobody is being answered. An engine that counts nothing is asked as it gets its canaries, or it never would be."""
    metrics = case.view.metrics if case.view is not None else None
    if not isinstance(metrics, EngineMetrics):
        return case.view is not None and metrics is None
    still = watch.tokens_at is None or watch.tokens_at < case.now
    return still and metrics.running + metrics.waiting == 0


# ------------------------------------------------------------------------------------------------------------- answers


def heard(state: State, snapshot: Snapshot, deployment: Deployment, now: float) -> State:
    """The state after the end of a question to its generation: it is a canary too, and its answer is judged."""
    outcome = snapshot.outcomes.get(deployment.name)
    if outcome is None or not isinstance(outcome.action, AskSanity):
        return state
    if outcome.action.generation != state.generation:
        return state
    watch = health.after_canary(state.watch, _as_canary(outcome), state.generation)
    known = replace(current(state), asked_at=outcome.ended_at)
    canary = outcome.value
    if isinstance(canary, Canary) and canary.ok and canary.said is not None and canary.generation == state.generation:
        known = _judged(known, canary, canary.said, deployment, snapshot.wall - (now - canary.ended_at))
    return replace(state, watch=watch, sanity=known)


def _as_canary(outcome: Outcome) -> Outcome:
    """An answer that had begun is what a canary asks for, although 32 tokens came too late."""
    canary = outcome.value
    if isinstance(canary, Canary) and canary.kind == "late" and canary.first_token_s is not None:
        return replace(outcome, value=replace(canary, ok=True, why="", kind=""))
    return outcome


def _judged(known: Sanity, canary: Canary, said: Said, deployment: Deployment, wall: float) -> Sanity:
    hidden = any("reasoning" in name for name in deployment.args)
    why = nonsense(said, chat=deployment.warmup.api == "chat", hidden=hidden)
    text = clause(said.text if said.text.strip() else said.reasoning)
    answered = replace(known, text=text, wall=wall, why=why)
    if why:
        since = known.since if known.bad else canary.sent_at
        return replace(answered, bad=known.bad + 1, since=since)
    good = Known(text, wall, known.generation)
    return replace(answered, bad=0, since=None, known=good, restarted=False)


# ------------------------------------------------------------------------------------------------------- what follows


def allowed(case: Case) -> Case:
    """Nothing is held against a deployment whose answers are no longer to be judged."""
    if case.deployment.health.sanity or not case.state.sanity.bad:
        return case
    forgotten = replace(case.state.sanity, bad=0, since=None, why="")
    return replace(case, state=replace(case.state, sanity=forgotten))


def restart(case: Case) -> Decision | None:
    """`restart-once`: one start for all generations in a row that make no sense, and none that the budget does not have."""
    state, policy = case.state, case.policy
    if policy.on_nonsense != "restart-once" or not state.nonsense or state.sanity.restarted:
        return None
    if budget.spent_today(policy.budget, state.starts, case.now) or budget.spent(policy.budget, state.starts, case.now):
        return None  # to take it down and start nothing helps nobody
    kind = Kind(FailureClass.TRANSIENT, CODE, "answers nonsense")
    once = replace(case, state=replace(state, sanity=replace(state.sanity, restarted=True)))
    return fail(once, kind, words(state), cause=Cause.WEDGE, since=state.sanity.since)


def words(state: State) -> str:
    """What it answers, beside what it answered when all was well."""
    known = state.sanity
    said = f'answers nonsense: {known.why}: "{_short(known.text)}"'
    if known.known is not None:
        when = f"{rfc3339(known.known.wall)}, generation {known.known.generation}"
        said += f'; when it was well ({when}): "{_short(known.known.text)}"'
    else:
        said += f"; no answer has made sense yet ({NO_INSTRUCTIONS})"
    return f"{said}; it was restarted for that once" if known.restarted else said


def events(case: Case) -> list[tuple[str, str]]:
    """For history, with the answer that made it a verdict."""
    fresh = case.outcome_of(AskSanity) is not None and case.state.nonsense and case.state.sanity.bad == ROW
    return [(CODE, words(case.state))] if fresh else []


def _short(text: str) -> str:
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 3]}..."
