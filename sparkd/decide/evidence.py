"""Is it serving? Evidence of one generation, each with its own clock and limit, and none from our own blindness."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from sparkd.decide.case import Case
from sparkd.decide.doubts import fault_logged, silent_peers, stuck_ranks
from sparkd.decide.working import busy_since, followed, stalled_since
from sparkd.model.config import Policy
from sparkd.model.decision import Cause, Watch
from sparkd.model.failure_code import FailureCode
from sparkd.model.snapshot import Canary, EngineMetrics, Outcome, Snapshot, Unknown

LATE_PERIODS = 3
"""The loop is late when it misses this many of its periods, as `/healthz` counts them."""
PROBE_AGAIN_S = 15.0
"""While something looks wrong, a canary is sent this often instead of every `canary_after` seconds."""
OWN_TOKENS_PERIODS = 2
"""For so long after the end of a canary the counters may still move because of it: an engine writes them with its next step."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """A row of the verdict table: since when it holds, and how long it may."""

    signature: str
    text: str
    since: Callable[[Watch], float | None]
    limit: Callable[[Policy], float]
    cause: Cause = Cause.WEDGE
    asked: bool = True
    """It rests on canaries that failed: after a gap they have to fail anew."""


def _both(one: float | None, other: float | None) -> float | None:
    """Since when both are there: evidence alone proves nothing."""
    return max(one, other) if one is not None and other is not None else None


def _exception(watch: Watch) -> float | None:
    stalled = [since for since in (watch.canary_failing_since, watch.frozen_since) if since is not None]
    return _both(watch.exception_since, min(stalled, default=None))


EVIDENCE = (
    Evidence(
        "engine-dead",
        "the engine says that it is dead",
        lambda w: w.dead_since,
        lambda p: p.dead_after,
        Cause.CRASH,
        asked=False,
    ),
    Evidence(
        "worker-exception",
        "a rank logged an exception and nothing moves",
        _exception,
        lambda p: p.dead_after,
        Cause.CRASH,
    ),
    Evidence(
        "rank-stuck",
        "a rank's process is stopped or stuck in the kernel and requests fail",
        lambda w: _both(w.stuck_since, w.canary_failing_since),
        lambda p: p.stuck_after,
    ),
    Evidence(
        "fabric-silent",
        "a peer is silent on the fabric and requests fail",
        lambda w: _both(w.silent_since, w.canary_failing_since),
        lambda p: p.silent_after,
    ),
    Evidence("stalled", "requests fail and no token moves", stalled_since, lambda p: p.stalled_after),
    Evidence("busy", "requests fail and no token moves, although a node works", busy_since, lambda p: p.busy_after),
)


def verdict(case: Case, watch: Watch) -> tuple[Evidence, float] | None:
    """The first row whose evidence lasted long enough, and since when."""
    for evidence in EVIDENCE:
        since = evidence.since(watch)
        limit = evidence.limit(case.policy)
        if since is not None and case.now - since >= limit and (not evidence.asked or _asked_again(watch, limit)):
            return evidence, since
    return None


def _asked_again(watch: Watch, limit_s: float) -> bool:
    """After a gap at least two canaries that were sent after it have failed, over half of the verdict's time.

    A healthy idle group was once restarted over one stale canary: its node could not be read for eleven minutes, and the
    first look after them took the clock of that canary for eleven minutes of failing.
    """
    if watch.gap_until is None:
        return True
    first, last = watch.failed_first, watch.failed_last
    return first is not None and last is not None and last > first and last - first >= limit_s / 2


# ---------------------------------------------------------------------------------------------------------------- gaps


def late(since: float | None, snapshot: Snapshot, policy: Policy, now: float) -> bool:
    """Did sparkd itself stand still between then and now? Waiting for others, within their deadlines, is not late."""
    return since is not None and now - since > LATE_PERIODS * policy.period + snapshot.took_s


def unasked(case: Case, watch: Watch) -> Watch:
    """A gap too: requests failed, and no canary that counts has ended in time to show whether they still fail."""
    ended, policy = watch.canary_at, case.policy
    overdue = PROBE_AGAIN_S + policy.canary_timeout + LATE_PERIODS * policy.period
    silent = watch.canary_failing_since is not None and ended is not None and case.now - ended > overdue
    return after_gap(watch, case.now) if silent or watch.unsent else watch


def sighted(case: Case, watch: Watch) -> Watch:
    """Marked, where this look or the one before did not show every node of the group."""
    blind = bool(case.group.unread)
    marked = after_gap(watch, case.now) if blind or watch.blind else watch
    return replace(marked, blind=blind)


def after_gap(watch: Watch, until: float, *, late: bool = False) -> Watch:
    """What is still known of a generation when a gap in the looks has ended, or goes on."""
    asked = replace(watch, gap_until=until, failed_first=None, failed_last=None)
    return replace(asked, late_until=until) if late else asked


# --------------------------------------------------------------------------------------------------------------- clocks


def observed(case: Case, watch: Watch) -> Watch:
    """The clocks after this look: each starts when its evidence appears and is forgotten when it goes.

    A node that cannot be read stops no clock of the others, but silence on the fabric counts only while its node can be
    read otherwise: else it is simply away.
    """
    watch = sighted(case, progressed(case, watch))
    stuck = _still_stuck(watch, stuck_ranks(case))
    silent = bool(silent_peers(case)) and not watch.blind
    exception = watch.exception_since is not None or fault_logged(case)
    clocks = replace(
        watch,
        dead_since=_dead_since(case, watch.dead_since),
        exception_since=_clock(watch.exception_since, exception, case.now),
        stuck_since=_clock(watch.stuck_since if set(stuck) & set(watch.stuck) else None, bool(stuck), case.now),
        stuck=stuck,
        silent_since=_clock(watch.silent_since, silent, case.now),
        widow_since=watch.widow_since if watch.blind else None,  # else it would have ended this generation
    )
    return followed(case, clocks)


def _clock(since: float | None, there: bool, now: float) -> float | None:
    if not there:
        return None
    return since if since is not None else now


def _dead_since(case: Case, since: float | None) -> float | None:
    """503 or a refused connection. An answer that is merely late says neither yes nor no, and nothing after a gap.

    With the head's node unread that clock does not run: a node that boots refuses too.
    """
    view = case.view
    if case.node_of(0) in case.group.unread:
        return None
    if view is not None and isinstance(view.health, Unknown):
        return None if case.late else since
    return _clock(since, view is not None and view.health in (503, None), case.now)


def said_dead(case: Case, since: float | None) -> float | None:
    """The same clock before the API was ever ready: a refused connection is normal then."""
    return _dead_since(case, since) if case.view is not None and case.view.health is not None else None


def progressed(case: Case, watch: Watch) -> Watch:
    """Tokens that move end every suspicion: late is not dead (Kludex/uvicorn#2506), a long prefill moves KV cache."""
    metrics = case.view.metrics if case.view is not None else None
    if not isinstance(metrics, EngineMetrics):
        return watch
    tokens = metrics.prompt_tokens + metrics.generation_tokens + (metrics.kv_cache_usage or 0.0)
    if watch.tokens is None:
        return replace(watch, tokens=tokens)
    if tokens != watch.tokens and _moved_by_canary(case, watch):
        return replace(watch, tokens=tokens)
    if tokens != watch.tokens:
        return replace(_cleared(watch), tokens=tokens, tokens_at=case.now)
    # `running` reads 0 through a real hang (evidence 05b), 1 with four waiting: it starts this clock, never a verdict.
    return replace(watch, frozen_since=_clock(watch.frozen_since, metrics.running + metrics.waiting > 0, case.now))


def _moved_by_canary(case: Case, watch: Watch) -> bool:
    """An engine can count the tokens of a request and answer it with an error: each canary would end the doubt that it is."""
    if not watch.erring or watch.canary_at is None:
        return False
    recent = case.now - watch.canary_at <= OWN_TOKENS_PERIODS * case.policy.period
    return recent or case.deployment.name in case.snapshot.busy


def _cleared(watch: Watch) -> Watch:
    doubted = replace(watch, canary_failing_since=None, canary_failures=0, exception_since=None, frozen_since=None)
    asked = replace(doubted, gap_until=None, late_until=None, failed_first=None, failed_last=None)
    return replace(
        asked, erring=False, unsent="", busy="", busy_said="", busy_nodes=(), worked_at=None, busy_told=False
    )


def after_canary(watch: Watch, outcome: Outcome, generation: int) -> Watch:
    """What the end of a canary or warm-up says: an answer clears, a failure starts the clock when it was sent."""
    canary = outcome.value
    if isinstance(canary, Canary):
        return _after(watch, canary) if canary.generation == generation else watch
    if outcome.ok:
        return watch
    if outcome.code is not FailureCode.TIMEOUT:  # it was never sent: our own trouble
        return replace(watch, canary_at=outcome.ended_at, unsent=f"no canary can be sent: {outcome.error}")
    # The action itself ran out of time: nobody saw an answer, and when it was sent is not known.
    return _failing(watch, outcome.ended_at, outcome.ended_at)


def _after(watch: Watch, canary: Canary) -> Watch:
    if canary.ok:
        return replace(_cleared(watch), canary_at=canary.ended_at)
    if canary.kind == "key":  # the engine answers; that it refuses our key is our own trouble
        return replace(watch, canary_at=canary.ended_at, unsent=canary.why)
    slept = watch.late_until is not None and canary.sent_at < watch.late_until
    if slept and canary.kind != "late":  # for that one only time in which sparkd ran was counted
        return replace(watch, canary_at=None)  # sparkd slept over its answer: the next one is due at once
    failing = replace(_failing(watch, canary.sent_at, canary.ended_at), erring=canary.kind == "error")
    if watch.gap_until is None or canary.sent_at < watch.gap_until:
        return failing
    first = watch.failed_first if watch.failed_first is not None else canary.sent_at
    return replace(failing, failed_first=first, failed_last=canary.sent_at)


def _failing(watch: Watch, sent_at: float, ended_at: float) -> Watch:
    # Tokens that moved while it waited belong to other requests: the trouble began after them.
    began = max(sent_at, watch.tokens_at if watch.tokens_at is not None else sent_at)
    since = watch.canary_failing_since if watch.canary_failing_since is not None else began
    failures = watch.canary_failures + 1
    return replace(watch, canary_at=ended_at, canary_failing_since=since, canary_failures=failures, unsent="")


def canary_due(case: Case, watch: Watch) -> bool:
    """Only when no token moved since the last one; sooner when something looks wrong.

    Requests that hang are ordinary, and so is an unread node. Both at once is what a cut fabric looks like.
    """
    usual = case.deployment.health.canary_after
    wrong = watch.alarmed or bool(watch.unsent) or (watch.blind and watch.frozen_since is not None)
    pause = min(PROBE_AGAIN_S, usual) if wrong else usual
    moments = [moment for moment in (watch.canary_at, watch.tokens_at) if moment is not None]
    return not moments or case.now - max(moments) >= pause


def _still_stuck(watch: Watch, seen: dict[str, str]) -> tuple[str, ...]:
    """Those that were stuck before and are now; when none was, those that are now. D at one look is ordinary I/O."""
    still = tuple(one for one in watch.stuck if one in seen)
    return still or tuple(sorted(seen))
