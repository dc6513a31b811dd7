"""Broken hardware is held for a person, who is told what to do; nothing is done on its peers, and nothing twice."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sparkd.model.action import SendCanary, StopRanks
from sparkd.model.check import Checked, Finding, Level, Status
from sparkd.model.decision import FailureClass, Hold, Phase, State, Watch
from sparkd.model.machine import Boot
from sparkd.model.snapshot import Snapshot, Unknown
from sparkd.model.upkeep import Echo, Upkeep

from .world import (
    HEALTHY,
    NOW,
    POLICY,
    STOPPED,
    UP,
    answer,
    away,
    both,
    container,
    decide,
    failed,
    kinds,
    node,
    seen,
    serving,
    state,
)
from .world import process as rank_process

SILENT = Unknown("timed out: spark2 does not answer", NOW - 301, "unreachable", silent=True)
YES, NO, CANNOT = Echo("spark1", "lan", True), Echo("spark1", "lan", False), Echo("spark1", "lan", None)
FAILING = Watch(tokens=20.0, canary_at=NOW - 20, canary_failing_since=NOW - 200, canary_failures=3)


def frozen(*echoes: Echo, why: Unknown = SILENT, **more: Any) -> Snapshot:
    """spark2 says nothing to SSH; rank 0 runs on spark1."""
    look = seen(node("spark1", container(0)), away("spark2", why), engine=HEALTHY)
    return replace(look, echoes={"spark2": echoes}, **more)


DOWN: list[tuple[State, str]] = [
    (serving(FAILING), "serve"),
    (state(Phase.BACKOFF, retry_at=NOW + 60), "backoff"),
    (state(Phase.PRECHECK), "precheck"),
    (state(Phase.CLEANUP), "cleanup"),
    (state(Phase.ADOPTING, before=Phase.SERVE), "serve"),
    (state(Phase.ADOPTING, before=Phase.BACKOFF), "backoff"),
]


@pytest.mark.parametrize(("before", "phase"), DOWN, ids=lambda one: one if isinstance(one, str) else one.phase)
def test_f50_a_node_that_answers_pings_and_no_ssh_is_held_with_what_a_person_must_do(before: State, phase: str) -> None:
    decision = decide(before, frozen(YES, Echo("spark1", "fabric", False)))
    hold = decision.state.hold
    assert (decision.state.phase, decision.reason, decision.actions) == (Phase.HELD, "held-node", ())
    assert hold is not None
    assert (hold.cls, hold.fact, hold.heals_itself) == (FailureClass.HARDWARE, f"node:spark2:{phase}", True)
    assert hold.text == "spark2 answers pings, and neither SSH nor its node service: its programs are frozen"
    assert hold.fix.startswith("hold the power button of spark2 until it is off")
    told = [kind for kind, _ in decision.events]
    assert told == (["failed", "held"] if phase == "serve" else ["held"])
    if phase == "serve":
        failure = decision.state.failure
        assert failure is not None
        assert (failure.cls, failure.signature) == (FailureClass.HARDWARE, "node-frozen")
        assert failure.evidence == (
            "pings are answered to spark1 (lan)",
            "SSH for 5 min: timed out: spark2 does not answer",
        )


def test_f50_where_there_is_a_power_hook_the_fix_names_it() -> None:
    look = frozen(YES, upkeep={"spark2": Upkeep(hook=True)})
    hold = decide(serving(FAILING), look).state.hold
    assert hold is not None
    assert hold.fix.startswith("`sparkd ctl nodes power-cycle spark2`, or hold the power button")


NOT_FROZEN: list[tuple[str, State, Snapshot]] = [
    ("it answers", serving(), frozen(YES)),
    ("one failed canary is none", serving(replace(FAILING, canary_failures=1)), frozen(YES)),
    ("pings are lost too", serving(FAILING), frozen(NO)),
    ("nobody could ping", serving(FAILING), frozen(CANNOT)),
    ("nobody was asked", serving(FAILING), frozen()),
    ("not for long enough", serving(FAILING), frozen(YES, why=replace(SILENT, since=NOW - 299))),
    ("refused is an answer", serving(FAILING), frozen(YES, why=replace(SILENT, silent=False))),
    ("a start has its own budget", state(Phase.START_HEAD), frozen(YES)),
]


@pytest.mark.parametrize(("before", "look"), [one[1:] for one in NOT_FROZEN], ids=[one[0] for one in NOT_FROZEN])
def test_f50_what_else_an_unread_node_may_be_is_unknown_and_held_for_nothing(before: State, look: Snapshot) -> None:
    decision = decide(before, look)
    assert decision.state.phase is before.phase
    assert not [action for action in decision.actions if not isinstance(action, SendCanary)]
    assert decide(state(Phase.STOPPED), frozen(YES), STOPPED).state.phase is Phase.STOPPED


HELD = decide(serving(FAILING), frozen(YES)).state


def test_f50_nothing_is_done_on_the_peer_however_long_it_takes() -> None:
    at = HELD
    for minutes in range(0, 600, 7):
        decision = decide(at, frozen(YES), now=NOW + minutes * 60)
        at = decision.state
        assert at.phase is Phase.HELD
        assert set(kinds(decision)) <= {"SendCanary"}


def test_f50_a_group_that_answers_after_all_is_not_held_any_more() -> None:
    """Its node has lost its sshd and no more: what serves is served on, and nothing is restarted."""
    (canary,) = decide(HELD, frozen(YES), now=NOW + 30).actions
    good = answer(canary, ok=True, sent_at=NOW + 31)
    decision = decide(HELD, frozen(YES, outcomes={"demo": replace(good, ended_at=NOW + 33)}), now=NOW + 35)
    assert decision.state.phase is Phase.HELD, "the answer that counts here is one that ended after the hold began"
    value = replace(good.value, sent_at=NOW + 31, ended_at=NOW + 32)  # type: ignore[type-var]
    decision = decide(HELD, frozen(YES, outcomes={"demo": replace(good, value=value)}), now=NOW + 35)
    assert (decision.state.phase, decision.reason, decision.state.hold) == (Phase.SERVE, "healed", None)
    after = decide(decision.state, frozen(YES), now=NOW + 40)
    assert (after.state.phase, after.reason) == (Phase.SERVE, "node-unknown")


def test_f50_a_node_that_is_back_is_looked_at_before_anything_is_done() -> None:
    back = decide(HELD, both(), now=NOW + 60)
    assert (back.state.phase, back.state.before, back.reason, back.actions) == (
        Phase.ADOPTING,
        Phase.SERVE,
        "healed",
        (),
    )
    adopted = decide(back.state, both(), now=NOW + 60)
    assert (adopted.state.phase, adopted.state.generation) == (Phase.SERVE, 1), "its ranks run: nothing is restarted"


def test_f50_a_node_that_was_power_cycled_is_started_on_anew_at_no_cost() -> None:
    booted = node("spark2", boot=Boot("spark2-boot2", 0, 40.0))
    look = seen(node("spark1", container(0)), booted, engine=HEALTHY)
    back = decide(HELD, look, now=NOW + 60)
    anew = decide(back.state, look, now=NOW + 60)
    assert (anew.state.phase, anew.reason) == (Phase.PRECHECK, "rebooted")
    assert anew.state.failures == 0


def test_f50_a_restarted_sparkd_still_holds_it() -> None:
    from sparkd.decide.standing import woken

    at = woken(HELD, NOW + 100)
    for seconds in (100, 105, 110):
        decision = decide(at, frozen(YES), now=NOW + seconds)
        at = decision.state
        assert decision.actions == ()
    assert at.before is Phase.HELD
    back = decide(at, both(), now=NOW + 200).state
    assert back.phase is Phase.HELD
    assert decide(back, both(), now=NOW + 205).state.before is Phase.SERVE


# -------------------------------------------------------------------------------------------------- a GPU that is gone

XID = Finding(
    code="gpu",
    severity=Level.FAIL,
    status=Status.FAIL,
    node="spark2",
    text="Xid 79 on spark2 since its boot: the GPU has fallen off the bus",
    fix="take its power",
    cls=FailureClass.HARDWARE,
)
D_STATE = node("spark2", container(1), processes=(rank_process(container(1), 501, "D"),))


@pytest.mark.parametrize("phase", [Phase.BACKOFF, Phase.CLEANUP])
def test_f07_a_rank_that_cannot_be_killed_is_held_as_hardware_with_the_xid_behind_it(phase: Phase) -> None:
    """Process in D state, GPU off the bus: stop and kill hang (moby/moby#22802, nvidia-docker#1553)."""
    rank = StopRanks((), 30.0)
    look = replace(seen(D_STATE), outcomes={"demo": failed(rank)}, checks={"demo": Checked(NOW, 0.1, (XID,))})
    decision = decide(state(phase, since=NOW - 400, retry_at=NOW), look)
    hold = decision.state.hold
    assert hold is not None
    assert (decision.state.phase, hold.cls, hold.fact) == (Phase.HELD, FailureClass.HARDWARE, "gone:spark2")
    assert hold.text.startswith("what runs on spark2 cannot be stopped: ")
    assert hold.text.endswith("Xid 79 on spark2 since its boot: the GPU has fallen off the bus")
    assert hold.fix == "take its power"
    # No second start, however well everything else looks: only what is verified gone may be started again.
    at = decision.state
    for minutes in range(1, 120, 10):
        later = decide(at, replace(look, outcomes={}), now=NOW + minutes * 60)
        at = later.state
        assert (at.phase, set(kinds(later)) <= {"StopRanks", "CaptureEvidence"}) == (Phase.HELD, True)


def checked(at: float, *found: Finding) -> dict[str, Checked]:
    return {"demo": Checked(at, 0.1, found)}


def test_a_fatal_xid_holds_the_next_start_for_a_person_and_a_boot_of_that_node_is_one() -> None:
    at = decide(state(Phase.PRECHECK, since=NOW - 5), replace(seen(), checks=checked(NOW, XID))).state
    assert at.hold == Hold(
        FailureClass.HARDWARE,
        "check:spark2:gpu",
        XID.text,
        "take its power; sparkd looks again after the next boot of spark2",
        heals_itself=False,
    )
    well = replace(seen(), checks=checked(NOW + 3600))
    same_boot = decide(at, well, now=NOW + 3700)
    assert same_boot.state.phase is Phase.HELD, "broken hardware that looks well again by itself is no proof"
    booted = node("spark2", boot=Boot("spark2-boot2", 0, 100.0))
    again = replace(seen(booted), checks=checked(NOW + 3650))
    assert decide(at, again, now=NOW + 3700).state.phase is Phase.PRECHECK
    still = replace(seen(booted), checks=checked(NOW + 3650, XID))
    assert decide(at, still, now=NOW + 3700).state.phase is Phase.HELD
    elsewhere = replace(seen(node("spark1", boot=Boot("b2", 0, 100.0))), checks=checked(NOW + 3650))
    assert decide(at, elsewhere, now=NOW + 3700).state.phase is Phase.HELD, "another node's boot mends nothing"


def test_the_limit_is_the_policys() -> None:
    patient = replace(POLICY, gone_after=900.0)
    assert decide(serving(FAILING), frozen(YES), UP, policy=patient).state.phase is Phase.SERVE
