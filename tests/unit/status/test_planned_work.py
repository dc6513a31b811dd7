"""Planned work on a node: nothing is told of it and of what runs there, until it is over; then everything is told again."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from status_world import LOST, NOW, SERVING, WALL, container, node, view

from sparkd.journal import Event
from sparkd.model.decision import Cause, Decision, Failure, FailureClass, Hold, Phase, State
from sparkd.model.outage import Outage
from sparkd.model.power import PowerUse
from sparkd.model.snapshot import Snapshot
from sparkd.model.upkeep import Maintenance, Upkeep
from sparkd.reporting.node_upkeep import as_json
from sparkd.reporting.notices import edges, of_nodes
from sparkd.reporting.status import status

WORK = Maintenance(NOW - 60, NOW + 3540, WALL - 60, "b:5", "milo", "firmware")
HOLD = Hold(FailureClass.OPERATOR, "maintenance:spark2", "spark2 is under maintenance", "--end", True)
PLANNED = Outage(NOW - 50, WALL - 50, 14, "operator", "spark2 is under maintenance")
HELD = replace(SERVING, phase=Phase.HELD, hold=HOLD, cause=Cause.OPERATOR, outage=PLANNED)
FAILURE = Failure(15, FailureClass.TRANSIENT, "exit-1", "rank 1 ended", NOW, WALL)


def shown(state: State, work: Maintenance | None, *, off: bool = False, at: str = "") -> dict[str, Any]:
    ranks = (container(0), container(1)) if state.phase is Phase.SERVE else ()
    boxes = [node(name, *ranks[rank : rank + 1]) for rank, name in enumerate(("spark1", "spark2"))]
    if off:
        boxes[1] = node("spark2", boot=LOST, memory=LOST, docker=LOST, containers=LOST)
    known = {"spark1": Upkeep(), "spark2": Upkeep(maintenance=work)}
    snapshot = Snapshot(NOW - 2, WALL - 2, {one.name: one for one in boxes})
    decision = Decision(state, (), state.sentence or f"it is {state.phase}", state.reason or str(state.phase))
    found = status(view(state, *boxes, snapshot=snapshot, upkeep=known, decisions={"ds4": decision}))
    return {**found, "at": at or found["at"]}


def kinds(*statuses: dict[str, Any]) -> list[str]:
    return [note.kind for before, after in pairwise(statuses) for note in edges(before, after)]


DRAINING = replace(SERVING, reason="draining")
STOPPED = [shown(DRAINING, WORK), shown(HELD, WORK), shown(HELD, WORK, off=True)]
STARTS = replace(HELD, phase=Phase.PRECHECK, hold=None)


def test_while_it_drains_it_is_not_ready_for_more() -> None:
    assert shown(SERVING, None)["deployments"][0]["serving"] is True
    assert shown(DRAINING, WORK)["deployments"][0]["serving"] is False


def test_nothing_is_told_from_its_begin_to_the_next_answer() -> None:
    told = kinds(shown(SERVING, None), *STOPPED, shown(HELD, None), shown(STARTS, None), shown(SERVING, None))
    assert told == []
    other = replace(HELD, hold=replace(HOLD, fact="check:spark2:gpu"))
    assert kinds(shown(SERVING, None), shown(other, None)) == ["held"], "any other hold is told"
    assert kinds(shown(SERVING, WORK), shown(other, WORK)) == [], "but not while somebody works there"


def test_a_start_that_fails_after_it_is_told() -> None:
    failed = replace(STARTS, phase=Phase.BACKOFF, failure=FAILURE, cause=Cause.CRASH)
    assert kinds(*STOPPED, shown(STARTS, None), shown(failed, None)) == ["down"]


def test_a_node_that_is_still_away_after_it_is_told_then() -> None:
    assert kinds(*STOPPED, shown(HELD, WORK, off=True), shown(STARTS, None, off=True)) == ["node_lost"]


def test_what_is_said_of_the_node() -> None:
    box = shown(HELD, WORK)["nodes"][1]
    assert box["maintenance"] == {
        "since": "2027-01-15T07:59:00Z",
        "until": "2027-01-15T08:59:00Z",
        "by": "milo",
        "message": "firmware",
    }
    use = PowerUse(NOW - 9, WALL - 9, "milo", "no SSH", ok=False, text="exit code 3")
    known = {"spark2": Upkeep(uses=(use,), hook=True)}
    assert as_json(view(SERVING, snapshot=None, upkeep=known), "spark2") == {
        "maintenance": None,
        "power": {
            "auto": False,
            "last": {
                "at": "2027-01-15T07:59:51Z",
                "by": "milo",
                "message": "no SSH",
                "ok": False,
                "text": "exit code 3",
            },
        },
    }
    assert as_json(view(SERVING), "spark1") == {"maintenance": None, "power": None}


@pytest.mark.parametrize("off", [False, True])
def test_the_verdict_says_what_is_planned_and_not_what_it_causes(off: bool) -> None:
    assert shown(HELD, WORK, off=off)["verdict"] == (
        "ds4 is stopped for planned work: spark2 is under maintenance. "
        "spark2 is under maintenance until its next boot, or for 59 min more."
    )


EVENT = Event(at=WALL, kind="maintenance-over", sentence="the maintenance of spark2 is over", data={"node": "spark2"})


def test_its_end_and_every_use_of_a_hook_are_told_each_time() -> None:
    (over,) = of_nodes("desk", EVENT)
    assert (over.kind, over.node, over.sentence) == ("maintenance", "spark2", "the maintenance of spark2 is over.")
    (power,) = of_nodes("desk", replace(EVENT, kind="power-cycle"))
    assert power.kind == "power"
    assert list(of_nodes("desk", replace(EVENT, kind="maintenance-begun"))) == []
    (next_week,) = of_nodes("desk", replace(EVENT, at=WALL + 604800))
    assert next_week.signature != over.signature, "else the second one within an hour would be kept back"
