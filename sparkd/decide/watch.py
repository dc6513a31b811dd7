"""Is it serving? Evidence of one generation, each with its own clock and limit (the table of DESIGN 6)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from sparkd.decide.case import Case, duration
from sparkd.model.config import Policy
from sparkd.model.decision import Cause, Watch
from sparkd.model.snapshot import Canary, EngineMetrics, Outcome, Unknown

PROBE_AGAIN_S = 15.0
"""While something looks wrong, a canary is sent this often instead of every `canary_after` seconds."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """A row of the verdict table: since when it holds, and how long it may."""

    signature: str
    text: str
    since: Callable[[Watch], float | None]
    limit: Callable[[Policy], float]
    cause: Cause = Cause.WEDGE


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
    Evidence(
        "stalled",
        "requests fail and no token moves",
        lambda w: w.canary_failing_since,
        lambda p: p.stalled_after,
    ),
)


def verdict(case: Case, watch: Watch) -> tuple[Evidence, float] | None:
    """The first row whose evidence lasted long enough, and since when."""
    for evidence in EVIDENCE:
        since = evidence.since(watch)
        if since is not None and case.now - since >= evidence.limit(case.policy):
            return evidence, since
    return None


# --------------------------------------------------------------------------------------------------------------- clocks


def observed(case: Case, watch: Watch) -> Watch:
    """The clocks after this look: each starts when its evidence appears and is forgotten when it goes.

    A node that cannot be read stops no clock of the others, but silence on the fabric counts only while its node can be
    read otherwise: else it is simply away.
    """
    watch = progressed(case, watch)
    stuck = _still_stuck(watch, stuck_ranks(case))
    silent = bool(silent_peers(case)) and not case.group.unread
    exception = watch.exception_since is not None or _exception_logged(case)
    return replace(
        watch,
        dead_since=_dead_since(case, watch.dead_since),
        exception_since=_clock(watch.exception_since, exception, case.now),
        stuck_since=_clock(watch.stuck_since if set(stuck) & set(watch.stuck) else None, bool(stuck), case.now),
        stuck=stuck,
        silent_since=_clock(watch.silent_since, silent, case.now),
    )


def _clock(since: float | None, there: bool, now: float) -> float | None:
    if not there:
        return None
    return since if since is not None else now


def _dead_since(case: Case, since: float | None) -> float | None:
    """503 or a refused connection. An answer that is merely late says neither yes nor no."""
    view = case.view
    if view is not None and isinstance(view.health, Unknown):
        return since
    return _clock(since, view is not None and view.health in (503, None), case.now)


def said_dead(case: Case, since: float | None) -> float | None:
    """The same clock before the API was ever ready: a refused connection is normal then."""
    return _dead_since(case, since) if case.view is not None and case.view.health is not None else None


def _exception_logged(case: Case) -> bool:
    findings = case.view.log_findings if case.view is not None else ()
    return any(finding.endswith(("worker-exception", "engine-dead")) for finding in findings)


def progressed(case: Case, watch: Watch) -> Watch:
    """Tokens that move end every suspicion: late is not dead (Kludex/uvicorn#2506), a long prefill moves KV cache."""
    metrics = case.view.metrics if case.view is not None else None
    if not isinstance(metrics, EngineMetrics):
        return watch
    tokens = metrics.prompt_tokens + metrics.generation_tokens + (metrics.kv_cache_usage or 0.0)
    if watch.tokens is None:
        return replace(watch, tokens=tokens)
    if tokens != watch.tokens:
        return replace(_cleared(watch), tokens=tokens, tokens_at=case.now)
    # `running` reads 0 through a real hang (evidence 05b), 1 with four waiting: it starts this clock, never a verdict.
    return replace(watch, frozen_since=_clock(watch.frozen_since, metrics.running + metrics.waiting > 0, case.now))


def _cleared(watch: Watch) -> Watch:
    return replace(watch, canary_failing_since=None, canary_failures=0, exception_since=None, frozen_since=None)


def after_canary(watch: Watch, outcome: Outcome, generation: int) -> Watch:
    """What the end of a canary or warm-up says: an answer clears, a failure starts the clock when it was sent."""
    canary = outcome.value
    if isinstance(canary, Canary):
        return _after(watch, canary.ok, canary.sent_at, canary.ended_at) if canary.generation == generation else watch
    # The action itself ran out of time: nobody saw an answer.
    return watch if outcome.ok else _after(watch, False, outcome.ended_at, outcome.ended_at)


def _after(watch: Watch, ok: bool, sent_at: float, ended_at: float) -> Watch:
    if ok:
        return replace(_cleared(watch), canary_at=ended_at)
    # Tokens that moved while it waited were somebody's answer: the trouble is younger than they are.
    began = max(sent_at, watch.tokens_at if watch.tokens_at is not None else sent_at)
    failing = watch.canary_failing_since if watch.canary_failing_since is not None else began
    return replace(watch, canary_at=ended_at, canary_failing_since=failing, canary_failures=watch.canary_failures + 1)


def canary_due(case: Case, watch: Watch) -> bool:
    """Only when no token moved since the last one; sooner when something looks wrong."""
    usual = case.deployment.health.canary_after
    pause = min(PROBE_AGAIN_S, usual) if watch.alarmed else usual
    moments = [moment for moment in (watch.canary_at, watch.tokens_at) if moment is not None]
    return not moments or case.now - max(moments) >= pause


# ------------------------------------------------------------------------------------------------------------- evidence


def stuck_ranks(case: Case) -> dict[str, str]:
    """Identity -> words for each process of our ranks in state T or D, and each frozen container (evidence 04)."""
    found = {}
    for rank, container in case.group.ranks.items():
        if container.state == "paused":
            found[container.id] = f"rank {rank}: its container is paused"
        processes = case.group.views[case.node_of(rank)].processes
        for process in () if isinstance(processes, Unknown) else processes:
            if process.owner == container.id and process.state in ("T", "D"):
                words = f"rank {rank}: {process.title} (pid {process.pid}) is in state {process.state}"
                found[f"{container.id}:{process.pid}:{process.start_ticks}"] = words
    return found


def _still_stuck(watch: Watch, seen: dict[str, str]) -> tuple[str, ...]:
    """Those that were stuck before and are now; when none was, those that are now. D at one look is ordinary I/O."""
    still = tuple(one for one in watch.stuck if one in seen)
    return still or tuple(sorted(seen))


def silent_peers(case: Case) -> tuple[str, ...]:
    """Fabric addresses that do not answer from another node of the group."""
    found = []
    for name, view in case.group.views.items():
        pings = () if isinstance(view.pings, Unknown) else view.pings
        found += [f"{ping.address} does not answer {name} on the fabric" for ping in pings if ping.silent]
    return tuple(found)


# ---------------------------------------------------------------------------------------------------------------- words


def details(case: Case) -> tuple[str, ...]:
    findings = case.view.log_findings if case.view is not None else ()
    return (*stuck_ranks(case).values(), *silent_peers(case), *(f"log: {finding}" for finding in findings))


def suspect(case: Case, watch: Watch) -> bool:
    """Wrong enough to say so. A canary that fails alone must have failed for a while: late is not dead."""
    failing = watch.canary_failing_since
    if failing is not None and case.now - failing >= case.policy.suspect_after:
        return True
    return replace(watch, canary_failing_since=None).alarmed


def doubts(case: Case, watch: Watch) -> str:
    """What speaks against serving, one clause each."""
    said = list(details(case))
    if watch.dead_since is not None:
        said.append("the engine's API refuses or says 503")
    if watch.exception_since is not None and not any("worker-exception" in one or "engine-dead" in one for one in said):
        said.append("a rank logged an exception")
    if watch.canary_failing_since is not None:
        said.append(f"canaries fail since {duration(case.now - watch.canary_failing_since)}")
    return "; ".join(said)


def canary_words(watch: Watch) -> str:
    failures = watch.canary_failures
    return f"{failures} canary request{'s' if failures != 1 else ''} failed" if failures else "no canary was needed"
