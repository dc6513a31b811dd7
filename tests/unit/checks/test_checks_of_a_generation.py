"""What the checks found belongs to one generation, and to its ranks or to the start before them: of the next it says nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import anyio
import pytest
from check_world import CLUSTER, DEPLOYMENT, NODES, view

from sparkd.background.checks_runner import Checker
from sparkd.background.parser_interview import ParserAnswer
from sparkd.base import clock
from sparkd.checks.shared.scene import Check, Scene
from sparkd.engines.tables import SHIPPED, Tables
from sparkd.facts.engines import ENGINES
from sparkd.model.check import Checked, Finding, Level, Status
from sparkd.model.decision import ASK_ENGINE, STARTING, Phase, State
from sparkd.model.snapshot import Container, Snapshot
from sparkd.model.view import ClusterView, DaemonFacts
from sparkd.reporting.status import status

LASTS = Finding(code="swap", severity=Level.WARN, status=Status.WARN, node="spark1")
PASSES = Finding(code="stray", severity=Level.WARN, status=Status.WARN, node="spark1", passing=True)
RAN = Checked(0.0, 0.1, (LASTS, PASSES), 7, running=True)
BEFORE_START = replace(RAN, running=False)
SEEN = Snapshot(at=0.0, wall=0.0, owner="us", nodes={name: view(name) for name in NODES})


@pytest.mark.parametrize("phase", Phase)
def test_results_of_ranks_that_ran_say_nothing_once_they_are_gone(phase: Phase) -> None:
    same = RAN.current(State(phase, generation=7))
    assert (same is RAN) == (phase in ASK_ENGINE)
    assert RAN.current(State(phase, generation=8)) is None


@pytest.mark.parametrize("phase", Phase)
def test_results_before_a_start_count_until_its_ranks_serve_but_for_what_it_ended(phase: Phase) -> None:
    """`rank 0 of generation 7 still runs` warned for five minutes beside a generation 8 that served."""
    found = BEFORE_START.current(State(phase, generation=8))
    if phase in STARTING:
        assert found is not None
        assert found.findings == (LASTS,)
    else:
        assert found is None


def shown(state: State, checked: Checked) -> dict[str, int]:
    daemon = DaemonFacts(
        version="1", owner="us", since_wall=0.0, loop_age_s=0.0, read_only_disk=False, period_s=5.0, problems=()
    )
    look = replace(SEEN, checks={"demo": checked})
    whole = ClusterView(
        cluster="desk", at=1.0, wall=1.0, daemon=daemon, snapshot=look, nodes=CLUSTER.nodes, deployments=(DEPLOYMENT,),
        states={"demo": state},
    )  # fmt: skip
    return dict(status(whole)["deployments"][0]["checks"])


def test_the_status_counts_what_is_of_the_generation_that_is_shown() -> None:
    assert shown(State(Phase.SERVE, generation=7), RAN)["warn"] == 2
    for state in (State(Phase.SERVE, generation=8), State(Phase.STOPPED, generation=7)):
        assert set(shown(state, RAN).values()) == {0}


class Survey:
    """A look at the nodes that ends when it is let go on."""

    answered: Any = None

    def __init__(self) -> None:
        self.began, self.go_on = anyio.Event(), anyio.Event()

    async def survey(self, scene: Scene, checks: Sequence[Check]) -> Scene:
        self.began.set()
        await self.go_on.wait()
        return replace(scene, facts={(node, ENGINES.name): () for node in NODES})

    async def answer(self, deployment: object) -> ParserAnswer:
        return ParserAnswer(None, "not asked")

    def tables(self) -> Tables:
        return SHIPPED


async def test_a_run_that_began_before_a_restart_and_ends_after_it_is_made_again() -> None:
    survey = Survey()
    checker = Checker(surveyor=cast(Any, survey), asking=cast(Any, survey), owner="us", wake=lambda: None)
    old, new = (State(Phase.SERVE, since=0.0, generation=number) for number in (7, 8))
    rank = Container("c7", "sparkd-demo-0", "demo", 0, 7, "us", "x", "running")
    seen = replace(SEEN, nodes={**SEEN.nodes, "spark1": view("spark1", containers=(rank,))})
    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            checker.start(group, CLUSTER, DEPLOYMENT, old, seen)
            await survey.began.wait()
            assert not checker.due("demo", new, 30.0), "one at a time"
            survey.go_on.set()
        assert checker.current("demo", old) is not None
        assert checker.current("demo", new) is None
        assert checker.due("demo", new, 30.0)
        assert checker.due("demo", replace(old, phase=Phase.STOPPED), 30.0)
        assert not checker.due("demo", old, 30.0)
        await checker.run(CLUSTER, DEPLOYMENT, new, SEEN)
    assert checker.current("demo", new) is not None
    assert not checker.due("demo", new, 30.0)


async def test_what_passes_is_looked_at_again_soon() -> None:
    survey = Survey()
    survey.go_on.set()
    checker = Checker(surveyor=cast(Any, survey), asking=cast(Any, survey), owner="us", wake=lambda: None)
    stopped = State(Phase.STOPPED, generation=7)
    for finding, due in ((LASTS, False), (PASSES, True)):
        checker.found["demo"] = Checked(clock.now() - 40.0, 0.1, (finding,), 7, running=False)
        assert checker.due("demo", stopped, 30.0) is due


async def test_a_group_that_serves_is_looked_at_anew() -> None:
    """What was found while its ranks came up may say what they had not done yet."""
    survey = Survey()
    checker = Checker(surveyor=cast(Any, survey), asking=cast(Any, survey), owner="us", wake=lambda: None)
    now = clock.now()
    checker.found["demo"] = Checked(now - 10.0, 0.1, (LASTS,), 8, running=True)
    assert not checker.due("demo", State(Phase.WARMUP, since=now - 60.0, generation=8), 30.0)
    assert checker.due("demo", State(Phase.SERVE, since=now - 1.0, generation=8), 30.0)
    assert not checker.due("demo", State(Phase.SERVE, since=now - 60.0, generation=8), 30.0)
