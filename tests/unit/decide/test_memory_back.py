"""After a teardown: a start waits while memory comes back, in figures, and names what does not come back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sparkd.model.decision import FailureClass, Phase, State
from sparkd.model.machine import Memory
from sparkd.model.memory_trail import MemoryTrail
from sparkd.model.snapshot import Snapshot, Unknown

from .memory_world import GIB, holders, pool, program, trail
from .world import DEPLOYMENT, NOW, decide, kinds, node, seen, state

CLEANED: State = state(Phase.CLEANUP, cleaned=2, memory_before=(("spark1", 117 * GIB), ("spark2", 117 * GIB)))
AVAILABLE = replace(DEPLOYMENT, memory={"reads": "available"}, args={"gpu-memory-utilization": "0.5"})
"""60 of 120 GiB."""


def after_teardown(*available: float | None, every_s: float = 1.0, **facts: Any) -> Snapshot:
    memory: Memory | Unknown = pool(available[-1]) if available[-1] is not None else Unknown("no answer", NOW)
    look = seen(node("spark1", memory=pool(117)), node("spark2", memory=memory, **facts))
    return replace(look, memory={"spark2": trail(*available, every_s=every_s)})


WAITS = {
    "less than the rank needs": after_teardown(2.0, 40.0),
    "enough already, and more is coming": after_teardown(2.0, 70.0),
    "by the loop's own looks": after_teardown(2.0, 70.0, every_s=5.0),
}
BEGINS = {
    "all of it is back": after_teardown(2.0, 117.0),
    "as good as all": after_teardown(2.0, 116.0),
    "enough, and no more is coming": after_teardown(70.0, 70.0),
    "enough, and less than the kernel moves is coming": after_teardown(70.0, 70.1),
    "enough, by the first look": after_teardown(70.0),
    "enough, and the look before is from before a gap": after_teardown(2.0, 70.0, every_s=16.0),
}


@pytest.mark.parametrize("look", WAITS.values(), ids=WAITS)
def test_a_start_waits_while_memory_comes_back(look: Snapshot) -> None:
    decision = decide(CLEANED, look, deployment=AVAILABLE)
    assert (decision.reason, decision.actions, decision.state.phase) == ("memory-returns", (), Phase.CLEANUP)
    assert decision.state.resource_tries == 0, "it costs no try"
    assert "of 117.0 GiB before generation 1" in decision.sentence


@pytest.mark.parametrize("look", BEGINS.values(), ids=BEGINS)
def test_a_start_begins_as_soon_as_no_more_comes(look: Snapshot) -> None:
    assert decide(CLEANED, look, deployment=AVAILABLE).reason == "begin"


def test_the_sentence_has_the_figures() -> None:
    said = decide(CLEANED, after_teardown(2.0, 40.0, 70.0), deployment=AVAILABLE).sentence
    assert said == (
        "waiting for the memory of the last generation: spark2 has 70.0 GiB available, up by 30.0 GiB in 1 s, "
        "of 117.0 GiB before generation 1"
    )


def test_a_first_start_and_one_without_a_gate_wait_for_nothing() -> None:
    look = after_teardown(2.0, 70.0)
    assert decide(replace(CLEANED, memory_before=()), look, deployment=AVAILABLE).reason == "begin"
    off = replace(AVAILABLE, memory={"gate": "off"})
    assert decide(CLEANED, look, deployment=off).reason == "begin"
    own = replace(AVAILABLE, hardware="gpu")
    assert decide(CLEANED, look, deployment=own).reason == "begin"


def test_memory_that_cannot_be_read_is_not_taken_for_back() -> None:
    assert decide(CLEANED, after_teardown(2.0, 70.0, None), deployment=AVAILABLE).reason == "memory-unknown"


def test_f26_memory_that_does_not_come_back_is_held_named_and_heals_itself() -> None:
    who = holders(program(812, 90.0))
    look = after_teardown(20.0, 20.0, holders=who)
    at, now, tries = CLEANED, NOW, 0
    decision = decide(at, look, now=now, deployment=AVAILABLE)
    while decision.state.phase is Phase.CLEANUP and tries < 20:
        tries += 1
        if decision.state.retry_at is not None:
            now = decision.state.retry_at
        at = replace(decision.state, cleaned=2) if kinds(decision) == ["CleanNodes"] else decision.state
        decision = decide(at, replace(look, memory={"spark2": MemoryTrail()}), now=now, deployment=AVAILABLE)
    hold = decision.state.hold
    assert hold is not None
    assert (hold.cls, hold.heals_itself) == (FailureClass.RESOURCE, True)
    assert "40.0 GiB are missing" in hold.text
    assert "polkitd (pid 812) (90.0 GiB)" in hold.text
    assert "97.0 GiB of the 117.0 GiB that it had before generation 1 did not come back" in hold.text
    healed = decide(decision.state, after_teardown(117.0), now=now + 30, deployment=AVAILABLE)
    assert healed.state.phase is Phase.PRECHECK
