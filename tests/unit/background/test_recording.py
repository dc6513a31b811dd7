"""When a generation counts as known-good, what is measured of it, and when it has become slower."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sparkd.background.known_good_store import NotRead, Record, Store
from sparkd.background.recording import Recording, answered
from sparkd.background.speed import Sample, slower
from sparkd.base import clock
from sparkd.comparing.seen import Seen
from sparkd.drift.form import RankForm, Side
from sparkd.fleet import load_config
from sparkd.model.action import SendCanary, WarmUp
from sparkd.model.config import Deployment
from sparkd.model.decision import Phase, State, Watch
from sparkd.model.policy import Policy
from sparkd.model.sanity import Known, Sanity
from sparkd.model.snapshot import Canary, EngineMetrics, EngineView, Outcome, Snapshot

DEPLOYMENT = Deployment(
    name="demo",
    engine="vllm",
    nodes=("spark1",),
    digest="d1",
    env={"A": "1"},
    policy=Policy(known_good_after=600.0, measure_every=0.0),
)
SEEN = Seen(
    side=Side(label="live", kind="live", ranks=(RankForm(flags={"max-num-seqs": 4}),)), unread={}, unread_parts={0: {}}
)


def serving(for_s: float, generation: int = 5, **changes: Any) -> State:
    return State(phase=Phase.SERVE, generation=generation, serving_since=clock.now() - for_s, **changes)


def canary(rate: float | None, first: float = 0.2, generation: int = 5, ok: bool = True) -> Canary:
    return Canary(generation, 0.0, 1.0, ok, "", 16, first, rate)


def look(running: float = 0.0, outcome: Outcome | None = None) -> Snapshot:
    metrics = EngineMetrics(running, 0.0, 1.0, 1.0, 0.0, (0.892, 0.635), 360858)
    outcomes = {"demo": outcome} if outcome is not None else {}
    return Snapshot(0.0, 0.0, {}, engines={"demo": EngineView(200, metrics)}, outcomes=outcomes)


class World:
    def __init__(self, folder: Path) -> None:
        self.answers: list[Canary] = []
        self.heard: list[int] = []
        self.asked = 0
        self.recording = Recording(Store(folder), self.ask, self.recorded)

    async def ask(self, name: str) -> Canary:
        self.asked += 1
        return self.answers.pop(0)

    async def recorded(self, name: str, record: Record) -> None:
        self.heard.append(record.generation)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_a_generation_is_due_once_it_has_answered_for_long_enough(world: World) -> None:
    due = world.recording.due
    assert due(DEPLOYMENT, serving(601))
    assert not due(DEPLOYMENT, serving(599))
    assert not due(DEPLOYMENT, replace(serving(601), phase=Phase.WARMUP))
    assert not due(DEPLOYMENT, replace(serving(601), phase=Phase.PAUSED))
    assert not due(DEPLOYMENT, serving(601, watch=Watch(canary_failing_since=1.0)))
    assert not due(DEPLOYMENT, serving(601, watch=Watch(frozen_since=1.0)))
    assert not due(DEPLOYMENT, serving(601, watch=Watch(gap_until=1.0))), "sparkd stood still meanwhile"


async def test_it_is_recorded_once_with_what_was_measured(world: World) -> None:
    cold = Outcome(WarmUp(5, 10.0), True, 1.0, value=canary(32.0, 1.5))
    world.recording.hear("demo", look(outcome=cold))
    world.recording.hear("demo", look(outcome=Outcome(SendCanary(5, 10.0), True, 2.0, value=canary(None, 0.16))))
    world.answers = [canary(44.0), canary(45.0)]
    for _ in range(2):
        await world.recording.measure(DEPLOYMENT, serving(601), look())
    await world.recording.record(DEPLOYMENT, serving(601), SEEN, DEPLOYMENT)
    (record,) = await world.recording.store.records("demo")
    assert record.measured == {
        "decode_tokens_per_second": {"warm": 44.5, "cold": 32.0},
        "first_token_s": {"warm": 0.2, "cold": 1.5},
        "acceptance": [0.892, 0.635],
        "kv_cache_tokens": 360858,
    }
    assert world.heard == [5]
    assert not world.recording.due(DEPLOYMENT, serving(700))
    await World(world.recording.store.folder).recording.record(DEPLOYMENT, serving(700), SEEN, DEPLOYMENT)
    assert len(await world.recording.store.records("demo")) == 1  # a new sparkd finds what the last one wrote


async def test_its_answer_to_the_fixed_question_is_kept_with_it(world: World) -> None:
    known = Known("lantern 4729 copper. Paris.", 1.7e9, 5)
    state = serving(601, sanity=Sanity(generation=5, known=known))
    await world.recording.record(DEPLOYMENT, state, SEEN, DEPLOYMENT)
    record = await Store(world.recording.store.folder).reference("demo")
    assert record is not None
    assert record.answer == {"text": known.text, "at": "2023-11-14T22:13:20Z"}
    assert record.as_json()["answer"] == record.answer
    assert answered(record) == known
    await world.recording.record(DEPLOYMENT, replace(state, generation=6), SEEN, DEPLOYMENT)
    later = await world.recording.store.reference("demo")
    assert later is not None
    assert (later.generation, later.answer, answered(later)) == (6, {}, None), "of another generation"


def test_what_makes_no_sense_is_not_known_to_be_good(world: World) -> None:
    for bad, due in ((0, True), (1, False), (2, False)):
        sanity = Sanity(generation=5, asked_at=1.0, bad=bad)
        assert world.recording.due(DEPLOYMENT, serving(601, sanity=sanity)) is due


@pytest.mark.parametrize(
    "answer", [{}, {"text": "x"}, {"text": "", "at": "2023-11-14T22:13:20Z"}, {"text": "x", "at": "?"}]
)
def test_an_answer_that_cannot_be_read_is_none(answer: dict[str, str]) -> None:
    assert answered(Record(deployment="demo", generation=5, side=SEEN.side, answer=answer)) is None
    assert answered(None) is None


@pytest.mark.parametrize("lacks", [{"unread": {"spark1": "mute"}}, {"absent": (0,)}, {"ended": (0,)}])
async def test_what_could_not_be_read_whole_is_not_recorded(world: World, lacks: dict[str, Any]) -> None:
    await world.recording.record(DEPLOYMENT, serving(601), replace(SEEN, **lacks), DEPLOYMENT)
    assert await world.recording.store.records("demo") == ()
    assert not world.recording.due(DEPLOYMENT, serving(601)), "it is not tried at every look"


async def test_a_record_that_is_there_is_never_replaced_by_itself(world: World) -> None:
    store = world.recording.store
    path = await store.write(Record(deployment="demo", generation=5, note="mine", pinned=True, side=SEEN.side))
    blessed = path.read_text()
    for text in (blessed, blessed.replace("schema: 1", "schema: 2"), "{"):  # of a newer sparkd; being mended
        path.write_text(text)
        again = World(store.folder)
        await again.recording.record(DEPLOYMENT, serving(601), SEEN, DEPLOYMENT)
        assert (path.read_text(), again.heard) == (text, [])
        assert not again.recording.due(DEPLOYMENT, serving(700))


async def test_what_cannot_be_known_to_be_there_is_not_replaced(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    store = world.recording.store
    path = await store.write(Record(deployment="demo", generation=5, note="mine", pinned=True, side=SEEN.side))
    blessed = path.read_text()
    monkeypatch.setattr(load_config, "DEADLINE_S", 0.0)
    with pytest.raises(NotRead):
        await World(store.folder).recording.record(DEPLOYMENT, serving(601), SEEN, DEPLOYMENT)
    assert path.read_text() == blessed


async def test_a_busy_engine_is_not_measured(world: World) -> None:
    await world.recording.measure(DEPLOYMENT, serving(601), look(running=1.0))
    assert (world.asked, world.recording.samples("demo")) == (0, ())


async def test_rates_of_another_generation_are_forgotten(world: World) -> None:
    world.answers = [canary(44.0), canary(30.0, generation=6)]
    await world.recording.measure(DEPLOYMENT, serving(601), look())
    await world.recording.measure(DEPLOYMENT, serving(1, generation=6), look())
    (sample,) = world.recording.samples("demo")
    assert (sample.rate, sample.first_token_s) == (30.0, 0.2)
    assert sample.accepted == pytest.approx(0.892 + 0.635)


async def test_the_deployment_file_is_kept_where_it_is_what_runs(world: World, tmp_path: Path) -> None:
    file = tmp_path / "demo.yaml"
    file.write_text("name: demo\n")
    running = replace(DEPLOYMENT, file=str(file))
    record = await world.recording.keep(running, 5, SEEN, running)
    assert await world.recording.store.source(record) == "name: demo\n"
    edited = await world.recording.keep(running, 6, SEEN, replace(running, digest="d2"))
    assert await world.recording.store.source(edited) is None
    file.write_text("env: {HF_TOKEN: planted-0123456}\n")
    secret = replace(running, env={"HF_TOKEN": "planted-0123456"})
    hidden = await world.recording.keep(secret, 7, SEEN, secret)
    assert await world.recording.store.source(hidden) is None


def told(measured: dict[str, Any], *samples: Sample, deployment: Deployment = DEPLOYMENT) -> list[tuple[str, Any, Any]]:
    return [(one.name, one.known, one.live) for one in slower(deployment, measured, samples)]


def test_three_slow_answers_in_a_row_are_a_finding() -> None:
    measured = {"decode_tokens_per_second": {"warm": 44.0}}
    fast, *slow = (Sample(rate=rate) for rate in (44.0, 25.0, 25.2, 25.4))
    assert told(measured, fast, *slow) == [("decode rate", "44 tokens/s", "25.2 tokens/s")]
    assert told(measured, *slow, fast) == []
    assert told(measured, *slow[:2]) == []
    assert told({}, *slow) == []
    said = replace(DEPLOYMENT, known_good={"decode_tokens_per_second": 100.0})
    assert told(measured, *[Sample(rate=60.0)] * 3, deployment=said) == [("decode rate", "100 tokens/s", "60 tokens/s")]


@pytest.mark.parametrize(("known", "now", "is_later"), [(0.2, 0.6, True), (0.1, 0.3, False), (2.0, 2.9, False)])
def test_first_tokens_are_late_by_a_part_and_by_a_time(known: float, now: float, is_later: bool) -> None:
    measured = {"first_token_s": {"warm": known, "cold": 9.0}}
    found = told(measured, *[Sample(rate=44.0, first_token_s=now)] * 3)
    assert found == ([("time to first token", f"{known:g} s", f"{now:g} s")] if is_later else [])
    assert told(measured, *[Sample(rate=44.0)] * 3) == [], "an answer without a token says nothing of it"


def test_fewer_accepted_tokens_are_a_finding_although_the_rate_may_hide_it() -> None:
    measured = {"decode_tokens_per_second": {"warm": 44.0}, "acceptance": [0.892, 0.635]}
    fewer, alike, none = (Sample(rate=44.0, accepted=one) for one in (1.2, 1.5, None))
    assert told(measured, fewer, fewer, fewer) == [("draft acceptance", "1.53 tokens per step", "1.2 tokens per step")]
    assert told(measured, fewer, fewer, alike) == []
    assert told(measured, none, none, none) == []
