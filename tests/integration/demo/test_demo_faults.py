"""Every fault of the real demo ends exactly as its text says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from sparkd.demo.cli import FAULT_NAMES
from sparkd.demo.faults import FAULTS
from sparkd.demo.layout import NODES, load
from sparkd.demo.scene import Event, Scene

from .demo_world import demo_on_a_terminal, place, run


@dataclass(frozen=True, slots=True)
class Ending:
    """What is true when a fault has ended: `starts` group starts since; `told` in its output, in this order; kinds of
    events that came and that did not."""

    starts: int
    told: tuple[str, ...] = ()
    came: frozenset[str] = frozenset()
    never: frozenset[str] = frozenset({"held"})
    ranks_live_on: bool = False
    pending: bool = False
    missed: bool = True
    """It did not answer although it was wanted up; a start after a stop ends no outage."""


FAILED = frozenset({"failed", "starting", "serving"})
UNTOUCHED = frozenset({"failed", "held", "starting", "serving"})

ENDINGS: dict[str, Ending] = {
    "kill-worker": Ending(1, ("rank 1 on spark2 ended by itself with status 0", "serving: generation"), FAILED),
    "kill-head": Ending(1, ("rank 0 on spark1 was killed (SIGKILL)", "serving: generation"), FAILED),
    "kill-sparkd": Ending(0, ("adopted generation",), frozenset({"adopted"}), UNTOUCHED, ranks_live_on=True),
    "oom": Ending(1, ("rank 1 on spark2 was killed for lack of memory", "serving: generation"), FAILED),
    "freeze": Ending(1, ("demo is serving",), FAILED),
    "hang": Ending(1, ("demo is serving",), FAILED),
    "error-chunk": Ending(1, ("error chunk under status 200", "serving: generation"), frozenset({"serving"})),
    "nonsense": Ending(
        0,
        ("answers nonsense: '!' again and again", "when it was well", "lantern 4729 copper Paris", "demo is serving"),
        frozenset({"nonsense", "recovered"}),
        UNTOUCHED,
        ranks_live_on=True,
    ),
    "slow-start": Ending(1, ("answered after 1",), frozenset({"serving"}), frozenset({"failed", "held"})),
    "die-starting": Ending(2, ("rank 1 on spark2 ended with status 1", "serving: generation"), FAILED),
    "port-taken": Ending(
        1,
        ("held: the api port", "is held by pid", "going on"),
        frozenset({"held", "serving"}),
        frozenset({"failed"}),
        missed=False,
    ),
    "drift": Ending(
        0,
        ("adopted generation", "demo is serving", "A restart is pending."),
        frozenset({"adopted"}),
        UNTOUCHED,
        ranks_live_on=True,
        pending=True,
    ),
}
"""exit127 does not end by itself: it has a test of its own, with heal."""


def test_the_table_and_the_command_know_the_same_faults() -> None:
    assert tuple(FAULTS) == FAULT_NAMES
    assert {*ENDINGS, "exit127", "heal"} == set(FAULT_NAMES)
    assert all("in the end it" in fault.seen.lower() for fault in FAULTS.values())


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    """One demo for all of them: each ends with a deployment that serves."""
    with place() as folder, demo_on_a_terminal():
        (made,) = (each for each in folder.iterdir() if each.is_dir())
        yield Scene(load(made))


def pids(scene: Scene) -> list[int]:
    return [scene.rank(node, rank).pid for rank, node in enumerate(NODES)]


def shown(name: str) -> str:
    """What `sparkd demo fault NAME` prints; it must end well, and have said before what would be seen."""
    done = run("fault", name, seconds=90.0)
    assert done.returncode == 0, done.stdout + done.stderr
    flat = re.sub(r"\s+", " ", done.stdout)
    assert f"{name}: {FAULTS[name].does} What you will see: {FAULTS[name].seen}" in flat
    return flat.partition(FAULTS[name].seen)[2]


def since(scene: Scene, after: int) -> list[Event]:
    events: list[Event] = scene.api.get("/api/v1/history", after=after, limit=1000)["events"]
    return events


def outages(scene: Scene) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = scene.api.get("/api/v1/outages")["outages"]
    return found


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_every_fault_ends_as_its_text_says(scene: Scene) -> None:
    for name, ending in ENDINGS.items():
        before, after, ranks = scene.deployment(), scene.last_event(), pids(scene)
        known = len(outages(scene))
        text, position = shown(name), 0
        for words in ending.told:
            position = text.find(words, position) + 1
            assert position, f"{name}: {words!r} is missing or out of order in {text}"
        kinds = {event["kind"] for event in since(scene, after)}
        assert ending.came <= kinds, f"{name}: {kinds}"
        assert not ending.never & kinds, f"{name}: {kinds}"
        now = scene.deployment()
        assert now["serving"], f"{name}: {now['sentence']}"
        assert now["generation"] == before["generation"] + ending.starts, name
        assert (pids(scene) == ranks) is ending.ranks_live_on, name
        assert now["restart_pending"] is ending.pending, name
        assert scene.ask("Who are you?"), name
        records = [(one["starts"], one["answered"]) for one in outages(scene)[known:]]
        down = ending.missed and bool(ending.starts or "recovered" in ending.came)
        assert records == ([(ending.starts, now["generation"])] if down else []), name
    assert "demo is serving" in shown("heal")
    assert not scene.deployment()["restart_pending"], "heal takes the edit back"
    rows = scene.api.post("/api/v1/deployments/demo/checks", {})["checks"]
    assert [row for row in rows if row["code"] == "stray" and row["status"] != "ok"] == [], "its own ranks are none"


@pytest.mark.slow
def test_f29_exit127_is_held_until_it_is_healed(scene: Scene) -> None:
    text = shown("exit127")
    assert "demo is NOT serving, held: " in text
    assert scene.deployment()["hold"] is not None
    refused = run("fault", "kill-worker")
    assert (refused.returncode, "fault heal" in refused.stderr) == (1, True)
    assert "demo is serving" in shown("heal")
    assert scene.deployment()["hold"] is None
    assert "serving already" in shown("heal")


@pytest.mark.slow
def test_heal_starts_what_a_person_has_stopped(scene: Scene) -> None:
    scene.operate("stop", "a test")
    assert "demo is serving" in shown("heal")
