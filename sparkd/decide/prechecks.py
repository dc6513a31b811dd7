"""What the checks found -> whether a start may go on. A check that could not be read is shown, and stops nothing."""

from __future__ import annotations

from sparkd.decide.case import Case, decide
from sparkd.decide.group import young
from sparkd.decide.holds import hold
from sparkd.model.check import Status
from sparkd.model.decision import Decision, FailureClass

DRIFT = "drift"
"""The check of what differs from the last start that worked: a person may want just that, and say so."""


def differs(case: Case) -> str:
    """The differences from the last start that worked, as the checks before this one found them; empty without any."""
    checked = case.snapshot.checks.get(case.deployment.name)
    found = [one for one in checked.findings if one.code == DRIFT] if checked is not None else []
    return "; ".join(one.text for one in found if one.text and one.status in (Status.WARN, Status.FAIL))


def prechecks(case: Case) -> Decision | None:
    """None when the checks have run since this start was asked for and nothing failed."""
    checked = case.snapshot.checks.get(case.deployment.name)
    if checked is None or checked.at < case.state.since:
        return decide(case.state, "running the prechecks", "precheck")
    counted = [one for one in checked.failed if not (one.code == DRIFT and case.intent.forced)]
    failed = [one for one in counted if not (one.not_yet and _young(case, one.node))]
    if failed:
        first, more = failed[0], len(failed) - 1
        text = first.text + (f" (and {more} more: sparkd ctl check {case.deployment.name})" if more else "")
        fix = first.fix
        if first.cls is FailureClass.HARDWARE and first.node is not None:
            fix = f"{fix}; sparkd looks again after the next boot of {first.node}"
        return hold(case, case.state, first.cls, first.fact, text, fix)
    for one in counted:
        return decide(case.state, f"waiting: {one.text}, not yet (the node booted recently)", f"not-yet-{one.code}")
    return None


def _young(case: Case, node: str | None) -> bool:
    return node is not None and young(case.group.views.get(node), case.policy.not_yet)
