"""The memory gate: what a node needs, who has the rest, how often it is measured, when it heals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from sparkd.decide import memory_need as memory
from sparkd.decide.machine import step
from sparkd.model.action import CleanNodes
from sparkd.model.config import Cleanup, Deployment
from sparkd.model.decision import Decision, FailureClass, Phase, State
from sparkd.model.machine import Holders, Memory, Process, Tmpfs
from sparkd.model.snapshot import NodeView, Snapshot, Unknown

from .world import DEPLOYMENT, NOW, POLICY, UP, container, decide, failed, kinds, node, seen, state, stray

GIB = 1 << 30
CLEANED = state(Phase.CLEANUP, cleaned=2)
C = "c" * 64


def pool(free: int, available: int, cache: int = 0, shm: int = 0) -> Memory:
    return Memory(120 * GIB, free * GIB, available * GIB, cache * GIB, shm * GIB, 0)


def with_memory(name: str, found: Memory | Unknown, **facts: Any) -> NodeView:
    return node(name, memory=found, **facts)


SMALL = with_memory("spark2", pool(11, 100, cache=89))
"""The second addendum of the first report: 11 of 120 GiB free, the rest page cache."""


def test_a_node_with_too_little_is_not_started_on() -> None:
    decision = decide(CLEANED, seen(SMALL))
    assert (decision.reason, decision.actions, decision.state.phase) == ("memory-wait", (), Phase.CLEANUP)
    text = (
        "spark2 has 11.0 GiB of memory free and the rank needs 108.0 GiB (0.9 of 120.0 GiB): 97.0 GiB are missing"
        "; most of it is held by the page cache (89.0 GiB)"
    )
    assert text in decision.sentence
    assert decision.events == (("waiting", f"waiting for memory: {text}"),)
    assert decision.next is not None
    assert decision.next.at == NOW + 30


def test_it_is_cleaned_and_measured_again_and_then_held() -> None:
    at, now, pauses, cleanings = CLEANED, NOW, [], 0
    decision = decide(at, seen(SMALL), now=now)
    while decision.state.phase is Phase.CLEANUP:
        if decision.state.retry_at is not None and decision.reason == "memory-wait":
            pauses.append(decision.state.retry_at - now)
            now = decision.state.retry_at
        at = decision.state
        if kinds(decision) == ["CleanNodes"]:
            cleanings += 1
            at = replace(at, cleaned=2)
        decision = decide(at, seen(SMALL), now=now)
    assert (pauses, cleanings) == ([30.0, 60.0, 120.0], 3)
    hold = decision.state.hold
    assert hold is not None
    assert (hold.cls, hold.fact, hold.heals_itself) == (FailureClass.RESOURCE, f"memory:spark2:{108 * GIB}", True)
    assert "97.0 GiB are missing" in hold.text
    assert hold.fix == "on spark2: free 97.0 GiB, or lower gpu-memory-utilization; sparkd goes on by itself"


def test_memory_that_comes_while_it_waits_is_enough_at_once() -> None:
    waiting = decide(CLEANED, seen(SMALL)).state
    assert decide(waiting, seen(), now=NOW + 5).reason == "begin"
    assert decide(waiting, seen(SMALL), now=NOW + 5).reason == "memory-wait"


def test_memory_that_cannot_be_read_is_waited_for() -> None:
    decision = decide(CLEANED, seen(with_memory("spark1", Unknown("no answer", NOW))))
    assert (decision.reason, decision.actions) == ("memory-unknown", ())
    assert decision.sentence == "cleaning up: the memory of spark1 (no answer) cannot be read"


HOLD = decide(replace(CLEANED, resource_tries=3), seen(SMALL)).state
FULL = with_memory("spark2", pool(11, 12))


@pytest.mark.parametrize(
    ("view", "drop", "heals"),
    [
        (SMALL, True, False),
        (with_memory("spark2", pool(11, 110)), True, True),
        (with_memory("spark2", pool(11, 110)), False, False),
        (with_memory("spark2", pool(109, 110)), False, True),
        (FULL, True, False),
        (with_memory("spark2", Unknown("no answer", NOW)), True, False),
    ],
)
def test_the_hold_heals_when_the_memory_is_there(view: NodeView, drop: bool, heals: bool) -> None:
    """What dropping caches would give back counts, where sparkd may drop them."""
    look = replace(seen(view), cleanup=Cleanup(drop_caches=drop))
    decision = decide(HOLD, look, now=NOW + 30)
    assert (decision.state.phase is Phase.PRECHECK) is heals


def test_two_nodes_are_both_told() -> None:
    both = seen(with_memory("spark1", pool(50, 50)), with_memory("spark2", pool(20, 20)))
    assert "spark2 has 20.0 GiB" in decide(CLEANED, both).sentence
    assert "(and 1 more of its nodes)" in decide(CLEANED, both).sentence


def configured(**memory: Any) -> Deployment:
    return replace(DEPLOYMENT, memory=memory)


RESERVE = {"head": "10GiB", "worker": "2GiB"}
CASES: list[tuple[Mapping[str, Any], Memory, str]] = [
    ({}, pool(108, 108), "begin"),
    ({}, pool(107, 119), "memory-wait"),
    ({"reads": "available"}, pool(107, 119), "begin"),
    ({"gate": "off"}, pool(0, 0), "begin"),
    ({"reserve": {"worker": "2GiB"}}, pool(109, 109), "memory-wait"),
    ({"reserve": {"worker": "2GiB"}}, pool(110, 110), "begin"),
    ({"reserve": {"head": "2GiB"}}, pool(109, 109), "begin"),
]


@pytest.mark.parametrize(("memory", "found", "reason"), CASES)
def test_what_a_rank_needs(memory: Mapping[str, Any], found: Memory, reason: str) -> None:
    deployment = configured(**memory)
    assert decide(CLEANED, seen(with_memory("spark2", found)), deployment=deployment).reason == reason


CACHED = pool(free=11, available=110, cache=99)
"""The page cache of an earlier start, as vllm#48140 has it."""


