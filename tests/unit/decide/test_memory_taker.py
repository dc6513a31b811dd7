"""Who takes a node's memory: two looks at who has it, compared."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sparkd.decide.memory_low import low
from sparkd.decide.memory_taker import grower, kept_cache
from sparkd.model.machine import Holders, Memory
from sparkd.model.memory_trail import MemoryLook, MemoryTrail
from sparkd.model.snapshot import NodeView, Unknown

from .memory_world import GIB, MIB, holders, look, pool, program
from .world import NOW, container, node

C, D = "c" * 64, "d" * 64
RANK = replace(container(1), id=C)
VIEW = node("spark2", RANK)
BEFORE, AFTER = pool(2.0), pool(0.9)
POLKITD = program(812, 0.2)


def named(before: Holders | None, after: Holders | None, had: Memory = BEFORE, has: Memory = AFTER) -> str:
    found = grower((look(5, had, before), look(0, has, after)), VIEW)
    return found.words if found is not None else ""


GROWS: dict[str, tuple[Holders, Holders, str]] = {
    "polkitd": (
        holders(POLKITD),
        holders(program(812, 1.2)),
        "polkitd (pid 812), which grew by 1.0 GiB to 1.2 GiB",
    ),
    "a browser that was not there": (
        holders(POLKITD),
        holders(program(900, 1.1, "/usr/lib/firefox/firefox -P"), POLKITD),
        "firefox (pid 900), which grew by 1.1 GiB to 1.1 GiB",
    ),
    "a new process of the same number": (
        holders(program(900, 0.9, "old"), program(2, 0.1)),
        holders(replace(program(900, 1.1, "new"), start_ticks=7), program(2, 0.1)),
        "new (pid 900), which grew by 1.1 GiB to 1.1 GiB",
    ),
    "a rank, by all its processes": (
        holders(program(1, 0.5, owner=C), program(2, 0.5, owner=C)),
        holders(program(1, 1.0, owner=C), program(2, 1.0, owner=C)),
        "container sparkd-demo-1, which grew by 1.0 GiB to 2.0 GiB",
    ),
    "a strange container": (
        holders(program(1, 0.5, owner=D)),
        holders(program(1, 1.5, owner=D)),
        f"container {D[:12]}, which grew by 1.0 GiB to 1.5 GiB",
    ),
    "files of a tmpfs": (
        holders(tmpfs=1.0, path="/mnt/hog"),
        holders(tmpfs=2.0, path="/mnt/hog"),
        "files in /mnt/hog, which grew by 1.0 GiB to 2.0 GiB",
    ),
    "a tmpfs that was not there": (
        holders(),
        holders(tmpfs=1.0, path="/mnt/hog"),
        "files in /mnt/hog, which grew by 1.0 GiB to 1.0 GiB",
    ),
    "what the GPU's driver has handed out": (
        holders(unaccounted=90),
        holders(unaccounted=91),
        "the kernel and the GPU's driver, which grew by 1.0 GiB to 91.0 GiB",
    ),
    "nobody by a good part of it": (holders(POLKITD), holders(program(812, 0.4)), ""),
    "nobody": (holders(POLKITD), holders(POLKITD), ""),
}


@pytest.mark.parametrize(("before", "after", "words"), GROWS.values(), ids=GROWS)
def test_what_grew_most_is_named(before: Holders, after: Holders, words: str) -> None:
    assert named(before, after) == words


def test_page_cache_that_does_not_return_is_named() -> None:
    """Locked files count as cached and not as available; what can be dropped counts as both."""
    locked = pool(0.9, cache=2.0, free=0.4)
    assert kept_cache(pool(2.0, cache=1.5)) == 0
    assert named(holders(), holders(), pool(2.0, cache=1.5), locked) == (
        "page cache that does not return, which grew by 1.5 GiB to 1.5 GiB"
    )


def test_a_rank_without_a_container_is_one_too() -> None:
    unit = replace(container(1), id="u1", runtime="process")
    view = node("spark2", units=(unit,))
    owner = "sparkd-demo-1.service"
    looks = (look(5, BEFORE, holders(program(1, 1, owner=owner))), look(0, AFTER, holders(program(1, 2, owner=owner))))
    found = grower(looks, view)
    assert found is not None
    assert (found.who, found.deployment) == ("unit sparkd-demo-1", "demo")


def test_without_the_holders_the_kernels_figures_must_do() -> None:
    assert named(None, None, pool(2.0, shm=1.0), pool(0.9, shm=2.0)).startswith("files in /dev/shm, which grew by 1.0")
    assert named(holders(POLKITD), None) == "", "of one look alone nobody is said to have grown"
    assert named(None, holders(program(812, 1.2))) == ""


def test_containers_that_cannot_be_listed_have_their_ids() -> None:
    blind = node("spark2", containers=Unknown("mute", NOW))
    looks = (look(5, BEFORE, holders()), look(0, AFTER, holders(program(1, 1, owner=C))))
    found = grower(looks, blind)
    assert found is not None
    assert (found.who, found.deployment) == (f"container {C[:12]}", "")


def test_what_grew_of_late_is_named_before_what_grew_since_the_start() -> None:
    """The rank has taken 90 GiB in ten minutes; the last one was taken by somebody else."""
    rank, browser = program(1, 90, "VLLM::Worker", owner=C), program(900, 1.2, "firefox")
    began = look(600, pool(100), holders())
    late = (look(10, pool(2.0), holders(rank)), look(0, pool(0.9), holders(rank, browser)))
    for looks, who in (
        ((began, *late), "firefox (pid 900)"),
        ((began, late[0], look(0, 0.9)), "container sparkd-demo-1"),
    ):
        found = low("spark2", MemoryTrail(looks), VIEW, GIB)
        assert found is not None
        assert found.growth is not None
        assert found.growth.who == who


FIXES: list[tuple[Holders, str]] = [
    (holders(program(812, 2)), "on spark2: end polkitd (pid 812), or restart it"),
    (holders(tmpfs=2, path="/mnt/hog"), "on spark2: remove files in /mnt/hog that nobody needs"),
    (holders(unaccounted=22), "give the ranks on spark2 less"),
    (holders(program(1, 2, owner=C)), "give the ranks on spark2 less"),
    (holders(program(1, 2, owner=D)), f"on spark2: stop container {D[:12]}, or give it less"),
    (holders(), "give the ranks on spark2 less"),
]


@pytest.mark.parametrize(("after", "fix"), FIXES)
def test_the_fix_is_about_what_grew(after: Holders, fix: str) -> None:
    found = low("spark2", MemoryTrail((look(5, BEFORE, holders()), look(0, AFTER, after))), VIEW, GIB)
    assert found is not None
    assert found.fix.startswith(fix)


def test_a_process_that_was_too_small_to_be_told_is_not_said_to_have_grown_from_nothing() -> None:
    """Twelve had more than a GiB then; the thirteenth may have had as much as the least of them."""
    twelve = [program(pid, 1.0) for pid in range(1, 13)]
    assert named(holders(*twelve), holders(*twelve, program(900, 1.2, "firefox"))) == ""
    assert named(holders(*twelve[1:]), holders(*twelve[1:], program(900, 1.2, "firefox"))).startswith("firefox")


@pytest.mark.parametrize("looks", [(), (look(0, AFTER, holders()),), (look(5, None), look(0, AFTER))])
def test_one_look_names_nobody(looks: tuple[MemoryLook, ...]) -> None:
    assert grower(looks, VIEW) is None


def test_a_view_of_nothing_names_processes_all_the_same() -> None:
    away: NodeView = node("spark2", boot=Unknown("unreachable", NOW))
    looks = (look(5, BEFORE, holders()), look(0, AFTER, holders(program(812, 1.1), unaccounted=20 + MIB / GIB)))
    found = grower(looks, away)
    assert found is not None
    assert found.who == "polkitd (pid 812)"
