"""When a node is gone so surely that sparkd may take its power by itself: every witness agrees, and nobody contradicts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sparkd.decide.upkeep import Needed, again_at, agreed, gone, may_take_power
from sparkd.model.decision import Intent, Phase, State
from sparkd.model.power import POWER_EVERY_S, PowerUse
from sparkd.model.snapshot import Snapshot, Unknown
from sparkd.model.upkeep import Echo, Maintenance, Upkeep

from .world import DEPLOYMENT, NOW, PAUSED, STOPPED, UP, away, container, node, seen, serving, state

SILENT = Unknown("timed out: spark2 does not answer", NOW - 400, "unreachable", silent=True)
LAN, FABRIC = Echo("spark1", "lan", False), Echo("spark1", "fabric", False)
LOST = (LAN, FABRIC)


def look(*echoes: Echo, why: Unknown = SILENT) -> Snapshot:
    return replace(seen(node("spark1", container(0)), away("spark2", why)), echoes={"spark2": echoes})


def needed(at: State | None = None, intent: Intent = UP, **deployment: Any) -> tuple[Needed, ...]:
    return (Needed(replace(DEPLOYMENT, **deployment), at or state(Phase.PRECHECK), intent),)


BEFORE = replace(serving().watch, tokens_at=NOW - 401, canary_at=NOW - 402)
ANSWERED = serving(replace(serving().watch, tokens_at=NOW - 100))
CASES: list[tuple[str, Snapshot, tuple[Needed, ...], bool]] = [
    ("all agree", look(*LOST), needed(), True),
    ("and a third node agrees", look(*LOST, Echo("spark3", "lan", False)), needed(), True),
    ("requests failed before", look(*LOST), needed(serving(BEFORE)), True),
    ("another node still reaches it", look(*LOST, Echo("spark3", "fabric", True)), needed(), False),
    ("it answers on the lan", look(replace(LAN, answered=True), FABRIC), needed(), False),
    ("it answers on the fabric", look(LAN, replace(FABRIC, answered=True)), needed(), False),
    ("nobody could ping on the fabric", look(LAN, replace(FABRIC, answered=None)), needed(), False),
    ("nobody could ping on the lan", look(replace(LAN, answered=None), FABRIC), needed(), False),
    ("one network only", look(LAN), needed(), False),
    ("no witness", look(), needed(), False),
    ("it said goodbye", look(*LOST, why=replace(SILENT, silent=False)), needed(), False),
    ("its engine answers", look(*LOST), needed(ANSWERED), False),
    ("nobody wants it up", look(*LOST), needed(intent=STOPPED), False),
    ("it is paused", look(*LOST), needed(intent=PAUSED), False),
    ("nothing is deployed there", look(*LOST), needed(nodes=("spark1",)), False),
    ("nothing is deployed at all", look(*LOST), (), False),
    ("it can be read", seen(), needed(), False),
]


@pytest.mark.parametrize(("snapshot", "wanted", "expected"), [one[1:] for one in CASES], ids=[one[0] for one in CASES])
def test_f50_a_node_is_gone_where_all_agree_and_nobody_contradicts(
    snapshot: Snapshot, wanted: tuple[Needed, ...], expected: bool
) -> None:
    assert gone("spark2", snapshot, wanted) is expected


def test_an_answer_that_is_older_than_the_silence_contradicts_nothing() -> None:
    at = serving(replace(serving().watch, tokens_at=NOW - 100, canary_at=None))
    assert not gone("spark2", look(*LOST), needed(at))
    assert gone("spark2", look(*LOST, why=replace(SILENT, since=NOW - 99)), needed(at))


def test_every_look_has_to_agree_and_one_that_was_missed_begins_anew() -> None:
    both, at = ["spark1", "spark2"], replace(look(*LOST), at=NOW)
    first = agreed({}, both, at, needed(), late=False)
    assert first == {"spark2": NOW}
    later = replace(at, at=NOW + 290)
    assert agreed(first, both, later, needed(), late=False) == first
    assert agreed(first, both, later, needed(), late=True) == {"spark2": NOW + 290}
    heard = replace(look(LAN, replace(FABRIC, answered=True)), at=NOW + 200)
    assert agreed(first, both, heard, needed(), late=False) == {}
    assert agreed(first, ["spark1"], later, needed(), late=False) == {}, "one that this sparkd never saw well"


AUTO = Upkeep(hook=True, auto=True)
USED = PowerUse(NOW - 3600, 0.0, "milo", ok=False)


@pytest.mark.parametrize(
    ("known", "since", "expected"),
    [
        (AUTO, NOW - 300, True),
        (AUTO, NOW - 299, False),
        (AUTO, None, False),
        (Upkeep(hook=True), NOW - 900, False),
        (Upkeep(), NOW - 900, False),
        (replace(AUTO, maintenance=Maintenance(NOW, NOW + 60)), NOW - 900, False),
        (replace(AUTO, uses=(USED,)), NOW - 900, False),
        (replace(AUTO, uses=(replace(USED, at=NOW - POWER_EVERY_S),)), NOW - 900, True),
        (replace(AUTO, uses=(replace(USED, at=NOW - 2 * POWER_EVERY_S), USED)), NOW - 900, False),
    ],
)
def test_its_power_is_taken_only_where_that_is_allowed_and_once_in_six_hours(
    known: Upkeep, since: float | None, expected: bool
) -> None:
    assert may_take_power(known, since, 300.0, NOW) is expected


def test_when_it_may_be_used_again() -> None:
    assert again_at((), NOW) is None
    assert again_at((USED,), NOW) == NOW - 3600 + POWER_EVERY_S
