"""Records of outages: kept with the state that ended them, for longer than history, whatever happens to the file."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sparkd.fleet.ledger import Ledger
from sparkd.journal import Journal
from sparkd.journal import records as of_rows
from sparkd.journal.moment import Moment
from sparkd.journal.records import state_from, with_outage
from sparkd.model.config import Cluster, Config, Deployment, Node
from sparkd.model.decision import Phase, State
from sparkd.model.outage import Outage
from sparkd.reporting.metrics import Counters

WALL = 1_800_000_000.0
EARLIER = Path(__file__).with_name("earlier_state.json")


def over(number: int = 0, **more: Any) -> Outage:
    began = 1000.0 + 100 * number
    whole = Outage(began, WALL + 100 * number, 7, "exit-137", "rank 1 is gone", "transient", starts=1)
    return replace(whole, **{"ended": began + 60, "ended_wall": WALL + 100 * number + 60, "answered": 8, **more})


async def opened(folder: Path) -> Journal:
    one = Journal(folder)
    await one.open()
    return one


async def test_a_record_is_there_again_once_however_often_it_was_written(tmp_path: Path) -> None:
    one = await opened(tmp_path)
    await one.save_state("ds4", State(last_outage=over()), over())
    await one.save_state("ds4", State(last_outage=over()), over())
    await one.save_state("qwen", State(), over(1))
    await one.aclose()
    two = await opened(tmp_path)
    assert two.outages() == [("ds4", over()), ("qwen", over(1))]
    await two.aclose()


async def test_a_state_and_the_outage_that_it_ended_are_one_transaction(tmp_path: Path) -> None:
    """Killed in between, the outage would be lost, or recorded again by the next sparkd."""
    one = await opened(tmp_path)
    await one.save_state("ds4", State(outage=over(ended=None)))
    with closing(sqlite3.connect(tmp_path / "journal.db")) as connection:
        connection.execute("CREATE TRIGGER no BEFORE INSERT ON outages BEGIN SELECT RAISE(ABORT, 'no room'); END")
        connection.commit()
        await one.save_state("ds4", State(generation=9, last_outage=over()), over())
        assert one.read_only
        (kept,) = connection.execute("SELECT json FROM states").fetchone()
        assert '"generation": 9' not in kept
    await one.aclose()


async def test_records_outlive_the_events_that_told_of_them_and_a_file_that_was_taken_away(tmp_path: Path) -> None:
    one = await opened(tmp_path)
    await one.save_state("ds4", State(), over())
    await one.aclose()
    with closing(sqlite3.connect(tmp_path / "journal.db")) as connection:
        connection.execute("DELETE FROM events")
        connection.commit()
    two = await opened(tmp_path)
    assert two.outages() == [("ds4", over())]
    (tmp_path / "journal.db").unlink()
    await two.save_state("ds4", State(), over(1))
    await two.aclose()
    three = await opened(tmp_path)
    assert three.outages() == [("ds4", over()), ("ds4", over(1))], "all that is known goes into a new file"
    await three.aclose()


def test_the_oldest_goes_when_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(of_rows, "OUTAGES", 3)
    rows: dict[str, str] = {}
    for number in range(5):
        for key, text in with_outage(rows, "ds4", over(number)).items():
            if text is None:
                del rows[key]
            else:
                rows[key] = text
    assert [found.began for _, found in of_rows.outages_from(rows)] == [1200.0, 1300.0, 1400.0]


def test_a_record_that_cannot_be_read_costs_no_other() -> None:
    rows: dict[str, str] = {key: str(text) for key, text in with_outage({}, "ds4", over()).items()}
    assert of_rows.outages_from({**rows, "0 ds4": "{", "1 ds4": "[]"}) == [("ds4", over())]


async def test_the_metric_counts_the_records_across_restarts_and_nothing_that_people_asked_for(tmp_path: Path) -> None:
    one = await opened(tmp_path)
    await one.save_state("ds4", State(), over(unread_s=10.0))
    await one.save_state("ds4", State(), over(1, code="operator"))
    counters = Counters()
    ledger = Ledger(
        Config(
            cluster=Cluster(cluster="desk", nodes={"a": Node(name="a", address="local")}),
            deployments=(Deployment(name="ds4", engine="vllm", nodes=("a",)),),
        ),
        one,
        counters,
    )
    await ledger.load()
    await ledger.load()
    assert counters.registry.get_sample_value("sparkd_outage_seconds_total", {"deployment": "ds4"}) == 50.0
    await one.aclose()


# ------------------------------------------------------------------------------------- states of an earlier version


def test_an_outage_that_an_earlier_version_left_open_goes_on() -> None:
    found = state_from(EARLIER.read_text(), Moment("first", 1260.0, WALL + 60))
    assert (found.phase, found.generation, found.failures, found.retry_at) == (Phase.BACKOFF, 14, 1, 1195.0)
    text = "rank 1 on spark2 was killed (SIGKILL)"
    assert found.outage == Outage(1120.0, WALL - 80, 14, "exit-137", text, "transient")
    after_a_boot = state_from(EARLIER.read_text(), Moment("second", 40.0, WALL + 60)).outage
    assert after_a_boot is not None
    assert (after_a_boot.lasted_s(40.0), after_a_boot.began_wall) == (140.0, WALL - 80)


@pytest.mark.parametrize(("down_since", "outage"), [("null", None), ('"soon"', None), ("true", None)])
def test_without_one_there_is_none(down_since: str, outage: Outage | None) -> None:
    text = EARLIER.read_text().replace('"down_since": 1120.0', f'"down_since": {down_since}')
    assert state_from(text, Moment("first", 1260.0, WALL)).outage == outage


@pytest.mark.parametrize(("cause", "code"), [("boot", "rebooted"), ("operator", "operator"), ("adopt", "unknown")])
def test_without_a_failure_the_cause_of_the_start_tells(cause: str, code: str) -> None:
    text = EARLIER.read_text().replace('"cause": "crash"', f'"cause": "{cause}"').replace('"failure"', '"failed"')
    found = state_from(text, Moment("first", 1260.0, WALL)).outage
    assert found is not None
    assert (found.code, found.generation) == (code, 14)
