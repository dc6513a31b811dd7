"""Broken hardware: a node that answers pings and nothing else, what a check found broken, and whether a person has mended it."""

from __future__ import annotations

from dataclasses import replace

from sparkd.decide import evidence as health
from sparkd.decide.case import Case, decide, duration
from sparkd.decide.holds import hold
from sparkd.model.action import SendCanary
from sparkd.model.check import Finding
from sparkd.model.decision import Decision, Failure, FailureClass, Hold, Phase, State
from sparkd.model.machine import Boot
from sparkd.model.snapshot import Snapshot, Unknown

FROZEN = "node-frozen"
NODE = "node"
"""Kind of the fact of such a hold: `node:NAME:PHASE`, the phase that goes on once the node can be read again."""
WAITS = (Phase.PRECHECK, Phase.CLEANUP, Phase.BACKOFF)
"""Nothing useful runs, and the node is waited for. A start that goes on has its own budget: loading can starve a box for minutes,
and it comes back."""


def answers_pings_alone(snapshot: Snapshot, node: str) -> Unknown | None:
    """Why and since when it is unread, where SSH is silent and somebody's ping is answered: its kernel lives, its programs do
    not (open-gpu-kernel-modules#1358, eugr#257)."""
    view = snapshot.nodes.get(node)
    if view is None or not isinstance(view.boot, Unknown) or not view.boot.silent:
        return None
    return view.boot if any(echo.answered for echo in snapshot.echoes.get(node, ())) else None


def frozen(case: Case) -> Decision | None:
    """Held for a person, who alone can reach such a box. Nothing is done on its peers, and nothing on itself (F50).

    A group that still answers is left alone: its node has lost its sshd and no more.
    """
    phase = case.state.before if case.state.phase is Phase.ADOPTING else case.state.phase
    down = phase in WAITS or (
        phase is Phase.SERVE and (case.state.watch.not_answering or case.state.phase is not phase)
    )
    if case.intent.wanted != "up" or not down or phase is None:
        return None
    for node in case.group.unread:
        why = answers_pings_alone(case.snapshot, node)
        if why is not None and case.now - why.since >= case.policy.gone_after:
            return _hold_frozen(case, node, why, phase)
    return None


def _hold_frozen(case: Case, node: str, why: Unknown, phase: Phase) -> Decision:
    text = f"{node} answers pings, and neither SSH nor its node service: its programs are frozen"
    by = ", ".join(sorted({f"{one.by} ({one.network})" for one in case.snapshot.echoes[node] if one.answered}))
    evidence = (f"pings are answered to {by}", f"SSH for {duration(case.now - why.since)}: {why.why}")
    state = case.state
    failure = Failure(
        state.generation, FailureClass.HARDWARE, FROZEN, text, case.now, case.snapshot.wall, evidence=evidence
    )
    failed = replace(state, failure=failure) if phase is Phase.SERVE else state
    held = hold(case, failed, FailureClass.HARDWARE, f"{NODE}:{node}:{phase.value}", text, _walk(case, node))
    told = (("failed", text), *held.events) if phase is Phase.SERVE else held.events
    return replace(held, events=told)


def _walk(case: Case, node: str) -> str:
    known = case.snapshot.upkeep.get(node)
    afar = f"`sparkd ctl nodes power-cycle {node}`, or " if known is not None and known.hook else ""
    return f"{afar}hold the power button of {node} until it is off, and switch it on; then it goes on by itself"


def wait_for_node(case: Case, hold: Hold) -> Decision:
    """Held by such a node: what runs is not touched. Its engine is asked on, for an answer ends the hold, as the node's own does."""
    _, node, before = hold.fact.split(":", 2)
    phase = Phase(before)
    if node not in case.group.unread:
        said = f"{node} can be asked again: looking at what runs"
        state = case.enter(Phase.ADOPTING, hold=None, retry_at=None, before=phase)
        return decide(state, said, "healed", events=[("healed", said)])
    sentence, reason = f"held: {hold.text}", f"held-{NODE}"
    if phase is not Phase.SERVE:
        return decide(case.state, sentence, reason)
    watch = health.sighted(case, case.state.watch)
    if watch.canary_failing_since is None and watch.canary_at is not None and watch.canary_at > case.state.since:
        said = f"it answers, although {node} cannot be asked"
        state = case.enter(Phase.SERVE, hold=None, since=_served_since(case.state, case.now), watch=watch)
        return decide(state, said, "healed", events=[("healed", said)])
    canary = [SendCanary(case.state.generation, case.policy.canary_timeout)] if health.canary_due(case, watch) else []
    return decide(replace(case.state, watch=watch), sentence, reason, canary)


def _served_since(state: State, now: float) -> float:
    return state.serving_since if state.serving_since is not None else now


def broken(case: Case, node: str) -> Finding | None:
    """What the last run of the checks found broken there, of what no start of ours can mend."""
    checked = case.snapshot.checks.get(case.deployment.name)
    failed = checked.failed if checked is not None else ()
    return next((one for one in failed if one.cls is FailureClass.HARDWARE and one.node == node), None)


def mended(case: Case, hold: Hold) -> bool:
    """Has the node of a check that found broken hardware booted since? That is what a person was asked to do, so it is looked at
    again. Without that it would be no more than a fault that comes and goes."""
    kind, _, rest = hold.fact.partition(":")
    view = case.group.views.get(rest.partition(":")[0])
    if (kind, hold.cls) != ("check", FailureClass.HARDWARE) or view is None or not isinstance(view.boot, Boot):
        return False
    return case.now - view.boot.up_s > case.state.since
