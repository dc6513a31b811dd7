"""The checker asks for the facts and for the engine's parser at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import anyio
from check_world import CLUSTER, DEPLOYMENT, NODES, view

from sparkd.background.checks_runner import Checker
from sparkd.background.parser_interview import ParserAnswer
from sparkd.checks.shared.scene import Check, Scene
from sparkd.engines.tables import SHIPPED, Tables
from sparkd.model.decision import Phase, State
from sparkd.model.snapshot import Snapshot


class Meeting:
    """Surveyor and asking in one: neither ends before both were asked, as two requests that share one deadline."""

    answered: Any = None

    def __init__(self) -> None:
        self.surveying, self.asking = anyio.Event(), anyio.Event()

    async def survey(self, scene: Scene, checks: Sequence[Check]) -> Scene:
        self.surveying.set()
        await self.asking.wait()
        return scene

    async def answer(self, deployment: object) -> ParserAnswer:
        self.asking.set()
        await self.surveying.wait()
        return ParserAnswer(None, "not yet")

    def tables(self) -> Tables:
        return SHIPPED


async def test_a_mute_docker_costs_its_deadline_once() -> None:
    meeting = cast(Any, Meeting())
    checker = Checker(surveyor=meeting, asking=meeting, owner="us", wake=lambda: None)
    seen = Snapshot(at=0.0, wall=0.0, owner="us", nodes={name: view(name) for name in NODES})
    with anyio.fail_after(10):
        checked = await checker.check(CLUSTER, DEPLOYMENT, State(Phase.STOPPED, since=0.0), seen)
    assert checked.findings
