"""When an engine is asked, against a real dockerd: while nothing starts, once, and never in the way of a start."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import aiodocker
import anyio
import pytest
from anyio.abc import TaskGroup

from sparkd.background import parser_interview as asking
from sparkd.background import parser_store
from sparkd.background.parser_interview import NOT_YET, Asking
from sparkd.model.config import ContainerSpec, Deployment, Mount
from sparkd.model.decision import Phase, State
from sparkd.model.machine import Boot, DockerUnit, Memory
from sparkd.model.snapshot import NodeView
from sparkd.observe import NodeAccess
from sparkd.runtimes.docker import DockerRuntime
from sparkd.runtimes.inside import Inside
from sparkd.runtimes.throwaway import LABEL, Throwaway

from ..waiting import until
from .dockerd import IMAGE, Dockerd

pytestmark = pytest.mark.lab

TABLE = json.dumps({"schema": 2, "engine": "vllm", "version": "9", "flags": {}, "env": {}, "variables": []})
# `-c TEXT 120`: the text is given to the image's shell.
PYTHON = '#!/bin/sh\nshift\nexec /bin/sh -c "$@"\n'
SEEN = NodeView(
    name="spark1",
    boot=Boot("boot1", 10, 86400.0, "spark1", now=1.7e9),
    memory=Memory(128 << 30, 100 << 30, 110 << 30, 0, 0, 0),
    system="running",
    docker=DockerUnit(running=True, pid=1),
    containers=(),
    processes=(),
    sockets=(),
)


@dataclass(slots=True)
class Bench:
    """One node with an engine in a mount, and the loop's few words about it."""

    access: dict[str, NodeAccess]
    deployment: Deployment
    state: Path
    docker: aiodocker.Docker
    phase: Phase = Phase.STOPPED
    seen: NodeView = SEEN
    answered: list[str] = field(default_factory=list)

    def asking(self) -> Asking:
        """As of a sparkd that has just started."""
        return Asking(self.access, "us", self.state, self.answered.append)

    def cycle(self, group: TaskGroup, one: Asking) -> None:
        states = {self.deployment.name: State(phase=self.phase)}
        one.follow(group, [self.deployment], states, {"spark1": self.seen})

    async def containers(self) -> int:
        return len(await self.docker.containers.list(all=True, filters=json.dumps({"label": [LABEL]})))

    async def until(self, what: str, one: Asking, group: TaskGroup, containers: int) -> None:
        async def there() -> bool:
            self.cycle(group, one)
            return await self.containers() == containers

        await until(what, there)

    async def until_told(self, one: Asking, group: TaskGroup) -> None:
        async def told() -> bool:
            self.cycle(group, one)
            return (await one.answer(self.deployment)).table is not None

        await until("the engine has answered", told)


@pytest.fixture
async def bench(dockerd: Dockerd, docker: aiodocker.Docker, tmp_path: Path) -> AsyncIterator[Bench]:
    for name, text in (("vllm", "#!/venv/python3\n"), ("python3", PYTHON)):
        (tmp_path / "venv").mkdir(exist_ok=True)
        (tmp_path / "venv" / name).write_text(text)
        (tmp_path / "venv" / name).chmod(0o755)
    access = NodeAccess(
        client=cast(Any, None),
        docker=DockerRuntime("spark1", lambda: dockerd.socket),
        inside=Inside("spark1", lambda: dockerd.socket),
        throwaway=Throwaway("spark1", lambda: dockerd.socket),
    )
    deployment = Deployment(
        name="tiny",
        engine="vllm",
        nodes=("spark1",),
        image=IMAGE,
        command=("/venv/vllm", "serve"),
        container=ContainerSpec(mounts=(Mount(source=str(tmp_path / "venv"), target="/venv"),)),
    )
    yield Bench({"spark1": access}, deployment, tmp_path / "state", docker)
    assert access.inside is not None
    assert access.throwaway is not None
    for one in (access.docker, access.inside, access.throwaway):
        await one.aclose()


