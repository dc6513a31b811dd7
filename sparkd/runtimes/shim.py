"""Rank specs -> plain processes on this machine, each kept by a detached shim; and what is there -> Container values.

For the demo, and for machines without systemd and Docker. Needs no rights: the ranks run as the user of sparkd. A rank
is a folder, whose name fences a second start as Docker's name rule does; it is adopted by process identity.
"""

from __future__ import annotations

import fcntl
import json
import secrets as randomness
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import anyio
from anyio import to_thread

from sparkd.base.errors import DockerError, DockerMute
from sparkd.model.rank import RankSpec
from sparkd.model.size import parse_size
from sparkd.model.snapshot import Container
from sparkd.runtimes import shim_log, shim_main, shim_record
from sparkd.runtimes.docker_refusals import Refused
from sparkd.runtimes.logs import LogLine
from sparkd.runtimes.shim_record import Identity, Record

LOOK_S = 4.0
START_S = 15.0
"""A start takes 40 ms; a machine that swaps may need seconds for Python alone."""
STOP_MARGIN_S = 15.0
"""After SIGKILL, as for Docker: longer than this is state D."""
FOLLOW_S = 0.25
ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
"""What a rank has besides its own variables; nothing of sparkd's environment gets through."""


class ShimRuntime:
    """The ranks under `folder`, which is made when needed. All methods raise DockerError kinds."""

    def __init__(self, node_name: str, folder: Path) -> None:
        self._node, self._folder = node_name, folder
        self._listed = anyio.Event()
        self._shims: set[Identity] = set()
        """Of the ranks that the last listing showed as running."""

    async def aclose(self) -> None:
        """Nothing is held open: ranks and shims go on by themselves."""

    # ------------------------------------------------------------------------------------------------------------- look

    async def containers(self) -> tuple[Container, ...]:
        with self._deadline("listing ranks", LOOK_S):
            records = await to_thread.run_sync(lambda: list(self._records()))
            found = await to_thread.run_sync(lambda: tuple(record.container() for record in records))
        running = {container.id for container in found if container.alive}
        self._shims = {record.shim for record in records if record.shim is not None and record.id in running}
        self._listed.set()
        return found

    async def inspect(self, container_id: str) -> dict[str, Any]:
        with self._deadline("inspecting a rank", LOOK_S):
            record = await to_thread.run_sync(self._known, container_id)
            return {**asdict(record), "folder": str(record.folder), "container": asdict(record.container())}

    async def image(self, ref: str) -> str | None:
        """There are no images here."""
        return None

    async def owners(self) -> dict[int, str]:
        """Pid of each rank's first process, and of its shim, under which orphans come -> rank id: whose a process is."""
        with self._deadline("listing ranks", LOOK_S):
            records = await to_thread.run_sync(lambda: [record for record in self._records() if record.kept])
        return {one.pid: record.id for record in records for one in (record.rank, record.shim) if one is not None}

    def _records(self) -> Iterator[Record]:
        """Raises OSError or ValueError for a record that cannot be read: unknown is not the same as not there."""
        if not self._folder.exists():
            return
        for path in sorted(self._folder.iterdir()):
            if path.name.startswith("."):
                continue
            try:
                yield shim_record.read(path)
            except FileNotFoundError:
                continue  # removed while we looked

    def _find(self, container_id: str) -> Record | None:
        return next((record for record in self._records() if record.id == container_id), None)

    def _known(self, container_id: str) -> Record:
        record = self._find(container_id)
        if record is None:
            raise Refused(self._node, f"no such rank: {container_id}", 404)
        return record

    # ------------------------------------------------------------------------------------------------------------ start

    async def start(self, spec: RankSpec, secrets: Mapping[str, str]) -> str:
        """Not interrupted half-way: cancelling waits for the end, which is never further away than START_S."""
        container_id = randomness.token_hex(32)
        with self._errors(f"starting {spec.name}"):
            await to_thread.run_sync(self._start, spec, secrets, container_id)
        return container_id

    def _start(self, spec: RankSpec, secrets: Mapping[str, str], container_id: str) -> None:
        folder = self._make(spec, container_id)
        argv = [sys.executable, "-I", "-S", shim_main.__file__, str(folder), container_id]
        request = json.dumps(_request(spec, secrets)).encode()
        try:
            done = subprocess.run(
                argv, input=request, env=ENVIRONMENT, capture_output=True, timeout=START_S, check=False
            )
        except subprocess.TimeoutExpired:
            raise DockerMute(self._node, f"the shim of {spec.name} did not begin in {START_S:g} s") from None
        if done.returncode != 0:
            self._discard(folder, container_id)
            why = done.stderr.decode("utf-8", "replace").strip() or f"status {done.returncode}"
            raise Refused(self._node, f"the shim of {spec.name} did not start: {why}", 500)

    def _make(self, spec: RankSpec, container_id: str) -> Path:
        """A folder with a record appears under its name at once, or not at all where the name is in use."""
        folder, new = self._folder / spec.name, self._folder / f".new-{container_id}"
        new.mkdir(parents=True, mode=0o700)
        try:
            record = {
                "id": container_id,
                "name": spec.name,
                "labels": dict(spec.labels),
                "argv": list(spec.argv),
                "env": dict(spec.env),
                "boot": shim_record.this_boot(),
            }
            (new / shim_main.LOCK).touch(mode=0o600)
            (new / shim_main.LOG).touch(mode=0o600)
            (new / shim_main.RECORD).write_text(json.dumps(record), "utf-8")
            new.rename(folder)
        except OSError as error:
            shutil.rmtree(new)
            if folder.exists():
                # In Docker's words, which `refusals` knows: the same thing has one code.
                taken = f'container name "{spec.name}" is already in use by container "{self._holder(folder)}"'
                raise Refused(self._node, taken, 409) from error
            raise
        return folder

    def _holder(self, folder: Path) -> str:
        try:
            return shim_record.read(folder).id
        except (OSError, ValueError):  # just being removed
            return ""

    # ------------------------------------------------------------------------------------------------------------- stop

    async def stop(self, container_id: str, grace_s: float) -> None:
        """SIGTERM to its first process, after `grace_s` SIGKILL to all; what outlived its shim is killed at once."""
        with self._deadline(f"stopping rank {container_id[:12]}", grace_s + STOP_MARGIN_S):
            record = await to_thread.run_sync(self._find, container_id)
            if record is None:
                return
            if record.kept and record.shim is not None:
                await to_thread.run_sync((record.folder / shim_main.GRACE).write_text, str(grace_s), "ascii")
                await _end(record.shim, signal.SIGTERM)
            while left := await to_thread.run_sync(self._survivors, container_id):
                for process in left:
                    await _end(process, signal.SIGKILL)

    def _survivors(self, container_id: str) -> tuple[Identity, ...]:
        record = self._find(container_id)
        return record.survivors() if record is not None and not record.kept else ()

    async def remove(self, container_id: str) -> None:
        with self._deadline(f"removing rank {container_id[:12]}", LOOK_S):
            record = await to_thread.run_sync(self._find, container_id)
            if record is None:
                return
            if record.container().alive:
                raise Refused(self._node, f"rank {container_id[:12]} runs: stop it before it is removed", 409)
            if record.shim is not None:
                await _gone(record.shim)  # it has written the end, and is about to let go of the folder
            await to_thread.run_sync(self._discard, record.folder, container_id)

    def _discard(self, folder: Path, container_id: str) -> None:
        """The name is free at once; a shim that comes too late finds the lock taken or its folder gone."""
        gone = self._folder / f".gone-{container_id}"
        with (folder / shim_main.LOCK).open("rb") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise Refused(self._node, f"rank {container_id[:12]} is just being started", 409) from None
            folder.rename(gone)
            shutil.rmtree(gone)

    # ------------------------------------------------------------------------------------------------------------- logs

    async def logs(self, container_id: str, tail: int, since: float | None) -> tuple[LogLine, ...]:
        with self._deadline("reading a log", LOOK_S):
            record = await to_thread.run_sync(self._known, container_id)
            return await to_thread.run_sync(shim_log.last, record.folder, tail, since)

    async def beginning(self, container_id: str, most: int, since: float | None) -> tuple[LogLine, ...]:
        with self._deadline("reading a log", LOOK_S):
            record = await to_thread.run_sync(self._known, container_id)
            return await to_thread.run_sync(shim_log.first, record.folder, most)

    async def follow(self, container_id: str, tail: int) -> AsyncGenerator[LogLine, None]:
        record = await to_thread.run_sync(self._known, container_id)
        with self._errors("following a log"), closing(shim_log.Tail(record.folder)) as new:
            shown = 0.0
            for line in await to_thread.run_sync(shim_log.last, record.folder, tail, None):
                shown = line.at
                yield line
            runs = True
            while runs:
                runs = record.container().alive
                for line in await to_thread.run_sync(new.take):
                    if line.at > shown:
                        yield line
                await anyio.sleep(FOLLOW_S if runs else 0)

    # ----------------------------------------------------------------------------------------------------------- events

    async def events(self, wake: Callable[[], None]) -> None:
        """Waits for the end of every shim that was last seen running, also of one that ended right after that."""
        watched: set[Identity] = set()

        async def until_end(shim: Identity) -> None:
            await _gone(shim)
            wake()

        async with anyio.create_task_group() as group:
            while True:
                await self._listed.wait()
                self._listed = anyio.Event()
                watched &= self._shims  # one that ended and still is listed, for what it left, has woken once
                for shim in self._shims - watched:
                    watched.add(shim)
                    group.start_soon(until_end, shim)

    @contextmanager
    def _deadline(self, what: str, seconds: float) -> Iterator[None]:
        try:
            with self._errors(what), anyio.fail_after(seconds):
                yield
        except TimeoutError:
            raise DockerMute(self._node, f"{what} did not end in {seconds:g} s") from None

    @contextmanager
    def _errors(self, what: str) -> Iterator[None]:
        try:
            yield
        except TimeoutError:
            raise
        except (OSError, ValueError) as error:
            raise DockerError(self._node, f"{what}: {error}") from None


async def _end(process: Identity, number: signal.Signals) -> None:
    """Signals exactly this process and returns when it is gone."""
    with process.held() as descriptor:
        if descriptor is not None:
            signal.pidfd_send_signal(descriptor, number)
            await anyio.wait_readable(descriptor)


async def _gone(process: Identity) -> None:
    with process.held() as descriptor:
        if descriptor is not None:
            await anyio.wait_readable(descriptor)


def _request(spec: RankSpec, secrets: Mapping[str, str]) -> dict[str, Any]:
    log = spec.container.log
    return {
        "argv": list(spec.argv),
        "env": {**ENVIRONMENT, **spec.env, **secrets},
        "cwd": spec.container.workdir or "/",
        "max_bytes": parse_size(log.max_size),
        "files": log.max_file,
    }
