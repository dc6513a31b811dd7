"""What is remembered of memory outlives sparkd; a state that was written before there was such a thing is read as it is."""

from __future__ import annotations

from dataclasses import replace

from sparkd.base.json_codec import decode, encode
from sparkd.fleet.ledger import durable
from sparkd.model.decision import Phase, State
from sparkd.model.memory_trail import MemoryEpisode

KEPT = State(
    phase=Phase.SERVE,
    memory_before=(("spark1", 110 << 30),),
    memory=(MemoryEpisode("low", "spark1", 1.7e9, 900 << 20, "text", "fix", acted=True),),
)


def test_it_is_read_as_it_was_written() -> None:
    assert decode(State, encode(KEPT)) == KEPT
    assert durable(KEPT).memory == KEPT.memory
    assert durable(replace(KEPT, memory=())) != durable(KEPT), "it is worth a write"


def test_a_state_without_it_has_none() -> None:
    old = {key: value for key, value in encode(KEPT).items() if not key.startswith("memory")}
    assert (decode(State, old).memory, decode(State, old).memory_before) == ((), ())
