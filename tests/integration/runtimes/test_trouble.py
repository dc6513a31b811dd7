"""A real dockerd that refuses, freezes or goes away: what DockerRuntime says then."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import anyio
import pytest

from sparkd.base.errors import DockerError, DockerMute, DockerRefused, DockerStopped
from sparkd.model.config import Mount
from sparkd.model.rank import RankSpec
from sparkd.runtimes import docker as module
from sparkd.runtimes.docker import DockerRuntime, reason

from ..waiting import until
from .dockerd import IMAGE, Dockerd
from .ranks import only, rank, until_state

pytestmark = pytest.mark.lab


# -------------------------------------------------------------------------------------------------------------- refused


REFUSALS: dict[str, tuple[RankSpec, str, int]] = {
    "image-missing": (rank(image="sparkd-test/none:1"), "image sparkd-test/none:1 is not on this node", 404),
    "mount-missing": (
        rank(mounts=(Mount(source="/nowhere/x", target="/m"),)),
        "mount source /nowhere/x does not exist",
        400,
    ),
    "gpu": (rank(hardware="gpu"), "no GPU runtime", 500),
    "device-missing": (rank(devices=("/dev/infiniband",)), "device /dev/infiniband does not exist", 500),
    "other": (rank(ulimits={"nofile": 1 << 40}), "error setting rlimit", 500),
}


@pytest.mark.parametrize("code", REFUSALS)
async def test_a_refused_start_says_why_and_leaves_nothing(runtime: DockerRuntime, code: str) -> None:
    spec, why, status = REFUSALS[code]
    with pytest.raises(DockerRefused) as refused:
        await runtime.start(spec, {})
    assert (reason(refused.value), refused.value.status) == (code, status)
    assert why in refused.value.why
    assert await runtime.containers() == ()


async def test_a_program_that_is_not_there_is_an_exit(runtime: DockerRuntime) -> None:
    """Init runs first, so Docker starts such a rank without complaint and its end is what tells."""
    await runtime.start(rank("no-such-program"), {})
    assert (await until_state(runtime, "exited")).exit_code == 127


async def test_the_name_fences_a_double_start(runtime: DockerRuntime) -> None:
    first = await runtime.start(rank(), {})
    with pytest.raises(DockerRefused) as refused:
        await runtime.start(rank(), {})
    assert (reason(refused.value), refused.value.status) == ("name-taken", 409)
    assert refused.value.why == f"the name sparkd-demo-0 is taken by container {first[:12]}"
    assert (await only(runtime)).id == first


# ----------------------------------------------------------------------------------------------------------- mute, gone


async def test_a_mute_docker_is_given_up_in_time(
    runtime: DockerRuntime, dockerd: Dockerd, monkeypatch: pytest.MonkeyPatch
) -> None:
    """moby/moby#28889: connections are accepted and nothing is answered."""
    monkeypatch.setattr(module, "LOOK_S", 1.0)
    monkeypatch.setattr(module, "START_S", 1.0)
    created = await runtime.start(rank(), {})
    dockerd.signal(signal.SIGSTOP)
    try:
        for call in (
            runtime.containers,
            lambda: runtime.image(IMAGE),
            lambda: runtime.inspect(created),
            lambda: runtime.start(rank(number=1), {}),
        ):
            began = time.monotonic()
            with pytest.raises(DockerMute, match="did not end in 1 s"):
                await call()
            assert time.monotonic() - began < 2
    finally:
        dockerd.signal(signal.SIGCONT)

    # What was asked before it froze may still be done afterwards: exactly why a mute start is no "not started".
    async def answers() -> bool:
        try:
            return any(one.id == created for one in await runtime.containers())
        except DockerError:
            return False

    await until("it answers again", answers)


async def test_a_stopped_docker_is_not_dialled(runtime: DockerRuntime, tmp_path: Path) -> None:
    def stopped() -> Path:
        raise DockerStopped("spark1", "docker.service is stopped")

    with pytest.raises(DockerStopped):
        await DockerRuntime("spark1", stopped).containers()
    with pytest.raises(DockerError, match="No such file"):
        await DockerRuntime("spark1", lambda: tmp_path / "docker.sock").containers()


@pytest.mark.slow
async def test_docker_restarted_under_us(runtime: DockerRuntime, dockerd: Dockerd) -> None:
    created = await runtime.start(rank(), {})
    await runtime.containers()
    await anyio.to_thread.run_sync(dockerd.stop)
    with pytest.raises(DockerError, match=r"No such file|no connection"):
        await runtime.containers()
    await anyio.to_thread.run_sync(dockerd.start)
    # Without live-restore a rank dies with its dockerd, and Docker's restart policy must not bring it back alone.
    assert ((await only(runtime)).id, (await only(runtime)).state) == (created, "exited")