@pytest.mark.parametrize(
    ("image", "reason"), [("vllm:v0.23.0", "memory-wait"), ("vllm:v0.24.0", "begin"), ("vllm:nightly", "memory-wait")]
)
def test_f25_page_cache_counts_as_used_where_this_version_of_the_engine_counts_it_so(image: str, reason: str) -> None:
    """Measured after the cleanup: a version that reads MemFree would end in its own check, one that reads MemAvailable starts."""
    deployment = replace(DEPLOYMENT, image=image)
    look = seen(with_memory("spark2", CACHED, images={image: "sha256:1"}), node("spark1", images={image: "sha256:1"}))
    decision = decide(CLEANED, look, deployment=deployment)
    assert decision.reason == reason
    assert ("most of it is held by the page cache (99.0 GiB)" in decision.sentence) is (reason == "memory-wait")


def test_a_gate_that_is_off_asks_nothing() -> None:
    look = seen(with_memory("spark1", Unknown("no answer", NOW)))
    assert decide(CLEANED, look, deployment=configured(gate="off")).reason == "begin"


def test_the_reserve_is_told() -> None:
    said = decide(CLEANED, seen(SMALL), deployment=configured(reserve={"worker": "2GiB"})).sentence
    assert "(0.9 of 120.0 GiB and 2.0 GiB in reserve)" in said


# -------------------------------------------------------------------------------------------------------- who has it


def process(pid: int, own: int, owner: str = "-", title: str = "/usr/bin/python3 train.py") -> Process:
    return Process(pid, 1, pid, "R", own * GIB, owner, title)


