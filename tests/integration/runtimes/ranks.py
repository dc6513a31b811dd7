"""Ranks for tests: a busybox command as a rank spec, and waiting for what becomes of it."""

from __future__ import annotations

from typing import Any

from sparkd.model.config import ContainerSpec
from sparkd.model.rank import (
    LABEL_DEPLOYMENT,
    LABEL_GENERATION,
    LABEL_OWNER,
    LABEL_RANK,
    LABEL_SPEC,
    RankSpec,
    container_name,
)
from sparkd.model.snapshot import Container
from sparkd.runtimes.docker import DockerRuntime

from ..waiting import until
from .dockerd import IMAGE

SLEEP = ("sleep", "1000")


def rank(
    *argv: str, deployment: str = "demo", number: int = 0, image: str = IMAGE, hardware: str = "cpu", **container: Any
) -> RankSpec:
    labels = {
        LABEL_OWNER: "owner-1",
        LABEL_DEPLOYMENT: deployment,
        LABEL_GENERATION: "7",
        LABEL_RANK: str(number),
        LABEL_SPEC: "0" * 64,
    }
    return RankSpec(
        deployment=deployment,
        rank=number,
        node="spark1",
        argv=argv or SLEEP,
        env={"PATH": "/bin"},
        image=image,
        hardware=hardware,
        container=ContainerSpec(**{"privileged": False, **container}),
        name=container_name(deployment, number),
        labels=labels,
    )


async def only(runtime: DockerRuntime) -> Container:
    (container,) = await runtime.containers()
    return container


async def until_state(runtime: DockerRuntime, state: str) -> Container:
    async def there() -> bool:
        return (await only(runtime)).state == state

    await until(f"the container is {state}", there)
    return await only(runtime)
