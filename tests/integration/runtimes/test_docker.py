"""DockerRuntime against a real dockerd: what it sees, starts, stops and removes."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import aiodocker
import pytest

from sparkd.base.errors import DockerMute, DockerRefused
from sparkd.runtimes import docker as module
from sparkd.runtimes.docker import DockerRuntime

from ..waiting import until
from .dockerd import IMAGE
from .ranks import SLEEP, only, rank, until_state

pytestmark = pytest.mark.lab


# ------------------------------------------------------------------------------------------------------------------ see


async def test_a_started_rank_is_seen_with_its_labels(runtime: DockerRuntime) -> None:
    created = await runtime.start(rank(*SLEEP, number=1), {"TOKEN": "hunter2"})
    seen = await only(runtime)
    assert (seen.id, seen.name, seen.deployment, seen.rank, seen.generation, seen.owner) == (
        created,
        "sparkd-demo-1",
        "demo",
        1,
        7,
        "owner-1",
    )
    assert (seen.state, seen.alive, seen.exit_code, seen.error, seen.finished_at) == ("running", True, None, "", "")
    assert seen.pid > 0
    assert seen.started_at.startswith("20")
    inspected = await runtime.inspect(created)
    assert "TOKEN=hunter2" in inspected["Config"]["Env"]
    assert inspected["HostConfig"]["RestartPolicy"]["Name"] == "no"


@pytest.mark.parametrize(
    ("argv", "code"), [(("sh", "-c", "exit 3"), 3), (("true",), 0), (("sh", "-c", "kill -9 $$"), 137)]
)
async def test_exit_codes(runtime: DockerRuntime, argv: tuple[str, ...], code: int) -> None:
    await runtime.start(rank(*argv), {})
    ended = await until_state(runtime, "exited")
    assert (ended.exit_code, ended.alive, ended.pid, ended.oom_killed) == (code, False, 0, False)
    assert ended.finished_at.startswith("20"), "which may be before started_at: Docker takes that time later"


async def test_a_rank_that_needs_too_much_memory_is_oom_killed(runtime: DockerRuntime) -> None:
    # `tr` of an endless line without a newline: `head` holds nothing, the shell variable everything.
    await runtime.start(rank("sh", "-c", "x=$(yes | tr -d '\\n')", memory="24m"), {})
    ended = await until_state(runtime, "exited")
    assert ended.oom_killed


async def test_names_like_ours_are_reported_and_labels_count_with_their_name(
    runtime: DockerRuntime, docker: aiodocker.Docker
) -> None:
    """A container of an image that somebody committed from a rank has the rank's labels, and is nobody's but his."""
    copied = {
        *(("io.sparkd.deployment", "demo"), ("io.sparkd.rank", "1"), ("io.sparkd.owner", "us")),
        *(("io.sparkd.generation", "3"), ("io.sparkd.spec", "x")),
    }
    for name in ("sparkd-big-model-1", "sparkd-odd", "unrelated", "copy", "sparkd-demo-0", "sparkd-demo-1"):
        labels = dict(copied) if name in ("copy", "sparkd-demo-0", "sparkd-demo-1") else {}
        await docker.containers.create({"Image": IMAGE, "Cmd": ["true"], "Labels": labels}, name=name)
    seen = {one.name: one for one in await runtime.containers()}
    assert set(seen) == {"sparkd-big-model-1", "sparkd-odd", "sparkd-demo-0", "sparkd-demo-1"}
    assert (seen["sparkd-big-model-1"].deployment, seen["sparkd-big-model-1"].rank) == ("big-model", 1)
    assert (seen["sparkd-odd"].deployment, seen["sparkd-odd"].rank) == ("odd", -1)
    assert (seen["sparkd-demo-0"].rank, seen["sparkd-demo-0"].owner) == (0, "")
    assert (seen["sparkd-demo-1"].rank, seen["sparkd-demo-1"].owner, seen["sparkd-demo-1"].generation) == (1, "us", 3)
    assert {one.state for one in seen.values()} == {"created"}
    assert {one.exit_code for one in seen.values()} == {None}


async def test_a_container_restarted_by_hand_is_looked_at_again(
    runtime: DockerRuntime, docker: aiodocker.Docker
) -> None:
    created = await runtime.start(rank(), {})
    before = await only(runtime)
    await docker.containers.container(created).restart(t=0)

    async def renewed() -> bool:
        return (await only(runtime)).pid not in (0, before.pid)

    await until("the new process is seen", renewed, 5.0)


async def test_an_unchanged_container_costs_one_request(
    runtime: DockerRuntime, docker: aiodocker.Docker, monkeypatch: pytest.MonkeyPatch
) -> None:
    await runtime.start(rank("true"), {})
    await until_state(runtime, "exited")
    asked: list[str] = []

    async def counted(docker: aiodocker.Docker, ref: str) -> None:
        asked.append(ref)

    async def unchanged() -> bool:
        """Its own words change while it is young: `Exited (0) 3 seconds ago`."""
        with monkeypatch.context() as patch:
            await runtime.containers()
            patch.setattr(module, "find", counted)
            asked.clear()
            await runtime.containers()
        return not asked

    await until("nothing is inspected twice", unchanged)


async def test_images(runtime: DockerRuntime) -> None:
    found = await runtime.image(IMAGE)
    assert found is not None
    assert found.startswith("sha256:")
    assert await runtime.image("sparkd-test/none:1") is None


# ----------------------------------------------------------------------------------------------------------------- stop


async def test_stop_returns_when_the_rank_is_gone(runtime: DockerRuntime) -> None:
    created = await runtime.start(rank("sh", "-c", "trap 'exit 5' TERM; echo up; sleep 1000 & wait"), {})

    async def up() -> bool:
        return bool(await runtime.logs(created, 10, None))

    await until("the trap is set", up)
    began = time.monotonic()
    await runtime.stop(created, 30.0)
    assert time.monotonic() - began < 10
    assert (await only(runtime)).exit_code == 5
    await runtime.stop(created, 30.0)
    await runtime.remove(created)
    await runtime.stop(created, 30.0)
    await runtime.remove(created)
    assert await runtime.containers() == ()


async def test_stop_kills_what_ignores_sigterm(runtime: DockerRuntime) -> None:
    created = await runtime.start(rank("sh", "-c", "trap '' TERM; while :; do sleep 1; done"), {})
    began = time.monotonic()
    await runtime.stop(created, 1.5)
    assert 1.5 <= time.monotonic() - began < 10
    assert (await only(runtime)).exit_code == 137


async def test_stop_of_a_paused_rank(runtime: DockerRuntime, docker: aiodocker.Docker) -> None:
    created = await runtime.start(rank(), {})
    await docker.containers.container(created).pause()
    assert (await only(runtime)).state == "paused"
    await runtime.stop(created, 1.0)
    assert (await only(runtime)).state == "exited"


async def test_a_stop_that_never_ends_is_given_up(
    runtime: DockerRuntime, docker: aiodocker.Docker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The frozen shim stands for a rank in state D: Docker's stop does not return (moby/moby#22802)."""
    monkeypatch.setattr(module, "STOP_MARGIN_S", 2.0)
    created = await runtime.start(rank(), {})
    pid = (await only(runtime)).pid
    shim = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(shim, signal.SIGSTOP)
    try:
        began = time.monotonic()
        with pytest.raises(DockerMute, match="did not end in 3 s"):
            await runtime.stop(created, 1.0)
        assert time.monotonic() - began < 5
    finally:
        os.kill(shim, signal.SIGCONT)
    await runtime.stop(created, 1.0)


async def test_remove_refuses_what_runs(runtime: DockerRuntime) -> None:
    created = await runtime.start(rank(), {})
    with pytest.raises(DockerRefused, match="running container") as refused:
        await runtime.remove(created)
    assert refused.value.status == 409
    assert (await only(runtime)).state == "running"


async def test_f03_a_name_is_free_when_remove_returns(runtime: DockerRuntime) -> None:
    for _ in range(5):
        created = await runtime.start(rank(), {})
        await runtime.stop(created, 0.0)
        await runtime.remove(created)
    assert await runtime.containers() == ()
