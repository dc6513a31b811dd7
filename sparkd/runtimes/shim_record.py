"""A rank's folder -> its record, what of it still runs, and the Container value that says so."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from sparkd.model.rank import LABEL_DEPLOYMENT, LABEL_GENERATION, LABEL_OWNER, LABEL_RANK, LABEL_SPEC
from sparkd.model.snapshot import Container
from sparkd.node import procfs
from sparkd.runtimes.shim_main import RECORD, stat_of

UNKNOWN_EXIT = 255
"""containerd's number for a container whose end was not seen."""
SHIM_LOST = "its shim ended before it: how the rank ended is unknown"
REBOOTED = "the node booted since"


@dataclass(frozen=True, slots=True)
class Identity:
    """A process of the boot that its record names."""

    pid: int
    start_ticks: int

    @property
    def alive(self) -> bool:
        """A zombie is dead: its parent, possibly the init of a container that never reaps, has not asked yet."""
        found = _look(self.pid)
        return found is not None and found.identity == self and found.state not in "ZX"

    @contextmanager
    def held(self) -> Iterator[int | None]:
        """A pidfd of exactly this process, None when it is gone."""
        try:
            descriptor = os.pidfd_open(self.pid)
        except ProcessLookupError:
            yield None
            return
        try:
            yield descriptor if self.alive else None
        finally:
            os.close(descriptor)


@dataclass(frozen=True, slots=True)
class Record:
    """record.json: what was asked for, by whom it is run, and how it ended. Times are RFC 3339 in UTC."""

    folder: Path
    id: str
    name: str
    labels: Mapping[str, str]
    argv: tuple[str, ...]
    env: Mapping[str, str]
    """Without secrets."""
    boot: str
    shim: Identity | None = None
    rank: Identity | None = None
    started_at: str = ""
    finished_at: str = ""
    exit_code: int | None = None

    @property
    def same_boot(self) -> bool:
        return self.boot == this_boot()

    @property
    def kept(self) -> bool:
        """Does its shim live? Then the shim says how it ends."""
        return self.exit_code is None and self.same_boot and self.shim is not None and self.shim.alive

    def survivors(self) -> tuple[Identity, ...]:
        """Processes of the rank that outlived its shim: those of its session. While it has members the kernel gives its
        number to no new process; once it has none, a process of that number is a stranger that started later."""
        if self.exit_code is not None or self.rank is None or not self.same_boot:
            return ()
        leader = _look(self.rank.pid)
        if leader is not None and leader.identity != self.rank:
            return ()
        seen = (_look(pid) for pid in procfs.pids())
        return tuple(one.identity for one in seen if one and one.session == self.rank.pid and one.state not in "ZX")

    def container(self) -> Container:
        labels, lost = self.labels, not self.kept
        state, exit_code, error = self._ended() if lost else ("running", None, "")
        return Container(
            id=self.id,
            name=self.name,
            deployment=labels.get(LABEL_DEPLOYMENT, ""),
            rank=int(labels.get(LABEL_RANK, "-1")),
            generation=int(labels.get(LABEL_GENERATION, "0")),
            owner=labels.get(LABEL_OWNER, ""),
            spec=labels.get(LABEL_SPEC, ""),
            state=state,
            exit_code=exit_code,
            error=error,
            pid=self.rank.pid if self.rank is not None and state == "running" else 0,
            started_at=self.started_at,
            finished_at=self.finished_at,
            runtime="process",
        )

    def _ended(self) -> tuple[str, int | None, str]:
        """State, exit code and error of a rank that no shim keeps."""
        if self.exit_code is not None:
            return "exited", self.exit_code, ""
        if self.rank is None:
            return "created", None, ""
        if self.survivors():
            return "running", None, SHIM_LOST
        return "exited", UNKNOWN_EXIT, SHIM_LOST if self.same_boot else REBOOTED


def this_boot() -> str:
    identity = procfs.boot_identity()
    return f"{identity.boot_id}:{identity.pid1_ticks}"


def read(folder: Path) -> Record:
    """Raises FileNotFoundError when it is gone, OSError or ValueError when it cannot be read."""
    raw = json.loads((folder / RECORD).read_text("utf-8"))
    try:
        return Record(
            folder=folder,
            argv=tuple(raw["argv"]),
            shim=_identity(raw.get("shim")),
            rank=_identity(raw.get("rank")),
            **{name: raw[name] for name in ("id", "name", "labels", "env", "boot")},
            **{name: raw[name] for name in ("started_at", "finished_at", "exit_code") if name in raw},
        )
    except (KeyError, TypeError) as error:
        raise ValueError(f"{folder / RECORD}: {error!r}") from None


def _identity(raw: Mapping[str, Any] | None) -> Identity | None:
    return Identity(raw["pid"], raw["start_ticks"]) if raw else None


class _Look(NamedTuple):
    identity: Identity
    state: str
    session: int


def _look(pid: int | str) -> _Look | None:
    """None when there is no such process."""
    try:
        fields = stat_of(pid)
    except procfs.GONE:
        return None
    return _Look(Identity(int(pid), int(fields[19])), fields[0], int(fields[3]))
