"""State and Intent through JSON and back, whatever another version wrote."""

from __future__ import annotations

import dataclasses
import json
import types
from typing import Any, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkd.base.json_codec import Undecodable, decode, encode
from sparkd.journal.moment import OUTAGE_TIMES, SANITY_TIMES, STATE_TIMES, WATCH_TIMES, Moment, shift_s, shifted
from sparkd.journal.records import intent_from
from sparkd.model.decision import Cause, Failure, FailureClass, Hold, Intent, Phase, State, Watch
from sparkd.model.outage import Outage
from sparkd.model.sanity import Known, Sanity

FULL = State(
    phase=Phase.BACKOFF,
    since=1000.5,
    cause=Cause.WEDGE,
    hold=Hold(FailureClass.PERMANENT, "exit:127", "no such file", "fix it", heals_itself=True),
    failure=Failure(7, FailureClass.TRANSIENT, "rank-gone", "it is gone", 990.0, 1.8e9, rank=1, evidence=("a", "b")),
    starts=(1.0, 2.0),
    outage=Outage(985.0, 1.8e9 - 15, 7, "rank-gone", "it is gone", unread_since=988.0),
    last_outage=Outage(100.0, 1.7e9, 5, "operator", "restart asked", ended=160.0, ended_wall=1.7e9 + 60, answered=6),
    retry_at=1030.0,
    boots=(("spark1", "x:1"), ("spark2", "y:2")),
    ranks_started=(0, 1),
    before=Phase.SERVE,
    stages=(("ranks", 900.0), ("load", 950.0)),
    watch=Watch(tokens=12.0, tokens_at=980.0, dead_since=985.0),
    sanity=Sanity(7, 970.0, 2, 940.0, "again and again", "!!!", 1.8e9 - 30, Known("Paris", 1.7e9, 6), restarted=True),
)


def through_json(value: Any) -> Any:
    return json.loads(json.dumps(encode(value)))


def test_a_full_state_and_intent_survive() -> None:
    intent = Intent(wanted="up", restart=3, lost=frozenset({"spark2", "spark1"}), profile="latency", by="milo")
    assert decode(State, through_json(FULL)) == FULL
    assert decode(Intent, through_json(intent)) == intent


@settings(max_examples=200, deadline=None)
@given(st.builds(State), st.builds(Intent))
def test_any_state_and_intent_survive(state: State, intent: Intent) -> None:
    assert decode(State, encode(state)) == state
    assert decode(Intent, encode(intent)) == intent


def test_fields_of_a_later_version_are_dropped_and_missing_ones_are_defaults() -> None:
    data = through_json(FULL) | {"of_tomorrow": {"x": 1}}
    del data["watch"], data["boots"], data["sanity"]
    assert decode(State, data) == dataclasses.replace(FULL, watch=Watch(), boots=(), sanity=Sanity())


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("phase", "teleporting", Phase.ADOPTING),
        ("cause", "whim", None),
        ("hold", {"cls": "cosmic", "fact": "f", "text": "t", "fix": "x", "heals_itself": True}, None),
        ("failure", {"generation": 7}, None),
        ("starts", "often", ()),
        ("retry_at", "soon", None),
        ("boots", [["spark1"]], ()),
        ("generation", True, 0),
        ("ranks_started", [0, 1.5], ()),
    ],
)
def test_what_cannot_be_read_becomes_the_default(field: str, value: Any, expected: Any) -> None:
    assert getattr(decode(State, through_json(FULL) | {field: value}), field) == expected


@pytest.mark.parametrize("data", [None, [], "x", 3])
def test_what_is_no_record_at_all_is_refused(data: Any) -> None:
    with pytest.raises(Undecodable):
        decode(State, data)


@pytest.mark.parametrize("number", [10**400, float("nan"), float("inf"), -float("inf")])
def test_a_number_that_no_clock_shows_costs_its_field_and_nothing_else(number: Any) -> None:
    data = json.loads(
        json.dumps(through_json(FULL) | {"since": number, "failure": {**through_json(FULL.failure), "wall": number}})
    )
    assert decode(State, data) == dataclasses.replace(FULL, since=0.0, failure=None)


WISHES: list[tuple[str, Any]] = [
    ("paused", "until 7 am"),
    ("paused", 1),
    ("wanted", {"state": "up"}),
    ("wanted", "drained"),
    ("wanted", None),
    ("lost", "spark2"),
    ("lost", [3]),
]


