"""Asking an engine against a real dockerd: what the container may do, and that nothing of it stays, however it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiodocker
import anyio
import pytest

from sparkd.base.errors import DockerError, DockerMute
from sparkd.model.config import ContainerSpec, Deployment, Mount
from sparkd.model.engine_key import EngineKey
from sparkd.runtimes import looker
from sparkd.runtimes import throwaway as module
from sparkd.runtimes.connection import find
from sparkd.runtimes.engine_python import Located, key_of, locate
from sparkd.runtimes.inside import LABEL_LOOK, Inside
from sparkd.runtimes.throwaway import LABEL, Throwaway

from ..waiting import until
from .dockerd import IMAGE, Dockerd

pytestmark = pytest.mark.lab


@pytest.fixture
async def throwaway(dockerd: Dockerd) -> AsyncIterator[Throwaway]:
    throwaway = Throwaway("spark1", lambda: dockerd.socket)
    yield throwaway
    await throwaway.aclose()


@pytest.fixture
async def inside(dockerd: Dockerd) -> AsyncIterator[Inside]:
    inside = Inside("spark1", lambda: dockerd.socket)
    yield inside
    await inside.aclose()


@pytest.fixture
async def shell(docker: aiodocker.Docker) -> Located:
    """The image's shell in the place of a Python: it takes `-c TEXT` as well."""
    image = await docker.images.inspect(IMAGE)
    return Located(key=EngineKey(image["Id"]), python="/bin/sh", mounts=(), env={"PATH": "/bin"}, user=None)


async def asked(docker: aiodocker.Docker) -> list[dict[str, Any]]:
    found = await docker.containers.list(all=True, filters=json.dumps({"label": [LABEL]}))
    inspected = [await find(docker, one.id) for one in found]
    return [one for one in inspected if one is not None]  # one that is just being made is listed first, and found later