HELD = Holders(
    tmpfs=(Tmpfs("/mnt/hog", 40 * GIB), Tmpfs("/run", 4096)),
    processes=(process(7, 20), process(8, 9, C, "VLLM::Worker"), process(9, 3, C), process(10, 1, "a.service")),
    unaccounted=30 * GIB,
    unaccounted_at_boot=2 * GIB,
)


def biggest(**facts: Any) -> tuple[str, ...]:
    found = memory.shorts(DEPLOYMENT, seen(with_memory("spark2", pool(11, 12, cache=1, shm=2), **facts)).nodes)
    return found[0].biggest


def test_the_biggest_holders_are_named() -> None:
    assert biggest(holders=HELD) == (
        "files in /mnt/hog (40.0 GiB)",
        "the kernel and the GPU's driver (30.0 GiB)",
        "python3 (pid 7) (20.0 GiB)",
        f"container {C[:12]} (12.0 GiB)",
    )


def test_a_container_of_ours_has_its_name() -> None:
    ours = replace(container(0, deployment="other"), id=C, name="sparkd-other-0")
    assert f"container {ours.name} (12.0 GiB)" in biggest(holders=HELD, containers=(ours,))
    assert f"container {C[:12]} (12.0 GiB)" in biggest(holders=HELD, containers=Unknown("mute", NOW))


@pytest.mark.parametrize("holders", [None, Unknown("no such probe", NOW)])
def test_without_the_holders_the_kernels_figures_must_do(holders: Unknown | None) -> None:
    assert biggest(holders=holders) == ("files in /dev/shm (2.0 GiB)", "the page cache (1.0 GiB)")


def test_page_cache_is_nobodys_where_the_engine_reads_what_is_available() -> None:
    views = seen(with_memory("spark2", pool(11, 12, cache=60))).nodes
    assert memory.shorts(configured(reads="available"), views)[0].biggest == ()


LEAKS: list[tuple[dict[str, Any], bool]] = [
    ({"holders": HELD}, True),
    ({"holders": HELD, "engines": (stray(),)}, False),
    ({"holders": HELD, "engines": Unknown("no answer", NOW)}, False),
    ({"holders": replace(HELD, unaccounted_at_boot=None)}, False),
    ({"holders": replace(HELD, unaccounted_at_boot=27 * GIB)}, False),
    ({"holders": None}, False),
]


@pytest.mark.parametrize(("facts", "leaks"), LEAKS)
def test_memory_that_did_not_come_back_needs_a_reboot(facts: dict[str, Any], leaks: bool) -> None:
    short = memory.shorts(DEPLOYMENT, seen(with_memory("spark2", pool(11, 12), **facts)).nodes)[0]
    assert ("28.0 GiB did not come back since the engines ended" in short.text) is leaks
    assert ("reboot" in short.fix) is leaks


# ------------------------------------------------------------------------------------------------------- the cleaning


def cleaning(before: State, look: Snapshot, **wish: Any) -> CleanNodes:
    decision: Decision = step(DEPLOYMENT, before, look, replace(UP, **wish), POLICY, NOW)
    (action,) = decision.actions
    assert isinstance(action, CleanNodes)
    return action


def test_what_is_cleaned_is_what_is_allowed_and_asked_for() -> None:
    before = state(Phase.CLEANUP)
    assert cleaning(before, seen()) == CleanNodes(("spark1", "spark2"), 2, drop_caches=True)
    swapping = replace(seen(), cleanup=Cleanup(swapoff=True))
    assert cleaning(before, swapping).swapoff is True
    assert cleaning(before, seen(), clean=3, restart=0).clean == 3
    assert cleaning(replace(before, clean_done=3), seen(), clean=3).clean == 0, "once for each time it was asked"


def test_a_wish_for_empty_caches_is_answered_by_one_cleaning() -> None:
    action = CleanNodes(("spark1", "spark2"), 2, drop_caches=True, clean=3)
    after = decide(state(Phase.CLEANUP), seen(outcome=failed(action))).state
    assert (after.clean_done, after.phase) == (3, Phase.START_WORKERS)
