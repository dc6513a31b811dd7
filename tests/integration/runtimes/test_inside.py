"""Inside against a real dockerd: paths and texts in containers and images, and nothing left behind."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import AsyncIterator

import aiodocker
import anyio
import anyio.to_thread
import pytest

from sparkd.facts import docker_info
from sparkd.runtimes import looker
from sparkd.runtimes.docker import DockerRuntime
from sparkd.runtimes.inside import LABEL_LOOK, MAX_TEXT_BYTES, Inside

from ..waiting import until
from .dockerd import IMAGE, Dockerd
from .ranks import rank, until_state

pytestmark = pytest.mark.lab


@pytest.fixture
async def inside(dockerd: Dockerd) -> AsyncIterator[Inside]:
    inside = Inside("spark1", lambda: dockerd.socket)
    yield inside
    await inside.aclose()


NAMED = "from sparkd.runtimes import looker; print(looker.me())"
WRITES = (
    "mkdir -p /made; echo 'hello' > /made/file; ln -s /made/file /made/link; ln -s /nowhere /made/dangling; "
    "head -c 3000000 /dev/zero > /made/big; sleep 60"
)


CHANGES = (
    "mkdir -p /made /made/many; echo one > /made/mod.py; echo data > /made/data.bin; head -c 2000000 /dev/zero > /made/large.py; "
    "head -c 9000000 /dev/zero > /made/lib.so; echo ready > /made/ready.py; sleep 60"
)


async def changed(inside: Inside, runtime: DockerRuntime, more: str = "") -> dict[str, str]:
    container = await runtime.start(rank("sh", "-c", more + CHANGES), {})

    async def written() -> bool:
        return await inside.kind(container, "/made/ready.py") == "file"

    await until("the files are written", written)
    found = await inside.changes(container)
    await runtime.stop(container, 0.0)
    await runtime.remove(container)
    return found


async def test_what_an_engine_could_load_of_a_changed_container(inside: Inside, runtime: DockerRuntime) -> None:
    found = await changed(inside, runtime)
    assert found["/made/mod.py"] == hashlib.sha256(b"one\n").hexdigest()[:12]
    assert found["/made/large.py"] == hashlib.sha256(bytes(2_000_000)).hexdigest()[:12], "whole"
    begins = hashlib.sha256(bytes(MAX_TEXT_BYTES)).hexdigest()[:12]
    assert found["/made/lib.so"] == f"{begins} of the first MiB, 9000000 bytes in all"
    assert set(found) == {f"/made/{name}" for name in ("mod.py", "large.py", "lib.so", "ready.py")}

    many = "mkdir -p /made/many; for i in $(seq 100 199); do echo $i > /made/many/$i.py; done; "
    found = await changed(inside, runtime, many)
    assert (len(found), found["40 more files"]) == (65, "not looked at")


async def test_what_is_at_a_path_in_a_container(inside: Inside, runtime: DockerRuntime) -> None:
    container = await runtime.start(rank("sh", "-c", WRITES), {})

    async def written() -> bool:
        return await inside.kind(container, "/made/big") == "file"

    await until("the files are written", written)
    kinds = {path: await inside.kind(container, path) for path in ("/made", "/made/file", "/made/link", "/no")}
    assert kinds == {"/made": "dir", "/made/file": "file", "/made/link": "file", "/no": "missing"}
    assert await inside.kind(container, "/made/dangling") == "missing"
    assert await inside.text(container, "/made/link") == "hello\n"
    assert await inside.text(container, "/made") is None
    assert await inside.text(container, "/no") is None
    big = await inside.text(container, "/made/big")
    assert big is not None
    assert len(big) <= MAX_TEXT_BYTES


async def test_a_file_of_the_writable_layer_is_not_in_the_image(
    inside: Inside, runtime: DockerRuntime, docker: aiodocker.Docker
) -> None:
    container = await runtime.start(rank("sh", "-c", "echo x > /start.sh"), {})
    await until_state(runtime, "exited")
    assert await inside.kind(container, "/start.sh") == "file"
    async with inside.of_image(IMAGE, "us") as pulled:
        assert await inside.kind(pulled, "/start.sh") == "missing"
        assert await inside.kind(pulled, "/bin/sh") == "file"
    looks = await docker.containers.list(all=True, filters=json.dumps({"label": [LABEL_LOOK]}))
    assert looks == []


async def test_what_a_killed_look_left_is_removed_by_the_next(inside: Inside, docker: aiodocker.Docker) -> None:
    left = await docker.containers.create({"Image": IMAGE, "Cmd": ["-"], "Labels": {LABEL_LOOK: "us"}})
    other = await docker.containers.create({"Image": IMAGE, "Cmd": ["-"], "Labels": {LABEL_LOOK: "somebody"}})
    ended = subprocess.Popen([sys.executable, "-c", NAMED], stdout=subprocess.PIPE, text=True)
    labels = {LABEL_LOOK: "us", looker.LABEL: ended.communicate()[0].strip()}
    killed = await docker.containers.create({"Image": IMAGE, "Cmd": ["-"], "Labels": labels})
    async with inside.of_image(IMAGE, "us"):
        ids = {one.id for one in await docker.containers.list(all=True)}
    assert not {left.id, killed.id} & ids
    assert other.id in ids


async def test_what_another_process_is_looking_into_is_not_taken_away(inside: Inside, docker: aiodocker.Docker) -> None:
    """`sparkd check` beside a daemon: the same owner, another process, and another user."""
    argv = [sys.executable, "-u", "-c", f"{NAMED}; import os, sys; os.setuid(65534); sys.stdin.read()"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as looking:
        assert looking.stdout is not None
        name = await anyio.to_thread.run_sync(looking.stdout.readline)
        labels = {LABEL_LOOK: "us", looker.LABEL: name.strip()}
        theirs = await docker.containers.create({"Image": IMAGE, "Cmd": ["-"], "Labels": labels})
        async with inside.of_image(IMAGE, "us"):
            assert theirs.id in {one.id for one in await docker.containers.list(all=True)}
        looking.communicate()
    async with inside.of_image(IMAGE, "us"):
        assert theirs.id not in {one.id for one in await docker.containers.list(all=True)}


async def test_a_look_of_ours_that_was_broken_off_is_removed_too(inside: Inside, docker: aiodocker.Docker) -> None:
    labels = {LABEL_LOOK: "us", looker.LABEL: looker.me()}
    left = await docker.containers.create({"Image": IMAGE, "Cmd": ["-"], "Labels": labels})
    async with inside.of_image(IMAGE, "us"):
        assert left.id not in {one.id for one in await docker.containers.list(all=True)}


async def test_looks_into_two_images_at_once_do_not_disturb_each_other(inside: Inside) -> None:
    async with inside.of_image(IMAGE, "us") as one, inside.of_image(IMAGE, "us") as other:
        assert one != other
        assert await inside.kind(one, "/bin/sh") == "file"


async def test_dockers_own_words(inside: Inside, runtime: DockerRuntime, dockerd: Dockerd) -> None:
    container = await runtime.start(rank("sleep", "60"), {})
    told = {fact: json.loads(await inside.tell(fact, {})) for fact in ("containers", "images")}
    assert [one["Id"] for one in told["containers"]] == [container]
    assert any(IMAGE in one["RepoTags"] for one in told["images"])
    info = docker_info.parse(await inside.tell("docker_info", {}))
    assert info.folders == (f"{dockerd.folder}/data",), "not Docker's default"
    image = json.loads(await inside.tell("image", {"ref": IMAGE}))
    assert image["Id"].startswith("sha256:")
    assert json.loads(await inside.tell("image", {"ref": "nobody/has:this"})) is None
