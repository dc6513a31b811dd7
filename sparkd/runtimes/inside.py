"""Docker's own files and words on one node, for checks: paths and texts inside containers and images, and raw inspects.

A file is looked at in an image through a container that is created from it and never started. Nothing here starts or
stops anything.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import tarfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiodocker
import aiohttp
import anyio

from sparkd.model.config import Mount
from sparkd.model.place import loadable
from sparkd.render import bind
from sparkd.runtimes import looker
from sparkd.runtimes.connection import TIMEOUT, Connection, address, find, find_image, listed, understood

LOOK_S = 8.0
"""For one question. Listing every container with its inspect takes 30 ms each."""
MAX_TEXT_BYTES = 1 << 20
MAX_WHOLE_BYTES = 8 << 20
"""Mods are source files; of what is larger, as libraries are, size and beginning have to do."""
TAR_BYTES = 4096
"""Headers before the first file of an archive, long names included."""
MAX_CHANGES = 64
"""Files of one container that are looked into; a mod changes a handful."""
DELETED = 2
"""Docker's number for a path that is gone; 0 is changed, 1 is new."""
LABEL_LOOK = "io.sparkd.look"
"""Marks a container that only exists to be looked into, with the owner's id. It never runs; a left-over one is removed
by the next look."""


class Inside:
    """All methods raise DockerError kinds, and what `socket` raises (Docker is stopped, the node is gone)."""

    def __init__(self, node: str, socket: Callable[[], Path]) -> None:
        self._node, self._connection = node, Connection(node, socket)
        self._making, self._looks = anyio.Lock(), set[str]()
        self._tellers: dict[str, Callable[[Mapping[str, Any]], Awaitable[Any]]] = {
            "containers": lambda _: self._containers(),
            "images": lambda _: self._images(),
            "docker_info": lambda _: self._info(),
            "image": lambda args: self.image(str(args["ref"])),
            "inspected": lambda _: self._inspected(),
        }

    async def aclose(self) -> None:
        await self._connection.aclose()

    async def tell(self, fact: str, args: Mapping[str, Any]) -> str:
        """As JSON: `containers` (every one, inspected), `images` (all), `docker_info`, `image` (inspect of `ref`, or null),
        `inspected` (Docker's version, every container and the images they are made from, inspected)."""
        told = await self._tellers[fact](args)
        with understood(self._node, f"telling {fact}"):
            return json.dumps(told)

    async def _containers(self) -> list[Any]:
        async with self._connection.call("inspecting all containers", LOOK_S) as docker:
            entries = await listed(docker, "containers/json", {"all": "1"})
            inspected = [await find(docker, str(entry["Id"])) for entry in entries]
            return [one for one in inspected if one is not None]  # those that did not go meanwhile

    async def _images(self) -> Any:
        async with self._connection.call("listing images", LOOK_S) as docker:
            return await listed(docker, "images/json", {})

    async def _info(self) -> Any:
        async with self._connection.call("asking Docker about itself", LOOK_S) as docker:
            told = await docker.system.info()
        return {name: told.get(name) for name in ("DockerRootDir", "DriverStatus", "ServerVersion")}

    async def _inspected(self) -> dict[str, Any]:
        containers = await self._containers()
        async with self._connection.call("inspecting images", LOOK_S) as docker:
            version = await docker.version()
            refs = sorted({str(one["Image"]) for one in containers})
            images = [await find_image(docker, ref) for ref in refs]
        found = [one for one in images if one is not None]  # an image may be removed from under its containers
        return {"version": str(version["Version"]), "containers": containers, "images": found}

    async def changes(self, container: str) -> dict[str, str]:
        """What an engine could load of that which differs between the container and its image -> what it is now: the
        beginning of a file's sha256, or `deleted`; of a large file the size and that of its first MiB. How many more
        there are is said too."""
        async with self._connection.call("comparing a container with its image", LOOK_S) as docker:
            listed_ = await listed(docker, f"containers/{container}/changes", {})
        changed = sorted((str(one["Path"]), int(one["Kind"])) for one in listed_ if loadable(str(one["Path"])))
        found: dict[str, str] = {}
        for at, (path, kind) in enumerate(changed):
            if len(found) == MAX_CHANGES:
                found[f"{len(changed) - at} more files"] = "not looked at"
                break
            now = "deleted" if kind == DELETED else await self._mark(container, path)
            if now is not None:
                found[path] = now
        return found

    async def _mark(self, container: str, path: str) -> str | None:
        """What tells a file from another of its path; None for a folder."""
        path, kind = await self._resolved(container, path)
        if kind != "file":
            return None
        about = await self._stat(container, path) or {}
        with understood(self._node, "looking into a container"):
            size = int(about["size"])
        whole = size <= MAX_WHOLE_BYTES
        head = await self._head(container, path, MAX_WHOLE_BYTES if whole else MAX_TEXT_BYTES)
        mark = hashlib.sha256(head or b"").hexdigest()[:12]
        return mark if whole else f"{mark} of the first MiB, {size} bytes in all"

    async def image(self, ref: str) -> dict[str, Any] | None:
        """Inspect of an image, None when it is not there."""
        async with self._connection.call("inspecting an image", LOOK_S) as docker:
            return await find_image(docker, ref)

    @asynccontextmanager
    async def of_image(self, ref: str, owner: str, mounts: Sequence[Mount] = ()) -> AsyncIterator[str]:
        """The id of a container that was created from the image, with these mounts, and is removed again."""
        async with self._making, self._connection.call("looking into an image", LOOK_S) as docker:
            await self._sweep(docker, owner)
            body: dict[str, Any] = {
                "Image": ref,
                "Cmd": ["-"],
                "Labels": {LABEL_LOOK: owner, looker.LABEL: looker.me()},
                "NetworkDisabled": True,
                "HostConfig": {"Mounts": [bind(replace(mount, read_only=True)) for mount in mounts]},
            }
            container = await docker.containers.create(body)
            self._looks.add(container.id)
        try:
            yield container.id
        finally:
            with anyio.CancelScope(shield=True):
                async with self._connection.call("looking into an image", LOOK_S) as docker:
                    await docker.containers.container(container.id).delete(force=True, v=True)
                self._looks.discard(container.id)

    async def _sweep(self, docker: aiodocker.Docker, owner: str) -> None:
        """What a killed sparkd, or a look of ours that was broken off, left behind."""
        for found in await listed(docker, "containers/json", {"all": "1", "filters": _labelled(owner)}):
            # Several images are looked into at once.
            if found["Id"] not in self._looks and looker.forsaken(found.get("Labels")):
                await docker.containers.container(str(found["Id"])).delete(force=True, v=True)

    async def kind(self, container: str, path: str) -> str:
        """`file`, `dir`, `other` or `missing`: what is at this path in the container's root, running or not."""
        return (await self._resolved(container, path))[1]

    async def stamp(self, container: str, path: str) -> str | None:
        """Time and size of what is at this path: another one after every installation there. None where nothing is."""
        path, _ = await self._resolved(container, path)
        found = await self._stat(container, path)
        return None if found is None else f"{found.get('mtime')} {found.get('size')}"

    async def _resolved(self, container: str, path: str) -> tuple[str, str]:
        """Where the path leads, and what is there."""
        found = await self._stat(container, path)
        if found is not None and found.get("linkTarget"):
            # Docker has followed every link, within the container's root, and says where that leads.
            path = str(found["linkTarget"])
            found = await self._stat(container, path)
        with understood(self._node, "looking into a container"):
            return path, "missing" if found is None else _kind(int(found["mode"]))

    async def _stat(self, container: str, path: str) -> dict[str, Any] | None:
        async with self._archive("HEAD", container, path) as response:
            header = response.headers.get("X-Docker-Container-Path-Stat")
            return None if header is None else dict(json.loads(base64.b64decode(header)))

    async def text(self, container: str, path: str) -> str | None:
        """The first MiB of a file in the container's root, None when it is not there or no file."""
        path, kind = await self._resolved(container, path)
        if kind != "file":
            return None
        head = await self._head(container, path, MAX_TEXT_BYTES)
        return None if head is None else head.decode("utf-8", "replace")

    async def _head(self, container: str, path: str, most: int) -> bytes | None:
        head = bytearray()
        async with self._archive("GET", container, path) as response:
            while len(head) < most + TAR_BYTES and (chunk := await response.content.readany()):
                head += chunk
        with understood(self._node, "looking into a container"):
            return _first_file(bytes(head), most) if head else None

    @asynccontextmanager
    async def _archive(self, method: str, container: str, path: str) -> AsyncIterator[aiohttp.ClientResponse]:
        """Docker's answer, empty where there is no such path."""
        async with self._connection.call("looking into a container", LOOK_S) as docker:
            url = await address(docker, f"containers/{container}/archive")
            async with docker.session.request(method, url, params={"path": path}, timeout=TIMEOUT) as response:
                if response.status >= 400 and response.status != 404:
                    raise aiodocker.DockerError(response.status, f"{path}: status {response.status}")
                if response.status == 404 and method == "GET":
                    await response.read()
                yield response


# Bits of Go's FileMode, as Docker's header has them.
GO_DIR = 1 << 31
GO_TYPE = GO_DIR | 1 << 27 | 1 << 26 | 1 << 25 | 1 << 24 | 1 << 21 | 1 << 19


def _labelled(owner: str) -> str:
    return json.dumps({"label": [f"{LABEL_LOOK}={owner}"]})


def _kind(mode: int) -> str:
    if mode & GO_DIR:
        return "dir"
    return "other" if mode & GO_TYPE else "file"


def _first_file(head: bytes, most: int) -> bytes | None:
    """The archive may be cut off: a file longer than the limit is read as far as it goes."""
    with tarfile.open(fileobj=io.BytesIO(head), mode="r|") as archive:
        member = archive.next()
    if member is None or not member.isreg():
        return None
    start = member.offset_data
    return head[start : start + min(member.size, most)]
