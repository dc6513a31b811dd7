"""A script for the Python of an engine's image -> what it printed: one short container without network, which harms nothing.

It has no network, no device, no capability, nothing that it may write to but a small /tmp; it is the first that the kernel
kills when memory runs out and the last that gets a processor. It ends by itself when sparkd does not live to remove it.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiodocker
import aiohttp
import anyio
from aiodocker.containers import DockerContainer

from sparkd.base.errors import DockerError
from sparkd.render import bind
from sparkd.runtimes import looker
from sparkd.runtimes.connection import CONNECTION, Connection, find, listed, stream
from sparkd.runtimes.engine_python import Located
from sparkd.runtimes.logs import frames

LABEL = "io.sparkd.ask"
"""Marks such a container; its value is the owner's id."""
MEMORY_BYTES = 4 << 30
"""vLLM's CPU build takes 0.6 GB to say its parser, its CUDA libraries about 1 GB more."""
PIDS = 256
RUN_S = 120.0
"""Importing vLLM takes 7 s of one processor (measured), reading it from a cold disk twice that and more."""
MARGIN_S = 30.0
"""Beyond RUN_S, by which the script ends itself: for making and starting the container."""
CREATE_S, REMOVE_S = 20.0, 20.0
MOST_BYTES = 4 << 20
LAST_WORDS = 300
ENDS = {137: "it was killed, as likely as not for memory", 142: f"it did not end in {RUN_S:g} s"}
"""Exit code -> what that means here; 142 is the script's own alarm."""
ENV = {
    "HOME": "/tmp",
    "OMP_NUM_THREADS": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
    "NVIDIA_VISIBLE_DEVICES": "void",  # where NVIDIA's runtime is the default one, it would put the GPU in otherwise
    "HF_HUB_OFFLINE": "1",
}


class Throwaway:
    """One node's Docker. All methods raise DockerError kinds, and what `socket` raises."""

    def __init__(self, node: str, socket: Callable[[], Path]) -> None:
        self._node, self._connection = node, Connection(node, socket)
        self._ours = set[str]()

    async def aclose(self) -> None:
        await self._connection.aclose()

    async def run(self, located: Located, script: str, owner: str) -> str:
        """What the script printed on its standard output. It is given RUN_S, as its first argument and from outside."""
        request, timeout = body(located, script, owner), aiohttp.ClientTimeout(total=RUN_S + MARGIN_S)
        async with (
            self._connection.call("asking an engine", RUN_S + MARGIN_S) as docker,
            self._container(docker, request) as container,
        ):
            await container.start()
            code = int((await container.wait(condition="not-running", timeout=timeout))["StatusCode"])
            printed, errors = await _printed(docker, container.id)
        if code != 0:
            said = errors.decode("utf-8", "replace").strip().rpartition("\n")[2][:LAST_WORDS]
            raise DockerError(self._node, ENDS.get(code, f"exit {code}: {said or 'it said nothing'}"))
        return printed.decode("utf-8", "replace")

    @asynccontextmanager
    async def _container(self, docker: aiodocker.Docker, request: dict[str, Any]) -> AsyncIterator[DockerContainer]:
        """Removed again whatever happens: also while it runs, and when the caller is cancelled."""
        # Cancelled in the middle, the container would exist and its id would be unknown.
        with anyio.fail_after(CREATE_S, shield=True):
            container = await docker.containers.create(request)
            self._ours.add(container.id)
        try:
            yield container
        finally:
            self._ours.discard(container.id)
            # One that cannot be removed is left to the next sweep: what it said, or why it was given up, is no less true.
            with anyio.move_on_after(REMOVE_S, shield=True), suppress(aiodocker.DockerError, *CONNECTION):
                await container.delete(force=True, v=True)

    async def sweep(self, owner: str) -> int:
        """Remove what a killed sparkd left behind, running or not; not what a `sparkd check` beside us is asking. How many
        there were."""
        async with self._connection.call("sweeping", REMOVE_S) as docker:
            filters = json.dumps({"label": [f"{LABEL}={owner}"]})
            found = await listed(docker, "containers/json", {"all": "1", "filters": filters})
            forsaken = [str(one["Id"]) for one in found if looker.forsaken(one.get("Labels"))]
            left = [one for one in forsaken if one not in self._ours]
            for one in left:
                if await find(docker, one) is not None:
                    await docker.containers.container(one).delete(force=True, v=True)
            return len(left)


def body(located: Located, script: str, owner: str) -> dict[str, Any]:
    """The create request."""
    return {
        "Image": located.key.image_id,
        "Entrypoint": [located.python],
        "Cmd": ["-c", script, f"{RUN_S:.0f}"],
        "Env": [f"{name}={value}" for name, value in {**ENV, **located.env}.items()],
        "Labels": {LABEL: owner, looker.LABEL: looker.me()},
        "WorkingDir": "/",
        "NetworkDisabled": True,
        **({"User": located.user} if located.user is not None else {}),
        "HostConfig": {
            "Init": True,  # as PID 1 it would not end by its own alarm
            "Runtime": "runc",
            "NetworkMode": "none",
            "RestartPolicy": {"Name": "no"},
            "ReadonlyRootfs": True,
            "Tmpfs": {"/tmp": "size=256m"},
            "Mounts": [bind(replace(mount, read_only=True)) for mount in located.mounts],
            "CapDrop": ["ALL"],
            "SecurityOpt": ["no-new-privileges"],
            "Memory": MEMORY_BYTES,
            "MemorySwap": MEMORY_BYTES,
            "PidsLimit": PIDS,
            "CpuShares": 2,
            "OomScoreAdj": 1000,
            "LogConfig": {"Type": "json-file", "Config": {"max-size": "8m", "max-file": "1"}},
        },
    }


async def _printed(docker: aiodocker.Docker, container: str) -> tuple[bytes, bytes]:
    """(standard output, the end of standard error)."""
    found = {"stdout": bytearray(), "stderr": bytearray()}
    async with await stream(docker, f"containers/{container}/logs", {"stdout": "1", "stderr": "1"}) as response:
        async for name, frame in frames(response.content):
            found[name] += frame
            if len(found["stdout"]) > MOST_BYTES:
                raise ValueError(f"more than {MOST_BYTES} bytes")
            del found["stderr"][:-MOST_BYTES]
    return bytes(found["stdout"]), bytes(found["stderr"])
