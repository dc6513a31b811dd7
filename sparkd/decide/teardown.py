"""One group, one fate: what must still be done until nothing of a deployment is left anywhere (rules 2, 3, 11)."""

from __future__ import annotations

from math import isfinite

from sparkd.decide import hardware
from sparkd.decide.case import Case, decide, names, waiting_for_unread
from sparkd.decide.group import target
from sparkd.decide.holds import hold
from sparkd.decide.memory_low import SIGNATURE
from sparkd.model.action import Action, CaptureEvidence, KillProcesses, RemoveRanks, StopRanks, Target
from sparkd.model.decision import Decision, FailureClass, Phase
from sparkd.model.snapshot import EngineMetrics, Unknown

STUCK_AFTER_S = 300.0
"""A rank that could not be stopped for this long (several graces) will not be by itself: moby/moby#22802."""

AFTER_FAILURE_S = 3.0
"""The grace of a generation that failed. A rank that lost its peer cannot end well: a widow ignores SIGTERM for good, vLLM's own
way out of a worker takes 9 s and ends in SIGKILL (evidence 03, 17a), and each of them keeps the next start waiting."""

Step = tuple[Action, str]


def teardown(case: Case, doing: str) -> Decision | None:
    """The next step of taking the group down, or None once it is verified gone.

    Evidence first (but for a node that runs out of memory), then the head, then the workers (a head that is stopped first ends
    its streams itself), then the containers, then processes that outlived theirs. Waits while any node of the group is unread.
    """
    waiting = waiting_for_unread(case, doing)
    if waiting is not None:
        return waiting
    trouble = _trouble(case)
    # What Docker and systemd keep of a rank is as good after its end, and the node may not last until it has been read.
    first = _stop(case) + _capture(case) if _urgent(case) else _capture(case) + _stop(case)
    steps = first + _remove(case) + _kill(case)
    if steps:
        action, what = steps[0]
        stuck = _stuck(case, trouble)
        said = f"{doing}: {what}" + (f" (the last try failed: {trouble})" if trouble else "")
        return stuck or decide(case.state, said, "teardown", [action])
    unasked = _leftovers_unasked(case)
    if unasked:
        return decide(case.state, f"{doing}: looking for leftover processes on {'; '.join(unasked)}", "teardown")
    return None


def clear_stale(case: Case) -> Decision | None:
    """Take away ranks that are not of this generation, and leave this generation alone.

    They come from a start that sparkd had given up and Docker finished later, or from a node that was declared lost.
    """
    alive = tuple(target(node, one) for node, one in case.group.stale if one.alive)
    if alive:
        said = f"stopping a stale rank on {names(one.node for one in alive)}"
        return decide(case.state, said, "stale-rank", [StopRanks(alive, case.deployment.stop.grace)])
    rest = tuple(target(node, one) for node, one in case.group.stale)
    if rest:
        said = f"removing a stale rank on {names(one.node for one in rest)}"
        return decide(case.state, said, "stale-rank", [RemoveRanks(rest)])
    return None


def _ours(case: Case) -> tuple[Target, ...]:
    return tuple(target(node, container) for node, container in case.group.ours)


def _capture(case: Case) -> list[Step]:
    newest, failure = case.group.newest, case.state.failure
    if not case.group.ours or case.state.captured >= newest:
        return []
    reason = failure.signature if failure is not None and failure.generation == newest else "stop"
    return [(CaptureEvidence(newest, _ours(case), reason), "saving the logs of all ranks")]


def _urgent(case: Case) -> bool:
    """Memory goes on falling until its ranks are gone, and what they have logged can be read afterwards."""
    failure = case.state.failure
    return failure is not None and failure.signature == SIGNATURE and failure.generation == case.group.newest


def _stop(case: Case) -> list[Step]:
    alive = tuple(target(node, container) for node, container in case.group.alive)
    head = tuple(one for one in alive if one.rank == 0)
    rest = tuple(one for one in alive if one.rank != 0)
    steps: list[Step] = []
    grace, drain = _grace_s(case)
    for ranks, word, grace_s in (
        (head, f"the head{in_flight(case)}", grace + drain),
        (rest, "the workers" if len(rest) > 1 else "the worker", grace),
    ):
        if ranks:
            steps.append((StopRanks(ranks, grace_s), f"stopping {word} on {names(one.node for one in ranks)}"))
    return steps


def _grace_s(case: Case) -> tuple[float, float]:
    """What every rank has to end, and what a head has besides to finish its requests."""
    failure, grace = case.state.failure, case.deployment.stop.grace
    if failure is not None and failure.generation == case.group.newest:
        return min(grace, AFTER_FAILURE_S), 0.0
    drain = case.deployment.args.get(case.engine.drain_flag or "")
    if isinstance(drain, bool) or not isinstance(drain, int | float) or not isfinite(drain):
        return grace, 0.0
    return grace, max(0.0, drain)


def in_flight(case: Case) -> str:
    """` with 3 requests in flight`, or nothing: who stops a group may not know that somebody waits for it."""
    metrics = case.view.metrics if case.view is not None else None
    count = round(metrics.running + metrics.waiting) if isinstance(metrics, EngineMetrics) else 0
    return f" with {count} request{'s' if count != 1 else ''} in flight" if count > 0 else ""


def _remove(case: Case) -> list[Step]:
    return [(RemoveRanks(_ours(case)), "removing what was stopped")] if case.group.ours else []


def _kill(case: Case) -> list[Step]:
    if case.snapshot.cleanup.remove_strays == "never":
        return []
    left = case.group.leftovers
    listed = ", ".join(f"{one.title or 'process'} ({one.pid} on {one.node})" for one in left[:3])
    return [(KillProcesses(left), f"ending leftover processes: {listed}")] if left else []


def _leftovers_unasked(case: Case) -> list[str]:
    """Nodes, each with why, whose leftover processes were not looked for in this snapshot."""
    found = []
    for name, view in case.group.views.items():
        if name in case.group.lost:
            continue
        if isinstance(view.leftovers, Unknown):
            found.append(f"{name} ({view.leftovers.why})")
        elif case.deployment.name not in view.leftovers:
            found.append(name)
    return found


def _trouble(case: Case) -> str:
    outcome = case.outcome
    if outcome is None or outcome.ok or not isinstance(outcome.action, StopRanks | RemoveRanks | KillProcesses):
        return ""
    return outcome.error or outcome.code or "failed"


def _stuck(case: Case, trouble: str) -> Decision | None:
    """Something cannot be stopped: say so as a hold, and go on trying there."""
    patient = case.now - case.state.since < STUCK_AFTER_S
    if not trouble or patient or case.state.phase not in (Phase.CLEANUP, Phase.BACKOFF):
        return None
    node = case.outcome.node if case.outcome is not None else ""
    where = f" on {node}" if node else ""
    fix = f"look{where} for processes in state D (ps -eo pid,stat,args); what the kernel holds goes only with a reboot"
    text = f"what runs{where} cannot be stopped: {trouble}"
    if found := hardware.broken(case, node):  # a GPU off the bus keeps its processes in state D (moby/moby#22802)
        text, fix = f"{text}; {found.text}", found.fix
    return hold(case, case.state, FailureClass.HARDWARE, f"gone:{node}", text, fix)
