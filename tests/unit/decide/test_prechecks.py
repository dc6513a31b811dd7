"""What the checks found stops a start, is waited for, or is only shown; and a hold of theirs heals."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sparkd.model.check import Checked, Finding, Level, Status
from sparkd.model.decision import Decision, FailureClass, Hold, Phase, State
from sparkd.model.snapshot import NodeView, Snapshot

from .world import NOW, UP, decide, ended, node, seen, state, young

PRECHECK = state(Phase.PRECHECK)


def finding(status: Status = Status.FAIL, node: str | None = "spark2", **more: Any) -> Finding:
    fields = {"code": "ghost-path", "text": "a ghost on spark2", "fix": "on spark2: systemctl disable x"}
    return Finding(severity=Level.FAIL, status=status, node=node, **{**fields, **more})


def checked(*findings: Finding, at: float = NOW, view: NodeView | None = None) -> Snapshot:
    look = seen(view) if view is not None else seen()
    return replace(look, checks={"demo": Checked(at, 0.5, findings)})


def test_a_start_waits_for_checks_made_since_it_was_asked_for() -> None:
    for look in (checked(at=PRECHECK.since - 1), replace(seen(), checks={})):
        decision = decide(PRECHECK, look)
        assert (decision.state.phase, decision.reason, decision.actions) == (Phase.PRECHECK, "precheck", ())
    assert decide(PRECHECK, checked()).state.phase is Phase.CLEANUP


@pytest.mark.parametrize("status", [Status.OK, Status.WARN, Status.UNKNOWN])
def test_only_a_failed_check_stops_a_start(status: Status) -> None:
    assert decide(PRECHECK, checked(finding(status))).state.phase is Phase.CLEANUP


def test_a_failed_check_holds_and_says_how_many_more_there_are() -> None:
    decision = decide(PRECHECK, checked(finding(), finding(code="exit-loop")))
    hold = decision.state.hold
    assert hold == Hold(
        FailureClass.PERMANENT,
        "check:spark2:ghost-path",
        "a ghost on spark2 (and 1 more: sparkd ctl check demo)",
        "on spark2: systemctl disable x",
        heals_itself=True,
    )
    assert (decision.state.phase, decision.reason) == (Phase.HELD, "held-check")


def test_what_is_not_yet_there_is_waited_for_on_a_young_node_only() -> None:
    gpu = finding(code="gpu", text="no GPU on spark2", not_yet=True)
    decision = decide(PRECHECK, checked(gpu, view=young("spark2")))
    assert (decision.state.phase, decision.reason) == (Phase.PRECHECK, "not-yet-gpu")
    assert decide(PRECHECK, checked(gpu, view=node("spark2"))).state.phase is Phase.HELD
    nowhere = finding(node=None, not_yet=True)
    assert decide(PRECHECK, checked(nowhere, view=young("spark2"))).state.phase is Phase.HELD


def held(found: Finding) -> State:
    """Held for that finding, long enough ago to be looked at again."""
    decision = decide(PRECHECK, checked(found))
    return replace(decision.state, since=NOW - 31)


def again(before: State, look: Snapshot) -> Decision:
    return decide(before, look)


def test_the_hold_heals_when_the_check_passes() -> None:
    decision = again(held(finding()), checked(finding(Status.OK), finding(code="exit-loop")))
    assert (decision.state.phase, decision.reason, decision.state.hold) == (Phase.PRECHECK, "healed", None)


@pytest.mark.parametrize("look", [
    checked(finding()),
    checked(finding(Status.UNKNOWN)),
    checked(finding(Status.OK), at=NOW - 32),
    replace(seen(), checks={}),
], ids=["still", "unknown", "old", "none"])  # fmt: skip
def test_the_hold_stays_until_the_check_is_known_to_pass(look: Snapshot) -> None:
    assert again(held(finding()), look).state.phase is Phase.HELD


def test_broken_hardware_waits_for_a_person() -> None:
    before = held(finding(code="gpu", cls=FailureClass.HARDWARE))
    assert before.hold is not None
    assert not before.hold.heals_itself
    assert again(before, checked()).state.phase is Phase.HELD


DIFFERS: dict[str, Any] = {
    "code": "drift",
    "node": None,
    "text": "differs from the last good (known-good 12) in: --max-num-seqs",
}


def test_what_breaks_it_stops_a_start_unless_a_person_forces_it() -> None:
    look = checked(finding(**DIFFERS))
    decision = decide(PRECHECK, look)
    assert decision.state.hold is not None
    assert (decision.state.phase, decision.state.hold.fact) == (Phase.HELD, "check::drift")
    assert decide(PRECHECK, look, replace(UP, forced=True)).state.phase is Phase.CLEANUP
    other = checked(finding(**DIFFERS), finding())
    assert decide(PRECHECK, other, replace(UP, forced=True)).state.phase is Phase.HELD, "only this check is forced"


@pytest.mark.parametrize("status", [Status.WARN, Status.FAIL])
def test_a_start_that_fails_is_explained_with_what_differs_first(status: Status) -> None:
    starting = state(Phase.WARMUP, ranks_started=(0, 1))
    look = seen(node("spark1", ended(0, 1)), node("spark2"))
    look = replace(look, checks={"demo": Checked(NOW, 0.1, (finding(status, **DIFFERS),))})
    failure = decide(starting, look).state.failure
    assert failure is not None
    assert failure.text.startswith(f"{DIFFERS['text']}; ")
    without = decide(starting, replace(look, checks={"demo": Checked(NOW, 0.1, ())})).state.failure
    assert without is not None
    assert failure.text == f"{DIFFERS['text']}; {without.text}"


def test_what_differs_explains_no_failure_of_a_group_that_served() -> None:
    look = seen(node("spark1", ended(0, 1)), node("spark2"))
    look = replace(look, checks={"demo": Checked(NOW, 0.1, (finding(Status.WARN, **DIFFERS),))})
    failure = decide(state(Phase.SERVE), look).state.failure
    assert failure is not None
    assert "differs" not in failure.text