def says(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(asking, "script", lambda engine: text)


async def test_it_is_asked_once_and_kept_for_the_next_sparkd(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    says(monkeypatch, f"echo '{TABLE}'")
    async with anyio.create_task_group() as group:
        first = bench.asking()
        untold = await first.answer(bench.deployment)
        assert (untold.table, untold.why) == (None, NOT_YET)
        await bench.until_told(first, group)
        assert bench.answered == ["tiny"]
        await first.aclose()
        says(monkeypatch, "exit 1")  # whoever asks now hears no table
        after = bench.asking()
        told = await after.answer(bench.deployment)
        assert told.table is not None
        assert (told.table.version, told.table.own) == ("9", True)
        await after.ask(bench.deployment, "spark1")
        assert (await after.answer(bench.deployment)).table == told.table
        assert list(parser_store.read(bench.state).values()) == [told.table]
    assert await bench.containers() == 0


async def test_an_engine_that_was_installed_anew_is_asked_anew(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    one = bench.asking()
    says(monkeypatch, f"echo '{TABLE}'")
    await one.ask(bench.deployment, "spark1")
    (Path(bench.deployment.container.mounts[0].source) / "vllm").write_text("#!/venv/python3\n# 10\n")
    assert (await one.answer(bench.deployment)).why == NOT_YET
    says(monkeypatch, f"echo '{TABLE.replace('9', '10')}'")
    await one.ask(bench.deployment, "spark1")
    told = (await one.answer(bench.deployment)).table
    assert told is not None
    assert told.version == "10"


@pytest.mark.parametrize("phase", [Phase.PRECHECK, Phase.CLEANUP, Phase.START_WORKERS, Phase.START_HEAD, Phase.WARMUP])
async def test_it_gives_way_to_a_start(bench: Bench, monkeypatch: pytest.MonkeyPatch, phase: Phase) -> None:
    says(monkeypatch, "sleep 60")
    async with anyio.create_task_group() as group:
        one = bench.asking()
        await bench.until("it is asked", one, group, containers=1)
        bench.phase = phase
        await bench.until("it is gone", one, group, containers=0)
        bench.cycle(group, one)
        await one.aclose()
        assert await bench.containers() == 0
    assert (await one.answer(bench.deployment)).why == NOT_YET


async def test_a_node_without_memory_to_spare_is_left_alone(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    says(monkeypatch, f"echo '{TABLE}'")
    bench.phase = Phase.SERVE
    bench.seen = replace(SEEN, memory=Memory(128 << 30, 1 << 30, 3 << 30, 0, 0, 0))
    async with anyio.create_task_group() as group:
        one = bench.asking()
        for _ in range(3):  # sweeps first, and then there is nothing to be done
            bench.cycle(group, one)
            await one.aclose()
        assert (await one.answer(bench.deployment)).why == NOT_YET
        bench.seen = SEEN
        await bench.until_told(one, group)


async def test_sparkd_ends_while_it_asks(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    says(monkeypatch, "sleep 60")
    async with anyio.create_task_group() as group:
        one = bench.asking()
        await bench.until("it is asked", one, group, containers=1)
        await one.aclose()
        assert await bench.containers() == 0


async def test_what_an_earlier_sparkd_left_goes_at_the_first_look(bench: Bench) -> None:
    await bench.docker.containers.create({"Image": IMAGE, "Cmd": ["-"], "Labels": {LABEL: "us"}})
    bench.deployment = replace(bench.deployment, runtime="process", image=None)  # nothing to ask here
    async with anyio.create_task_group() as group:
        await bench.until("it is swept", bench.asking(), group, containers=0)


async def test_an_engine_that_cannot_say_it_is_left_alone_for_a_while(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    says(monkeypatch, "echo 'No module named vllm' >&2; exit 1")
    async with anyio.create_task_group() as group:
        one = bench.asking()

        async def failed() -> bool:
            bench.cycle(group, one)
            return "No module named vllm" in (await one.answer(bench.deployment)).why

        await until("it has failed", failed)
        says(monkeypatch, f"echo '{TABLE}'")
        for _ in range(3):
            bench.cycle(group, one)
            await one.aclose()
        assert (await one.answer(bench.deployment)).table is None
        assert (bench.answered, parser_store.read(bench.state)) == ([], {})
        one.again()  # a person asked for the checks, right away and later
        bench.cycle(group, one)
        await one.aclose()
        assert (await one.answer(bench.deployment)).table is None
        monkeypatch.setattr(asking, "AGAIN_S", 0.0)
        one.again()
        await bench.until_told(one, group)


async def test_a_command_without_a_python_says_so(bench: Bench) -> None:
    (Path(bench.deployment.container.mounts[0].source) / "vllm").write_text("no script\n")
    one = bench.asking()
    await one.ask(bench.deployment, "spark1")
    assert "/venv/vllm in sparkd-test/busybox:1 names no Python" in (await one.answer(bench.deployment)).why
    bench.deployment = replace(bench.deployment, runtime="process", image=None)
    assert await one.answer(bench.deployment) == asking.ParserAnswer(None)
