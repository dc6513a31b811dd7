"""What runs is watched and stopped as it was started; its file, edited meanwhile, counts from the next start on."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sparkd.model.action import CleanNodes, KillProcesses, StartRanks, StopRanks
from sparkd.model.config import Health, Policy, as_started
from sparkd.model.decision import Cause, Hold, Phase, State
from sparkd.model.decision import FailureClass as Class
from sparkd.model.snapshot import Unknown

from .world import (
    DEPLOYMENT,
    HEALTHY,
    NOW,
    PAUSED,
    STOPPED,
    UP,
    both,
    container,
    decide,
    ended,
    node,
    process,
    seen,
    serving,
    state,
)

MOVED = replace(DEPLOYMENT, nodes=("spark3", "spark1"), port=9000, image="vllm:2", digest="d2")
"""The file as it is now: another head, the old head as worker, another port and image."""
NEW = {"images": {"vllm:1": "sha256:1", "vllm:2": "sha256:2"}}
SPARK3 = node("spark3", **NEW)


def started(phase: Phase, **more: Any) -> State:
    return state(phase, started=DEPLOYMENT, **more)


def test_a_moved_file_ends_nothing_that_serves() -> None:
    look = seen(node("spark1", container(0)), node("spark2", container(1)), SPARK3, engine=HEALTHY)
    assert decide(serving(started=DEPLOYMENT), look, deployment=MOVED).state.phase is Phase.SERVE
    assert decide(serving(), look, deployment=MOVED).state.phase is not Phase.SERVE, "judged by the file it is lost"


def test_how_it_is_watched_counts_at_once() -> None:
    edited = replace(MOVED, policy=Policy(period=9.0), health=Health(canary_after=7.0), file="/moved.yaml")
    judged = as_started(DEPLOYMENT, edited)
    assert (judged.nodes, judged.port, judged.digest) == (DEPLOYMENT.nodes, 8000, "d1")
    assert (judged.policy.period, judged.health.canary_after, judged.file) == (9.0, 7.0, "/moved.yaml")
    same = replace(DEPLOYMENT, health=Health(canary_after=7.0))
    assert as_started(DEPLOYMENT, same) is same


def test_a_lost_rank_is_that_of_the_old_node() -> None:
    look = seen(node("spark1", container(0)), node("spark2", ended(1, 137)), SPARK3)
    decision = decide(serving(started=DEPLOYMENT), look, deployment=MOVED)
    assert decision.state.failure is not None
    assert "rank 1 on spark2" in decision.state.failure.text


def test_a_restart_looks_at_what_the_file_wants_and_stops_what_runs() -> None:
    asked = replace(UP, restart=1)
    restarting = decide(serving(started=DEPLOYMENT), both(), asked, deployment=MOVED).state
    assert (restarting.phase, restarting.started) == (Phase.PRECHECK, DEPLOYMENT)
    look = seen(node("spark1", container(0), **NEW), node("spark2", container(1)), node("spark3"))
    waiting = decide(restarting, look, asked, deployment=MOVED)
    assert waiting.sentence == "looking for the image and the mounts on spark3 (not asked yet)"
    look = seen(node("spark1", container(0), **NEW), node("spark2", container(1)), SPARK3)
    passed = decide(restarting, look, asked, deployment=MOVED).state
    assert passed.phase is Phase.CLEANUP
    stop = decide(passed, look, asked, deployment=MOVED).actions[0]
    assert isinstance(stop, StopRanks)
    assert [one.node for one in stop.targets] == ["spark1"]


def test_nothing_may_be_left_on_the_old_nodes_nor_on_the_new_ones() -> None:
    cleaning = started(Phase.CLEANUP)
    unasked = seen(node("spark1", **NEW), node("spark2", leftovers={}), SPARK3)
    assert "spark2" in decide(cleaning, unasked, deployment=MOVED).sentence
    stray = seen(node("spark1", **NEW), node("spark3", leftovers={"demo": (process("-"),)}, **NEW))
    assert isinstance(decide(cleaning, stray, deployment=MOVED).actions[0], KillProcesses)


def test_the_next_generation_is_the_files() -> None:
    look = seen(node("spark1", **NEW), SPARK3)
    clean = decide(started(Phase.CLEANUP), look, deployment=MOVED)
    assert isinstance(clean.actions[0], CleanNodes)
    assert clean.actions[0].nodes == ("spark3", "spark1")
    begun = decide(started(Phase.CLEANUP, cleaned=2), look, deployment=MOVED).state
    assert (begun.generation, begun.started, begun.digest) == (2, MOVED, "d2")
    assert begun.images == (("spark3", "sha256:2"), ("spark1", "sha256:2"))
    start = decide(begun, look, deployment=replace(MOVED, nodes=("spark2",), digest="d3")).actions[0]
    assert isinstance(start, StartRanks), "all ranks of a generation are started by one and the same file"


def test_once_stopped_only_the_file_counts() -> None:
    gone = decide(started(Phase.STOPPED, digest="d1"), seen(SPARK3), STOPPED, deployment=MOVED).state
    assert (gone.started, gone.digest) == (None, "d1")
    running = decide(started(Phase.STOPPED), both(), STOPPED, deployment=MOVED).state
    assert running.started == DEPLOYMENT
    away = Unknown("unreachable", NOW - 70, "unreachable")
    blind = seen(replace(node("spark2"), boot=away, docker=away, containers=away))
    lost = decide(started(Phase.STOPPED), blind, replace(STOPPED, lost=frozenset({"spark2"}))).state
    assert lost.started == DEPLOYMENT, "what runs on a lost node was seen by nobody"


def test_what_was_adopted_is_kept_as_it_was_started() -> None:
    adopted = decide(started(Phase.ADOPTING, before=Phase.SERVE), both(), deployment=MOVED).state
    assert (adopted.phase, adopted.started) == (Phase.SERVE, DEPLOYMENT)
    unknown = decide(state(Phase.ADOPTING, before=Phase.SERVE), both()).state
    assert unknown.started == DEPLOYMENT, "of an older journal: by its file, from here on"


def test_labels_newer_than_the_journal_are_judged_by_the_file() -> None:
    look = seen(node("spark3", container(0, 5)), node("spark1", container(1, 5)), node("spark2"))
    before = started(Phase.ADOPTING, before=Phase.SERVE, boots=())
    adopted = decide(before, look, deployment=MOVED).state
    assert (adopted.generation, adopted.started, adopted.cause) == (5, MOVED, Cause.ADOPT)


def test_a_paused_one_is_counted_by_its_own_ranks() -> None:
    assert decide(started(Phase.PAUSED), both(), PAUSED, deployment=MOVED).sentence.endswith("2 of 2 ranks run")


# --------------------------------------------------------------------------------------------------------------- holds


def held(fact: str, **more: Any) -> State:
    return state(Phase.HELD, hold=Hold(Class.PERMANENT, fact, "it is missing", "put it there", True), **more)


def test_a_hold_is_looked_at_every_half_minute() -> None:
    missing = seen(node("spark2", paths={"/models": "missing"}))
    first = decide(held("mount:spark2:/models", since=NOW - 31), missing)
    assert (first.state.phase, first.state.retry_at) == (Phase.HELD, NOW + 30)
    assert first.next is not None
    assert first.next.at == NOW + 30
    assert decide(first.state, seen(), now=NOW + 29).state.phase is Phase.HELD
    healed = decide(first.state, seen(), now=NOW + 30).state
    assert (healed.phase, healed.retry_at) == (Phase.PRECHECK, None)


IMAGES = (("spark1", "sha256:1"), ("spark2", "sha256:1"))


@pytest.mark.parametrize(
    ("images", "found", "phase"),
    [
        (IMAGES, "sha256:1", Phase.HELD),
        (IMAGES, "sha256:9", Phase.PRECHECK),
        (IMAGES, None, Phase.HELD),
        ((), "sha256:9", Phase.HELD),
    ],
)
def test_another_image_behind_the_tag_heals_a_hold_for_an_exit(
    images: tuple[tuple[str, str], ...], found: str | None, phase: Phase
) -> None:
    look = seen(node("spark2", images={"vllm:1": found}))
    assert decide(held("exit:127", images=images, since=NOW - 60), look).state.phase is phase
    unread = seen(node("spark2", images=Unknown("no answer", NOW)))
    assert decide(held("exit:127", images=images, since=NOW - 60), unread).state.phase is Phase.HELD