@pytest.mark.parametrize(("field", "value"), WISHES)
def test_a_word_of_a_wish_that_cannot_be_read_is_no_other_wish(field: str, value: Any) -> None:
    """Of a later version: the default in its place ended a pause, and stopped a group that served."""
    known = through_json(Intent(wanted="up", paused=True, lost=frozenset({"spark2"})))
    with pytest.raises(Undecodable):
        intent_from(json.dumps(known | {field: value}))
    del known[field]
    assert getattr(intent_from(json.dumps(known)), field) == getattr(Intent(), field), (
        "an older version did not have it"
    )


def test_other_words_of_a_wish_may_be_unreadable() -> None:
    known = through_json(Intent(wanted="up", paused=True, restart=4)) | {"message": 7, "at": "noon", "of_tomorrow": 1}
    assert intent_from(json.dumps(known)) == Intent(wanted="up", paused=True, restart=4)


# ------------------------------------------------------------------------------------------------------------ clocks

NO_TIMES = {
    State: {"since_wall", "serving_since_wall", "waiting_w"},
    Watch: {"tokens"},
    Failure: {"wall", "outage_s"},
    Outage: {"began_wall", "ended_wall", "unread_s"},
    Sanity: {"wall"},
    Known: {"wall"},
}
OTHER_TIMES = {State: {"starts", "stages"}, Watch: set[str](), Failure: {"at"}}


def holds_a_float(hint: Any) -> bool:
    if get_origin(hint) in (types.UnionType, tuple):
        return any(holds_a_float(arm) for arm in get_args(hint))
    return hint is float


@pytest.mark.parametrize(
    ("cls", "moved"),
    [
        *((State, STATE_TIMES), (Watch, WATCH_TIMES), (Failure, ())),
        *((Outage, OUTAGE_TIMES), (Sanity, SANITY_TIMES), (Known, ())),
    ],
)
def test_every_number_with_a_fraction_is_known_as_a_time_or_not(cls: type, moved: tuple[str, ...]) -> None:
    """A new time in State must be moved between boots; this fails until somebody decides about it."""
    floats = {name for name, hint in get_type_hints(cls).items() if holds_a_float(hint)}
    assert floats == set(moved) | NO_TIMES[cls] | OTHER_TIMES.get(cls, set())


def test_within_one_boot_nothing_moves() -> None:
    assert shift_s(Moment("a", 100.0, 5000.0), Moment("a", 160.0, 9e9)) == 0.0


def test_after_a_reboot_ages_are_what_the_wall_clock_says() -> None:
    saved, loaded = Moment("a", 1000.0, 50_000.0), Moment("b", 40.0, 50_300.0)
    after = shifted(FULL, shift_s(saved, loaded))
    assert loaded.at - after.since == pytest.approx(saved.at - FULL.since + 300)
    assert after.failure is not None
    assert loaded.at - after.failure.at == pytest.approx(10 + 300)
    assert after.retry_at == pytest.approx(40.0 - 300 + 30)
    assert after.since_wall == FULL.since_wall
    assert after.stages[0][1] == pytest.approx(40.0 - 300 - 100)
    assert after.watch.dead_since == pytest.approx(40.0 - 300 - 15)
    assert after.watch.stuck_since is None
    assert after.sanity.asked_at == pytest.approx(40.0 - 330)
    assert after.sanity.since == pytest.approx(40.0 - 360)
    assert (after.sanity.wall, after.sanity.known) == (FULL.sanity.wall, FULL.sanity.known)
    assert after.outage is not None
    assert (loaded.at - after.outage.began, loaded.at - (after.outage.unread_since or 0)) == (315.0, 312.0)
    assert after.last_outage is not None
    assert after.last_outage.lasted_s(loaded.at) == 60.0


@pytest.mark.parametrize("step_s", [-10 * 365 * 86400.0, -1.0, 0.0])
def test_f35_a_wall_clock_that_went_back_moves_nothing_into_the_future(step_s: float) -> None:
    saved = Moment("a", 1000.5, 1.8e9)
    loaded = Moment("b", 40.0, 1.8e9 + step_s)
    after = shifted(FULL, shift_s(saved, loaded))
    assert after.since <= loaded.at
    assert after.retry_at is not None
    assert after.retry_at - loaded.at <= 30.0