async def test_it_answers_reaches_nothing_and_goes(
    throwaway: Throwaway, docker: aiodocker.Docker, shell: Located, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("of the node\n")
    located = Located(
        key=shell.key,
        python=shell.python,
        mounts=(Mount(source=str(tmp_path), target="/mnt"),),
        env=shell.env,
        user=None,
    )
    script = (
        "echo noise >&2; cat /mnt/file; (echo x > /mnt/file) 2>/dev/null || echo kept; "
        "(echo x > /made) 2>/dev/null || echo sealed; echo x > /tmp/a && cat /tmp/a; "
        "cat /proc/net/route | head -n 2; cat /sys/class/net/eth0/address 2>/dev/null || echo alone; echo $0"
    )
    text = await throwaway.run(located, script, "us")
    lines = text.splitlines()
    assert [*lines[:4], *lines[5:]] == ["of the node", "kept", "sealed", "x", "alone", f"{module.RUN_S:.0f}"]
    assert lines[4].startswith("Iface")  # and no route below the heading
    assert await asked(docker) == []


async def test_it_is_small_and_marked_while_it_runs(
    throwaway: Throwaway, docker: aiodocker.Docker, shell: Located
) -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(throwaway.run, shell, "sleep 60", "us")
        await until("it runs", lambda: _runs(docker))
        [found] = await asked(docker)
        group.cancel_scope.cancel()
    host = found["HostConfig"]
    assert found["Config"]["Labels"] == {LABEL: "us", looker.LABEL: looker.me()}
    assert (host["Memory"], host["PidsLimit"], host["ReadonlyRootfs"]) == (module.MEMORY_BYTES, module.PIDS, True)
    assert (host["NetworkMode"], host["Privileged"], host["CapDrop"]) == ("none", False, ["ALL"])
    assert not host["Devices"]
    assert not host["DeviceRequests"]
    assert await asked(docker) == []  # cancelled in the middle, and gone


async def _runs(docker: aiodocker.Docker) -> bool:
    return [one["State"]["Running"] for one in await asked(docker)] == [True]


async def test_what_goes_wrong_inside_is_told_and_removed(
    throwaway: Throwaway, docker: aiodocker.Docker, shell: Located
) -> None:
    for script, words in (
        ("echo 'No module named vllm' >&2; exit 3", "exit 3: No module named vllm"),
        ("kill -9 $$", "killed"),
        ("kill -14 $$", "did not end in 120 s"),
    ):
        with pytest.raises(DockerError, match=words):
            await throwaway.run(shell, script, "us")
    nowhere = Located(key=shell.key, python="/no/python3", mounts=(), env={}, user=None)
    with pytest.raises(DockerError, match="No such file"):
        await throwaway.run(nowhere, "", "us")
    gone = Located(
        key=shell.key, python="/bin/sh", mounts=(Mount(source="/no/such", target="/mnt"),), env={}, user=None
    )
    with pytest.raises(DockerError, match="/no/such"):
        await throwaway.run(gone, "", "us")
    assert await asked(docker) == []


async def test_one_that_does_not_end_is_ended(
    throwaway: Throwaway, docker: aiodocker.Docker, shell: Located, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RUN_S", 1.0)
    monkeypatch.setattr(module, "MARGIN_S", 1.0)
    with pytest.raises(DockerMute, match="did not end in 2 s"):
        await throwaway.run(shell, "trap '' TERM; sleep 60", "us")
    assert await asked(docker) == []


async def test_one_that_prints_for_ever_is_not_believed(
    throwaway: Throwaway, docker: aiodocker.Docker, shell: Located, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_BYTES", 1000)
    with pytest.raises(DockerError, match="more than 1000 bytes"):
        await throwaway.run(shell, "seq 1 2000", "us")
    assert await asked(docker) == []


KILLED = """
import sys, anyio
from pathlib import Path
from sparkd.model.engine_key import EngineKey
from sparkd.runtimes.engine_python import Located
from sparkd.runtimes.throwaway import Throwaway
image, socket = sys.argv[1:]
located = Located(key=EngineKey(image), python="/bin/sh", mounts=(), env={}, user=None)
anyio.run(Throwaway("spark1", lambda: Path(socket)).run, located, "sleep 300", "us")
"""


async def test_what_a_killed_sparkd_left_running_is_swept_by_the_next(
    throwaway: Throwaway, docker: aiodocker.Docker, dockerd: Dockerd, shell: Located
) -> None:
    other = await docker.containers.create({"Image": IMAGE, "Cmd": ["-"], "Labels": {LABEL: "somebody"}})
    argv = [sys.executable, "-c", KILLED, shell.key.image_id, str(dockerd.socket)]
    before = subprocess.Popen(argv)
    try:
        await until("it asks", lambda: _one_runs(docker))
        assert await throwaway.sweep("us") == 0  # as `sparkd check` and the daemon are to each other
        os.kill(before.pid, signal.SIGKILL)
    finally:
        before.kill()
        before.wait()
    assert await _one_runs(docker)  # nobody is left to remove it
    assert await throwaway.sweep("us") == 1
    assert [one["Id"] for one in await asked(docker)] == [other.id]


async def _one_runs(docker: aiodocker.Docker) -> bool:
    return [one["State"]["Running"] for one in await asked(docker)].count(True) == 1


async def test_what_runs_now_is_not_swept(throwaway: Throwaway, docker: aiodocker.Docker, shell: Located) -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(throwaway.run, shell, "sleep 60", "us")
        await until("it runs", lambda: _runs(docker))
        assert await throwaway.sweep("us") == 0
        assert await _runs(docker)
        group.cancel_scope.cancel()


# ------------------------------------------------------------------------------------------- which Python, which engine


def mounted(folder: Path, **container: Any) -> Deployment:
    """An engine in a mount, as people have it who keep a venv on the node, and a model that is none of its business."""
    for path, text in (("bin/vllm", "#!/venv/bin/python3\n"), ("bin/python3", "#!/bin/sh\n"), ("model/x", "")):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
        (folder / path).chmod(0o755)
    mounts = (Mount(source=str(folder), target="/venv"), Mount(source=str(folder / "model"), target="/model"))
    return Deployment(
        name="tiny",
        engine="vllm",
        nodes=("spark1",),
        image=IMAGE,
        command=("/venv/bin/vllm", "serve"),
        container=ContainerSpec(mounts=mounts, **container),
    )


async def test_an_engine_in_a_mount_is_found_and_is_another_after_an_installation(
    inside: Inside, docker: aiodocker.Docker, tmp_path: Path
) -> None:
    deployment = mounted(tmp_path)
    located = await locate(inside, deployment, "us", "spark1")
    assert located is not None
    assert (located.python, located.mounts) == ("/venv/bin/python3", deployment.container.mounts[:1])
    assert await key_of(inside, deployment, "us", "spark1") == located.key
    (tmp_path / "bin/vllm").write_text("#!/venv/bin/python3\n# another version\n")
    anew = await key_of(inside, deployment, "us", "spark1")
    assert anew is not None
    assert (anew.image_id, anew == located.key) == (located.key.image_id, False)
    (tmp_path / "model/y").write_text("")
    assert await key_of(inside, deployment, "us", "spark1") == anew
    looks = await docker.containers.list(all=True, filters=json.dumps({"label": [LABEL_LOOK]}))
    assert looks == []


async def test_an_engine_in_the_image_is_that_image(inside: Inside, tmp_path: Path) -> None:
    image = await inside.image(IMAGE)
    plain = Deployment(name="tiny", engine="vllm", nodes=("spark1",), image=IMAGE)
    assert image is not None
    assert await key_of(inside, plain, "us", "spark1") == EngineKey(image["Id"], "vllm")
    with pytest.raises(DockerError, match="names no Python"):
        await locate(inside, plain, "us", "spark1")
    hidden = Deployment(name="tiny", engine="vllm", nodes=("spark1",), image=IMAGE, command=("bash", "-c", "x"))
    with pytest.raises(DockerError, match="a shell's"):
        await locate(inside, hidden, "us", "spark1")
    none = Deployment(name="tiny", engine="vllm", nodes=("spark1",), image="nobody/has:this")
    assert await locate(inside, none, "us", "spark1") is None
