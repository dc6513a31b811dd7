"""The fixed question to real ranks of the simulated engine over HTTP: decided as the daemon does, with a clock of the test's own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from engine_ranks import Pair, wait_for

from sparkd import http
from sparkd.act.hands import Hands
from sparkd.act.runner import perform
from sparkd.decide.machine import step
from sparkd.engines import ENGINES
from sparkd.model.action import Action, AskSanity
from sparkd.model.config import Cluster, Deployment, Health, Node, Policy, Warmup
from sparkd.model.decision import Decision, Intent, Phase, State, Watch
from sparkd.model.machine import Boot, DockerUnit, Memory
from sparkd.model.printed import Unread
from sparkd.model.snapshot import Canary, Container, EngineView, NodeView, Outcome, Snapshot

PERIOD_S = 15.0
EVERY_S = 600.0
"""Instead of an hour, for every look is real; the rest has its usual time."""
POLICY = Policy(period=PERIOD_S, sanity_every=EVERY_S)


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    made = Pair(tmp_path)
    yield made
    made.close()


@dataclass
class Watched:
    """One generation that serves, watched by `step`: the engine and every answer of it are real, the nodes and time are not."""

    pair: Pair
    policy: Policy = POLICY
    health: Health = field(default_factory=Health)
    warmup: Warmup = field(default_factory=Warmup)
    secrets: dict[str, str] = field(default_factory=dict)
    now: float = 1000.0
    state: State = field(init=False)
    outcome: Outcome | None = None
    asked: list[Action] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.state = State(
            phase=Phase.SERVE, generation=1, boots=(("spark1", "b:1"),), captured=1, highest=1, ranks_started=(0,),
            watch=Watch(canary_at=self.now, tokens_at=self.now), started_at=1.0, serving_since=self.now, digest="d",
        )  # fmt: skip

    @property
    def deployment(self) -> Deployment:
        return Deployment(
            name="demo", engine="vllm", nodes=("spark1",), served_name="tiny", port=self.pair.port, digest="d",
            policy=self.policy, health=self.health, warmup=self.warmup, secrets=self.secrets,
        )  # fmt: skip

    async def look(self) -> Snapshot:
        url, engine = f"http://127.0.0.1:{self.pair.port}", ENGINES["vllm"]
        metrics = engine.metrics(await http.metrics_text(url, engine.metrics_path, 10.0))
        assert not isinstance(metrics, Unread)
        view = EngineView(await http.health(url, engine.health_path, 10.0), metrics)
        rank = Container("c1", "sparkd-demo-0", "demo", 0, 1, "us", "spec", "running")
        boot, docker = Boot("b", 1, 9e4), DockerUnit(running=True, pid=1)
        node = NodeView("spark1", boot, Memory(9, 9, 9, 0, 0, 0), "running", docker, (rank,), (), ())
        outcomes = {"demo": self.outcome} if self.outcome is not None else {}
        return Snapshot(self.now, 1.7e9 + self.now, {"spark1": node}, "us", {"demo": view}, outcomes)

    async def cycle(self) -> Decision:
        """One look and one decision; what it wants of the engine is done to its end."""
        seen, self.outcome = await self.look(), None
        decision = step(self.deployment, self.state, seen, Intent(wanted="up"), self.policy, self.now)
        self.state = decision.state
        for action in decision.actions:
            self.asked.append(action)
            self.outcome = await self._done(action)
        self.now += PERIOD_S
        return decision

    async def _done(self, action: Action) -> Outcome:
        cluster = Cluster(cluster="desk", nodes={"spark1": Node(name="spark1", address="local")})
        outcome = await perform(Hands(cluster, self.deployment, "us", {}, {}, self.pair.folder), action)
        value = outcome.value
        assert isinstance(value, Canary), outcome.error
        return replace(outcome, ended_at=self.now, value=replace(value, sent_at=self.now, ended_at=self.now))

    async def cycles(self, seconds: float) -> Decision:
        for _ in range(int(seconds // PERIOD_S)):
            decision = await self.cycle()
        return decision

    @property
    def questions(self) -> int:
        return sum(isinstance(one, AskSanity) for one in self.asked)


@pytest.fixture
async def watched(pair: Pair) -> Watched:
    pair.serving()
    return Watched(pair)


async def test_a_sane_engine_is_asked_after_its_warm_up_and_now_and_then(watched: Watched) -> None:
    await watched.cycles(90)
    assert (watched.questions, watched.state.sanity.text) == (1, "lantern 4729 copper Paris")
    known = watched.state.sanity.known
    assert known is not None
    assert (known.text, known.generation) == ("lantern 4729 copper Paris", 1)
    await watched.cycles(EVERY_S - 120)
    assert watched.questions == 1
    decision = await watched.cycles(300)
    assert (watched.questions, decision.reason) == (2, "serving")


async def test_f18_garbage_with_every_light_green_is_found_told_and_over_when_it_makes_sense(watched: Watched) -> None:
    await watched.cycles(90)
    watched.pair.fault(nonsense=True)
    assert watched.pair.get("/health")[0] == 200
    decision = await watched.cycles(EVERY_S + 180)
    assert (decision.reason, decision.state.phase, watched.questions >= 3) == ("nonsense", Phase.SERVE, True)
    assert "answers nonsense: '!' again and again: \"!!!!!!!!" in decision.sentence
    assert "when it was well" in decision.sentence
    assert '"lantern 4729 copper Paris"' in decision.sentence
    assert watched.state.watch.canary_failures == 0, "canaries see none of it"
    assert watched.state.outage is not None
    watched.pair.fault()
    decision = await watched.cycles(180)
    after = watched.state
    assert (decision.reason, after.nonsense, after.outage is None) == ("serving", False, True)
    assert watched.state.last_outage is not None
    assert (watched.state.last_outage.code, watched.state.last_outage.answered) == ("nonsense", 1)


async def test_an_engine_is_never_asked_beside_the_request_of_a_user(watched: Watched) -> None:
    watched.pair.fault(nonsense=True, slow_tokens=0.5)
    with watched.pair.stream(max_tokens=900):
        wait_for(lambda: watched.pair.metric("vllm:num_requests_running") == 1, "a request that runs")
        await watched.cycles(2 * EVERY_S)
        assert (watched.questions, watched.state.nonsense) == (0, False)
    wait_for(lambda: watched.pair.metric("vllm:num_requests_running") == 0, "nobody there any more")
    watched.pair.fault(nonsense=True)
    decision = await watched.cycles(90)
    assert (watched.questions, decision.reason) == (2, "nonsense")


async def test_one_bad_answer_alone_is_asked_again(watched: Watched) -> None:
    watched.pair.fault(nonsense=True)
    while not watched.questions:
        await watched.cycle()
    watched.pair.fault()
    decision = await watched.cycles(90)
    assert (watched.questions, decision.reason, watched.state.nonsense) == (2, "serving", False)


async def test_restart_once_takes_the_group_down_one_time(watched: Watched) -> None:
    watched.policy = replace(POLICY, on_nonsense="restart-once")
    watched.pair.fault(nonsense="nein ja nein ja doch oh")
    while watched.state.phase is Phase.SERVE and watched.now < 1000 + EVERY_S:
        decision = await watched.cycle()
    assert (watched.state.phase, decision.reason, watched.state.sanity.restarted) == (Phase.BACKOFF, "failed", True)
    # The group was taken down and is there again, as the next generation, and is as broken as before.
    watched.state = replace(watched.state, phase=Phase.SERVE, sanity=replace(watched.state.sanity, generation=0))
    decision = await watched.cycles(90)
    assert (watched.state.phase, decision.reason) == (Phase.SERVE, "nonsense")
    assert decision.sentence.endswith("it was restarted for that once")


async def test_who_does_not_want_to_be_asked_is_not(watched: Watched) -> None:
    watched.health = Health(sanity=False)
    watched.pair.fault(nonsense=True)
    decision = await watched.cycles(2 * EVERY_S)
    assert (watched.questions, decision.reason) == (0, "serving")


@pytest.mark.parametrize("flags", [(), ("--reasoning-parser", "qwen3")], ids=["plain", "thinks first"])
@pytest.mark.parametrize("api", ["chat", "completions"])
async def test_both_endpoints_and_reasoning_are_read(pair: Pair, api: str, flags: tuple[str, ...]) -> None:
    pair.serving(*flags)
    watched = Watched(pair, warmup=Warmup(api=api))
    await watched.cycles(90)
    known = watched.state.sanity
    assert (known.wall > 0, known.bad, known.known is not None) == (True, 0, True)
    pair.fault(nonsense=True)
    watched.state = replace(watched.state, sanity=replace(known, generation=0))
    assert (await watched.cycles(90)).reason == "nonsense"


async def test_secrets_in_an_answer_are_shown_to_nobody(watched: Watched, tmp_path: Path) -> None:
    (tmp_path / "hf").write_text("planted-0123456789")
    watched.secrets = {"HF_TOKEN": str(tmp_path / "hf")}
    watched.pair.fault(nonsense="green planted-0123456789 tables")
    decision = await watched.cycles(90)
    assert decision.reason == "nonsense"
    assert "planted" not in decision.sentence + json.dumps(str(watched.state))


# ------------------------------------------------------------------------------------------------------ the fault itself


def test_the_fault_is_in_every_answer_and_leaves_every_light_green(pair: Pair) -> None:
    pair.serving()
    asked: dict[str, Any] = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 6}
    pair.fault(nonsense=True)
    status, body = pair.post("/v1/chat/completions", **asked)
    assert (status, json.loads(body)["choices"][0]["message"]["content"]) == (200, "!!!!!!")
    assert json.loads(pair.post()[1])["choices"][0]["text"] == "!!!!"
    pair.fault(nonsense="не the 的")
    assert json.loads(pair.post()[1])["choices"][0]["text"] == " не the 的 не"
    assert pair.get("/health")[0] == 200
    assert pair.metric("vllm:generation_tokens_total") == 14
    pair.fault()
    assert "!" not in json.loads(pair.post("/v1/chat/completions", **asked)[1])["choices"][0]["message"]["content"]
