"""Outages as JSON: every field of the interface, and sums that count what was down and nothing else."""

from __future__ import annotations

from dataclasses import replace

from status_world import NOW, SERVING, WALL

from sparkd.model.outage import Outage
from sparkd.reporting.outage_list import as_json, listing

LOST = Outage(NOW - 600, WALL - 600, 14, "exit-137", "rank 1 is gone", "transient", starts=2, unread_s=60.0)
OVER = replace(LOST, ended=NOW - 300, ended_wall=WALL - 300, answered=16)
ASKED = replace(OVER, code="operator", began_wall=WALL - 9000, unread_s=0.0)
UNREAD = replace(OVER, code="unread", began_wall=WALL - 8000, unread_s=300.0)


def test_an_outage_has_every_field_of_the_interface() -> None:
    assert as_json("ds4", OVER, NOW) == {
        "deployment": "ds4",
        "began": "2027-01-15T07:50:00Z",
        "ended": "2027-01-15T07:55:00Z",
        "seconds": 300.0,
        "down_s": 240.0,
        "unread_s": 60.0,
        "generation": 14,
        "answered": 16,
        "starts": 2,
        "cause": {"code": "exit-137", "class": "transient", "text": "rank 1 is gone"},
        "asked": False,
        "unwatched": False,
    }


def test_one_that_goes_on_is_counted_until_now() -> None:
    shown = as_json("ds4", replace(LOST, unread_since=NOW - 100), NOW)
    assert (shown["seconds"], shown["unread_s"], shown["down_s"], shown["ended"]) == (600.0, 160.0, 440.0, None)


def test_months_count_what_was_down_and_beside_it_what_was_asked_for_and_what_nobody_could_tell() -> None:
    december = replace(OVER, began_wall=WALL - 30 * 86400.0)
    ended = [("ds4", OVER), ("ds4", december), ("qwen", ASKED), ("ds4", UNREAD)]
    states = {"ds4": replace(SERVING, outage=replace(LOST, began=NOW - 100, began_wall=WALL - 100)), "qwen": SERVING}
    found = listing(ended, states, NOW, None)
    assert [one["began"] for one in found["outages"]] == sorted(one["began"] for one in found["outages"])
    assert found["outages"][-1]["ended"] is None
    before, month = found["months"]
    assert (before["month"], before["outages"], before["down_s"]) == ("2026-12", 1, 240.0)
    assert month == {
        "month": "2027-01",
        "outages": 2,
        "down_s": 280.0,
        "longest_s": 240.0,
        "unread_s": 420.0,
        "asked": 1,
        "asked_s": 300.0,
    }
    assert [one["deployment"] for one in listing(ended, states, NOW, "qwen")["outages"]] == ["qwen"]


def test_a_running_outage_in_a_month() -> None:
    (month,) = listing([], {"ds4": replace(SERVING, outage=LOST)}, NOW, None)["months"]
    assert (month["outages"], month["down_s"]) == (1, 540.0)
