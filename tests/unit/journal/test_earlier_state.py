"""A state folder as an earlier sparkd left it, when it was killed while its deployment served: everything in it is read.

It was written by 4c16460: a start, a rank that died, the start after it, a restart that a person asked for, and a generation that was
blessed. What this version writes instead may differ; what it reads may not.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from sparkd.api import captures
from sparkd.background.known_good_store import Store
from sparkd.journal import Journal
from sparkd.journal.moment import now
from sparkd.model.decision import FailureClass, Phase

EARLIER = Path(__file__).with_name("state_of_4c16460")
SAVED_AT, SAVED_WALL = 15497.549599922, 1795936250.3558803


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(EARLIER, tmp_path / "state"))


async def test_state_and_intent_are_read(folder: Path) -> None:
    journal = await opened(folder)
    state, intent = (await journal.load_states())["demo"], (await journal.load_intents())["demo"]
    assert (state.phase, state.generation, state.highest, state.ranks_started) == (Phase.SERVE, 3, 3, (0, 1))
    assert state.failure is not None
    assert (state.failure.cls, state.failure.signature, state.failure.rank) == (FailureClass.TRANSIENT, "exit-0", 1)
    assert state.started is not None
    assert (state.started.nodes, state.started.args["max-model-len"]) == (("spark1", "spark2"), 4096)
    assert state.started.policy.stalled_after == 8.0
    assert (intent.wanted, intent.restart, intent.by, intent.message) == ("up", 1, "root", "a new start")
    assert (state.outage, state.last_outage, journal.outages()) == (None, None, [])
    await journal.aclose()


async def test_its_times_are_on_the_clock_of_this_boot(folder: Path) -> None:
    """It was written in another boot: what is left of a pause or a stage is told by the wall clock alone."""
    journal = await opened(folder)
    state = (await journal.load_states())["demo"]
    here = now()
    for then, moved in (
        (15497.54889645, state.since),
        (15493.594978116, state.started_at),
        (15451.406737742, *state.starts),
    ):
        assert moved is not None
        assert here.at - moved == pytest.approx(here.wall - (SAVED_WALL - (SAVED_AT - then)), abs=1)
    assert state.since_wall == pytest.approx(1795936250.36, abs=0.01)
    await journal.aclose()


async def test_history_owner_and_notes_are_read(folder: Path) -> None:
    journal = await opened(folder)
    events = await journal.history("demo")
    assert [event.kind for event in events].count("serving") == 3
    assert next(event.sentence for event in events if event.kind == "failed").startswith(
        "rank 1 on spark2 ended by itself"
    )
    assert len(await journal.stage_times("demo")) == 3
    assert await journal.owner() == "4815d342-e169-4773-b73f-984aceb2b1f5"
    assert (journal.recall("status") or {})["verdict"] == "demo is serving, for 0 s now."
    assert set(journal.recall("boots") or {}) == {"spark1", "spark2"}
    assert not journal.read_only
    await journal.aclose()


async def test_what_worked_and_what_was_saved_are_read(folder: Path) -> None:
    reference = await Store(folder / "known-good").reference("demo")
    assert reference is not None
    assert (reference.generation, reference.pinned, reference.note) == (2, True, "worked all weekend")
    assert [rank.flags["node-rank"] for rank in reference.side.ranks if rank.flags] == [0, 1]
    saved = captures.listing(folder / "captures" / "demo")["captures"]
    assert [one["generation"] for one in saved] == [1]
    assert captures.lines(folder / "captures" / "demo", 1, 5)


async def test_it_is_written_on_from_there(folder: Path) -> None:
    journal = await opened(folder)
    states = await journal.load_states()
    await journal.save_state("demo", states["demo"])
    await journal.aclose()
    again = await opened(folder)
    assert (await again.load_states())["demo"].started == states["demo"].started
    await again.aclose()


async def opened(folder: Path) -> Journal:
    journal = Journal(folder)
    await journal.open()
    return journal
