"""What speaks against serving: what a look shows of ranks and peers, and how doubts are said."""

from __future__ import annotations

from dataclasses import replace

from sparkd.decide.case import Case, duration
from sparkd.decide.working import effort_words
from sparkd.model.decision import Watch
from sparkd.model.log_finding import FindingKind
from sparkd.model.snapshot import Unknown


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


def silent_peers(case: Case) -> tuple[str, ...]:
    """Fabric addresses that do not answer from another node of the group."""
    found = []
    for name, view in case.group.views.items():
        pings = () if isinstance(view.pings, Unknown) else view.pings
        found += [f"{ping.address} does not answer {name} on the fabric" for ping in pings if ping.silent]
    return tuple(found)


def fault_logged(case: Case) -> bool:
    """Does a rank's log say that its engine cannot go on?"""
    findings = case.view.log_findings if case.view is not None else ()
    return any(one.kind is FindingKind.FAULT for one in findings)


# ---------------------------------------------------------------------------------------------------------------- words


def details(case: Case) -> tuple[str, ...]:
    findings = case.view.log_findings if case.view is not None else ()
    return (*stuck_ranks(case).values(), *silent_peers(case), *(f"log: {finding}" for finding in findings))


def suspect(case: Case, watch: Watch) -> bool:
    """Wrong enough to say so. A canary that fails alone must have failed for a while: late is not dead."""
    failing = watch.canary_failing_since
    if failing is not None and case.now - failing >= case.policy.suspect_after:
        return True
    return bool(watch.unsent) or replace(watch, canary_failing_since=None).alarmed


def doubts(case: Case, watch: Watch) -> str:
    """What speaks against serving, one clause each."""
    said = list(details(case))
    if watch.dead_since is not None:
        said.append("the engine's API refuses or says 503")
    if watch.exception_since is not None and not fault_logged(case):
        said.append("a rank logged an exception")
    if watch.unsent:
        said.append(watch.unsent)
    if watch.canary_failing_since is not None:
        said.append(_failing_words(watch, duration(case.now - watch.canary_failing_since)))
        said += effort_words(watch)
    return "; ".join(said)


def _failing_words(watch: Watch, ago: str) -> str:
    if watch.not_answering:
        return f"{watch.canary_failures} canaries in a row failed, the first {ago} ago"
    if watch.gap_until is not None and watch.failed_first is None:
        return f"a canary failed {ago} ago, before or while not everything could be looked at; asking again"
    return f"canaries fail since {ago}"


def canary_words(watch: Watch) -> str:
    failures = watch.canary_failures
    return f"{failures} canary request{'s' if failures != 1 else ''} failed" if failures else "no canary was needed"
