"""Memory that drains while nobody asks: when it is a trend, what is said, when it is over."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sparkd.decide.memory_drain import drain
from sparkd.model.memory_trail import MemoryTrail

from .memory_world import GIB, holders, program, slowly, trail, with_trail
from .world import decide, node, serving

VIEW = node("spark2")
HALF_AN_HOUR = slowly(8.0, 7.6, 7.2, 6.8)
DRAINS: dict[str, MemoryTrail] = {
    "half an hour": HALF_AN_HOUR,
    "an hour, slowly": slowly(8.0, 7.9, 7.8, 7.7, 7.6, 7.5, 7.4),
    "two hours, more slowly": slowly(*(4.0 - at * 0.05 for at in range(13))),
    "canaries are no work": slowly(8.0, 7.6, 7.2, 6.8, tokens=600.0),
    "after a time in which it stayed": slowly(8.0, 8.0, 8.0, 8.0, 7.6, 7.2, 6.8),
}
STAYS: dict[str, MemoryTrail] = {
    "nothing known": MemoryTrail(),
    "too few looks": slowly(8.0, 7.6, 7.2),
    "no fall worth a word": slowly(8.0, 7.9, 7.8, 7.7),
    "it rises": slowly(6.8, 7.2, 7.6, 8.0),
    "taken once, and kept": slowly(80.0, 8.0, 8.0, 8.0),
    "one step and back": slowly(8.0, 7.0, 8.0, 7.0),
    "not within a day": slowly(110.0, 109.8, 109.6, 109.4),
    "people ask": slowly(8.0, 7.6, 7.2, 6.8, tokens=5000.0),
    "whether people ask is not known": slowly(8.0, 7.6, 7.2, 6.8, tokens=None),
}


@pytest.mark.parametrize("found", DRAINS.values(), ids=DRAINS)
def test_f26_memory_that_drains_while_idle_is_a_trend(found: MemoryTrail) -> None:
    assert drain("spark2", found, VIEW, GIB) is not None


@pytest.mark.parametrize("found", STAYS.values(), ids=STAYS)
def test_f26_what_is_no_drain_is_not_said(found: MemoryTrail) -> None:
    assert drain("spark2", found, VIEW, GIB) is None
    assert decide(serving(), with_trail(found)).state.memory == ()


def test_f26_it_says_how_much_for_how_long_and_who() -> None:
    looks = HALF_AN_HOUR.slow
    first = replace(looks[0], holders=holders(program(812, 0.1)))
    last = replace(looks[-1], holders=holders(program(812, 1.2)))
    decision = decide(serving(), with_trail(replace(HALF_AN_HOUR, slow=(first, *looks[1:-1], last))))
    assert decision.events == (
        (
            "memory-drain",
            "spark2 loses memory while idle: 1.2 GiB in 30 min; 6.8 GiB are available, and 1.0 GiB in 2 h 25 min at this pace"
            "; most of that went to polkitd (pid 812), which grew by 1.1 GiB to 1.2 GiB",
        ),
    )
    assert decision.reason == "serving", "it is said, and nothing is done"


def test_f26_it_is_told_once_and_over_when_the_memory_is_back_or_stays() -> None:
    first = decide(serving(), with_trail(HALF_AN_HOUR))
    for still in (slowly(7.6, 7.2, 6.8, 6.4), slowly(6.8), MemoryTrail(), trail(6.5, None)):
        again = decide(first.state, with_trail(still))
        assert (again.state.memory, again.events) == (first.state.memory, ())
    over = decide(first.state, with_trail(trail(7.0, 7.5)))
    assert over.events == (("memory-back", "spark2 loses no more memory: 7.5 GiB available"),)
    stays = decide(first.state, with_trail(slowly(*[6.8] * 7)))
    assert [kind for kind, _ in stays.events] == ["memory-back"]
