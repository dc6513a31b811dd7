"""Does a node work, or do its ranks only wait? Recorded cards, and every way in which something is missing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from sparkd.decide.busyness import Busy, Node, Sign, of_node, together
from sparkd.decide.cpu_time import Used
from sparkd.model.effort import Effort, Efforts, Flow, GpuLoad, ProcessTime
from sparkd.model.snapshot import Unknown

from .loads import OWNER, WAITING_W, card, efforts, node, recorded

UNREAD = Unknown("no answer in 2 s", 1.0, "timeout")
GB = 1.2e9
WORKING, SPINNING, IDLE, UNKNOWN = Busy.WORKING, Busy.SPINNING, Busy.IDLE, Busy.UNKNOWN


def of_group(nodes: Sequence[Node]) -> Sign:
    return together([(one.name, of_node(one)) for one in nodes])


STATES = {
    "idle": (IDLE, None),
    "loaded-idle": (IDLE, None),
    "spin": (SPINNING, None),
    "decode-like": (WORKING, None),
    "prefill-like": (WORKING, None),
    "nccl: waiting": (IDLE, "waiting"),
    "nccl: all-reduce": (WORKING, "all-reduce"),
    "nccl: polling": (SPINNING, "polling"),
    "nccl: just-ended": (IDLE, "just-ended"),
}


@pytest.mark.parametrize(("name", "says"), [(name, says) for name, (says, _) in STATES.items()])
def test_f16_f18_every_recorded_sample_says_what_was_recorded(name: str, says: Busy) -> None:
    for sample in recorded(name.partition(":")[0], STATES[name][1]):
        assert of_node(node(gpu=sample)).says is says, sample


def test_f18_an_all_reduce_whose_peer_is_gone_is_no_work_on_either_side() -> None:
    """Recorded: rank 0 spins at 122.7 W where it waits at 120.3 W, rank 1 has not even begun."""
    first, second = recorded("nccl", "peer-gone")
    group = (node(gpu=first, waiting_w=120.3), node(name="spark2", gpu=second, waiting_w=121.3))
    sign = of_group(group)
    assert sign.says is SPINNING
    assert sign.words == (
        "spark1: GPU 100 % 123 W (120 W when it waits) memory 0 %, nothing on the fabric, rank 0 uses 1.0 cores; "
        "spark2: GPU 0 % 121 W (121 W when it waits) memory 0 %, nothing on the fabric, rank 0 uses 1.0 cores"
    )


def test_f16_an_all_reduce_over_sockets_looks_like_a_spin_and_its_bytes_tell() -> None:
    """Recorded: the card says 100 % at the power of waiting and no memory traffic, while it exchanges all that it can."""
    sample = recorded("nccl", "over-sockets")[0]
    assert of_node(node(gpu=sample)).says is SPINNING
    for kind in ("net", "rdma"):
        assert of_node(node(gpu=sample, efforts=efforts(0.5e9, kind=kind))).says is WORKING


CARDS: dict[str, tuple[GpuLoad, float | None, Busy]] = {
    # GB10: its memory says nothing, work was seen at 45 to 90 W, a spin at 15 to 30 W (vllm#46097, minefield#89).
    "gb10 in a prefill": (card(96, None, 60.0), 14.0, WORKING),
    "gb10 in a deadlock": (card(96, None, 20.0), 14.0, UNKNOWN),
    "gb10 in a deadlock, near its waiting power": (card(96, None, 17.0), 14.0, SPINNING),
    "gb10, and its waiting power is not known": (card(96, None, 60.0), None, UNKNOWN),
    "gb10 of which nothing is known": (card(None, None, None, None), 14.0, UNKNOWN),
    "no power, no memory, no kernel": (card(0, None, None), None, IDLE),
    "hot, but its memory is still": (card(96, 0, 60.0), 14.0, UNKNOWN),
    "memory moves, and no power is known": (card(96, 40, None), None, WORKING),
    "memory moves at the power of waiting": (card(96, 40, 14.0), 14.0, UNKNOWN),
    "a low clock under its power limit": (card(99, 23, 690.0, 0x4), WAITING_W, WORKING),
    "the same, and no waiting power is known": (card(99, None, 690.0, 0x4), None, WORKING),
    "under a power limit that waiting reaches too": (card(96, None, 14.0, 0x4), 14.0, SPINNING),
    "just over the waiting power": (card(100, 0, 1.25 * WAITING_W), WAITING_W, SPINNING),
    "between waiting and work": (card(100, None, 2 * WAITING_W), WAITING_W, UNKNOWN),
    "from where it is work": (card(100, None, 2.5 * WAITING_W), WAITING_W, WORKING),
}


@pytest.mark.parametrize(("gpu", "waiting", "says"), CARDS.values(), ids=CARDS.keys())
def test_cards(gpu: GpuLoad, waiting: float | None, says: Busy) -> None:
    assert of_node(node(gpu=gpu, waiting_w=waiting)).says is says


SPIN, PREFILL = recorded("spin")[0], recorded("prefill-like")[0]

MISSING: dict[str, tuple[dict[str, Any], Busy]] = {
    "no tool, a still fabric": ({"gpu": GpuLoad("missing", "", (), ())}, UNKNOWN),
    "no tool, a fabric that moves": ({"gpu": GpuLoad("missing", "", (), ()), "efforts": efforts(GB)}, WORKING),
    "a tool that fails": ({"gpu": GpuLoad("failed", "No devices were found", (), ())}, UNKNOWN),
    "a tool that is mute": ({"gpu": UNREAD}, UNKNOWN),
    "a spin, and an unread fabric": ({"gpu": SPIN, "efforts": UNREAD}, UNKNOWN),
    "a spin, and no second look at the fabric": ({"gpu": SPIN, "efforts": None}, UNKNOWN),
    "a spin of a node without peers": ({"gpu": SPIN, "efforts": None, "peers": False}, SPINNING),
    "work, and an unread fabric": ({"gpu": PREFILL, "efforts": UNREAD}, WORKING),
    "nothing was asked": ({"gpu": None, "efforts": None}, UNKNOWN),
    "a trickle on the fabric": ({"gpu": SPIN, "efforts": efforts(0.9e6)}, SPINNING),
    "CPU in a loop, and no GPU to be read": ({"gpu": UNREAD, "efforts": efforts(0.0, ("EngineCore", 3.0))}, UNKNOWN),
    "CPU in a loop, beside a spin": ({"gpu": SPIN, "efforts": efforts(0.0, ("EngineCore", 3.0))}, SPINNING),
    "a compiler at work": ({"gpu": SPIN, "efforts": efforts(0.0, ("VLLM::Worker", 1.0), ("ptxas", 0.9))}, WORKING),
    "compilers that ended meanwhile": ({"gpu": SPIN, "efforts": efforts(0.0, ended=0.8)}, WORKING),
    "a compiler that sleeps": ({"gpu": SPIN, "efforts": efforts(0.0, ("VLLM::Worker", 1.0), ("ninja", 0.0))}, SPINNING),
    "work of somebody else's program": ({"gpu": PREFILL, "pids": frozenset((77,))}, UNKNOWN),
    "work, and whose processes are ours is unread": ({"gpu": PREFILL, "pids": None}, WORKING),
    "work, and the tool does not say whose": ({"gpu": replace(PREFILL, pids=None)}, WORKING),
    "work beside a rank of another deployment": ({"gpu": PREFILL, "efforts": efforts(GB), "shared": True}, UNKNOWN),
    "a spin beside a rank of another deployment": ({"gpu": SPIN, "shared": True}, SPINNING),
    "a compiler beside a rank of another deployment": (
        {"gpu": SPIN, "shared": True, "efforts": efforts(0.0, ("cicc", 1.0))},
        WORKING,
    ),
    "without GPUs, on many cores": ({"hardware": "cpu", "gpu": None, "efforts": efforts(0, ("python", 6.0))}, WORKING),
    "without GPUs, in a loop": ({"hardware": "cpu", "gpu": None, "efforts": efforts(0, ("python", 1.0))}, UNKNOWN),
    "without GPUs, at rest": (
        {"hardware": "cpu", "gpu": None, "efforts": efforts(0, ("python", 0.01), kind="net")},
        IDLE,
    ),
    "without GPUs, RDMA is somebody else's": (
        {"hardware": "cpu", "gpu": None, "efforts": efforts(GB, ("python", 0.01))},
        IDLE,
    ),
}


@pytest.mark.parametrize(("known", "says"), MISSING.values(), ids=MISSING.keys())
def test_what_counts_and_what_is_missing(known: dict[str, Any], says: Busy) -> None:
    assert of_node(node(**known)).says is says


def test_one_node_that_works_is_enough_and_one_that_is_unread_is_too_many_for_a_spin() -> None:
    spins, works, unread = node(gpu=SPIN), node(gpu=PREFILL), node(gpu=UNREAD)
    rests = node()
    assert [of_group(group).says for group in ((spins, works), (unread, works), (spins, unread), (spins, rests))] == [
        WORKING,
        WORKING,
        UNKNOWN,
        SPINNING,
    ]
    assert (of_group((rests, rests)).says, of_group(()).says) == (IDLE, UNKNOWN)


def test_the_words_have_the_figures() -> None:
    working = node(gpu=PREFILL, efforts=efforts(GB, ("EngineCore", 1.3), ("nvcc", 0.5)))
    assert of_node(working).words == (
        "GPU 99 % 692 W (119 W when it waits) memory 23 % 1440 MHz under its power limit, 1.2 GB/s on the fabric, "
        "rank 0 compiles (nvcc) with 0.5 cores"
    )
    mute = node(gpu=UNREAD, efforts=efforts(45e6))
    assert of_node(mute).words == (
        "its GPU cannot be read (no answer in 2 s), 45.0 MB/s on the fabric, rank 0 uses 1.0 cores"
    )


def times(*processes: ProcessTime, at: float) -> Effort:
    return Effort(at, 100, processes, ())


def test_what_a_process_had_used_before_it_ended_is_no_work_of_now() -> None:
    """A worker that waited for days ends: all of its CPU time becomes that of a child of the rank's first process."""
    root, worker = ProcessTime(1, 10, OWNER, 50, 0, "sh"), ProcessTime(2, 11, OWNER, 9_000_000, 4_000, "VLLM::Worker")
    after = replace(root, child_ticks=9_000_000 + 4_000 + 20)
    used = Used.of(Efforts(times(root, worker, at=0.0), times(after, at=10.0)), OWNER)
    assert (used.known, used.cores, used.compiling) == (True, 0.02, 0.02)


def test_processes_of_others_and_other_processes_of_the_same_number_count_for_nothing() -> None:
    ours, other = ProcessTime(1, 10, OWNER, 50, 0, "sh"), ProcessTime(3, 10, "x", 0, 0, "ptxas")
    busy = replace(other, ticks=5_000)
    assert Used.of(Efforts(times(ours, other, at=0.0), times(ours, busy, at=10.0)), OWNER).compiling == 0
    reused = replace(ours, start_ticks=999, ticks=100_000)
    assert Used.of(Efforts(times(ours, at=0.0), times(reused, at=10.0)), OWNER) == Used()


def test_counters_that_were_set_to_zero_and_ways_that_are_new_tell_nothing() -> None:
    was, now = Flow("rdma", "one", 10**12, 10**12), Flow("rdma", "one", 5, 5)
    new = Flow("rdma", "two", 10**12, 10**12)
    looked = Efforts(Effort(0.0, 100, (), (was,)), Effort(15.0, 100, (), (now, new)))
    assert of_node(node(gpu=SPIN, efforts=looked)).says is SPINNING
    assert of_node(node(gpu=SPIN, efforts=replace(looked, before=Effort(0.0, 100, (), ())))).says is UNKNOWN
