"""When people are told that what runs has become different: once for each change, and not after a restart of sparkd."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sparkd.background.drift_events import DriftEvents
from sparkd.drift.difference import Difference, Severity
from sparkd.drift.report import Drift
from sparkd.journal import Event
from sparkd.model.config import Deployment
from sparkd.model.policy import Policy
from sparkd.reporting.notices import drifted

DEPLOYMENT = Deployment(name="demo", engine="vllm", nodes=("spark1",))
NOTHING = Drift(against="known-good 4", live="live", at=0.0, seconds=0.1, findings=())


def different(*names: str, severity: Severity = Severity.SLOWS) -> Drift:
    return replace(NOTHING, findings=tuple(Difference(severity=severity, kind="flag", name=one) for one in names))


class World:
    def __init__(self, last: Event | None = None) -> None:
        self.events: list[tuple[str, str]] = []
        self.asked = 0
        self._last = last
        self.drift_events = DriftEvents(self.happened, self.last)

    async def happened(self, name: str, kind: str, sentence: str, reason: str) -> None:
        self.events.append((sentence, reason))

    async def last(self, name: str) -> Event | None:
        self.asked += 1
        return self._last

    async def written(self, *found: Drift, generation: int = 5, deployment: Deployment = DEPLOYMENT) -> list[str]:
        for one in found:
            await self.drift_events.write(deployment, generation, one)
        return [reason for _, reason in self.events]


async def test_each_change_is_told_once_and_so_is_its_end() -> None:
    world = World()
    same, more = different("--max-num-seqs"), different("--max-num-seqs", "fork", severity=Severity.BREAKS)
    assert await world.written(NOTHING, same, same, more, NOTHING, NOTHING) == [
        "drift-slows",
        "drift-breaks",
        "drift-gone",
    ]
    assert world.events[0][0] == "differs from known-good 4 in: --max-num-seqs (slows)"
    assert world.asked == 1


async def test_benign_differences_are_no_news() -> None:
    assert await World().written(different("--seed", severity=Severity.BENIGN)) == []


async def test_the_next_generation_is_told_anew() -> None:
    world, same = World(), different("--max-num-seqs")
    await world.written(same, generation=5)
    assert await world.written(same, generation=6) == ["drift-slows", "drift-slows"]
    assert await world.written(NOTHING, generation=7) == ["drift-slows", "drift-slows"], (
        "a healthy new one says nothing"
    )


async def test_a_restart_of_sparkd_tells_nothing_again() -> None:
    same = different("--max-num-seqs")
    before = World()
    await before.written(same)
    world = World(Event(at=0.0, kind="drift", sentence=before.events[0][0], deployment="demo", generation=5))
    assert await world.written(same) == []
    assert await world.written(different("fork")) == ["drift-slows"]


@pytest.mark.parametrize("policy", [Policy(drift="off"), Policy(drift="warn"), Policy(drift="refuse")])
async def test_the_policy_decides(policy: Policy) -> None:
    told = await World().written(different("fork"), deployment=replace(DEPLOYMENT, policy=policy))
    assert told == ([] if policy.drift == "off" else ["drift-slows"])


async def test_half_a_picture_is_not_told() -> None:
    assert await World().written(replace(different("fork"), unread={"spark1": "it is mute"})) == []


def test_the_notice_has_the_words_of_the_event() -> None:
    event = Event(
        at=0.0, kind="drift", sentence="differs from known-good 4 in: fork (breaks)", reason="drift-breaks",
        deployment="demo", generation=5,
    )  # fmt: skip
    (note,) = drifted("desk", event)
    assert (note.kind, note.deployment, note.generation, note.signature) == ("drift", "demo", 5, "drift-breaks")
    assert note.sentence == "demo differs from known-good 4 in: fork (breaks)."
    assert note.fix == "sparkd ctl drift demo"
    assert not list(drifted("desk", replace(event, reason="drift-gone")))
    assert not list(drifted("desk", replace(event, kind="serving")))
