"""STATE/known-good/DEPLOYMENT/GENERATION.yaml <-> records of what ran when it worked.

Readable files that may be kept in git and put back from there: what is on disk counts, and is read again when it has
changed. Beside each record lies the deployment file of that time, for a rollback, where it was still the one that ran.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import structlog

from sparkd.base import files
from sparkd.base.errors import SparkdError
from sparkd.drift.form import Side
from sparkd.drift.known_good import KIND, as_yaml, from_plain
from sparkd.engines.tables import SHIPPED, Tables
from sparkd.fleet import load_config
from sparkd.node import patience, regular

log = structlog.get_logger("sparkd")

KEPT = 20
"""Records of one deployment; pinned ones are kept beside these."""
MOST_READ = 5 * KEPT
"""The newest of a folder with many more: each costs the reader's child some milliseconds, and us its memory."""
MAX_FILE_BYTES = 1 << 20

_Stamp = tuple[int, int, int]
"""(inode, size, mtime in ns) of a file."""


class NotRead(SparkdError):
    """What is recorded is not known now: that is not the same as that nothing is. The text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One generation that worked. `recorded` is RFC 3339; `measured` holds rates by name."""

    deployment: str
    generation: int
    recorded: str = ""
    note: str | None = None
    pinned: bool = False
    """A person has blessed it: it is what everything is compared with, until another is."""
    measured: Mapping[str, Any] = field(default_factory=dict)
    answer: Mapping[str, str] = field(default_factory=dict)
    """What it answered to the fixed question: `text`, and `at` (RFC 3339). Empty where it was not asked."""
    side: Side

    @property
    def label(self) -> str:
        return f"{KIND} {self.generation}"

    def as_json(self) -> dict[str, Any]:
        about = {key: getattr(self, key) for key in ("deployment", "generation", "recorded", "note", "pinned")}
        said = {"measured": dict(self.measured), "answer": dict(self.answer) or None}
        return {**about, **said, "ranks": len(self.side.ranks)}


@dataclass(slots=True)
class Store:
    """Blocking work is done in threads. A file that is no record is logged once, and costs no other."""

    folder: Path
    tables: Callable[[], Tables] = lambda: SHIPPED
    """The tables that the flags of a record are read with."""
    _known: dict[Path, tuple[_Stamp, Record | str]] = field(default_factory=dict)
    """What each file holds, or why it is no record."""
    _reading: anyio.Lock = field(default_factory=anyio.Lock)
    _writing: anyio.Lock = field(default_factory=anyio.Lock)

    async def records(self, deployment: str) -> tuple[Record, ...]:
        """All of one deployment by generation, the newest last. Raises NotRead."""
        return tuple(one for one in (await self.kept(deployment)).values() if isinstance(one, Record))

    async def newest(self, deployment: str) -> int:
        """The highest generation of which there is a file, usable or not; 0 without any."""
        try:
            stamps = await files.aside(partial(_stamps, self.folder / deployment))
        except NotRead:
            return 0  # said when a record is asked for
        return max((int(path.stem) for path in stamps), default=0)

    async def kept(self, deployment: str) -> dict[int, Record | str]:
        """Generation -> its record, or why its file is none; the newest last. Raises NotRead."""
        async with self._reading:
            stamps = await files.aside(partial(_stamps, self.folder / deployment))
            for path in [path for path in self._known if path.parent.name == deployment and path not in stamps]:
                del self._known[path]
            await self._read({path: at for path, at in stamps.items() if self._known.get(path, (None,))[0] != at})
            return {int(path.stem): self._known[path][1] for path in sorted(stamps, key=lambda path: int(path.stem))}

    async def _read(self, stamps: Mapping[Path, _Stamp]) -> None:
        values = await _values(list(stamps))
        for path, stamp in stamps.items():
            found = _record(path.parent.name, int(path.stem), values.get(str(path)), self.tables())
            if isinstance(found, str):
                log.warning("not a known-good record", file=str(path), why=found)
            self._known[path] = stamp, found

    async def reference(self, deployment: str) -> Record | None:
        """What everything is compared with. Raises NotRead, also where there are files and none of them is a record."""
        found = await self.kept(deployment)
        records = [one for one in found.values() if isinstance(one, Record)]
        if found and not records:
            number, why = max(found.items())
            raise NotRead(f"{self.path(deployment, number)} is no record: {why}")
        return chosen(records)

    async def write(self, record: Record, source: str | None = None) -> Path:
        """Keep it, with the text of its deployment file; old ones that were not blessed go. Raises OSError, NotRead."""
        async with self._writing:  # two may bless at once
            known = await self.records(record.deployment)
            others = [one for one in known if record.pinned and one.pinned and one.generation != record.generation]
            await self._put([record, *(replace(one, pinned=False) for one in others)], source)  # one at a time
            await self._sweep(record.deployment)
            return self.path(record.deployment, record.generation)

    async def _put(self, records: Sequence[Record], source: str | None) -> None:
        """All of them whole, and such that they can be read again, or none: what was there before is worth more.
        `source` belongs to the first."""
        paths = {self.path(one.deployment, one.generation): one for one in records}
        try:
            found = {path: await _written(_fresh(path), one, self.tables()) for path, one in paths.items()}
            for path, one in found.items():
                stamp = await anyio.to_thread.run_sync(_move, path, source)
                source = None
                if one is not None:
                    self._known[path] = stamp, one
        finally:
            for path in paths:
                _fresh(path).unlink(missing_ok=True)

    async def _sweep(self, deployment: str) -> None:
        try:
            for old in [one for one in await self.records(deployment) if not one.pinned][:-KEPT]:
                await anyio.to_thread.run_sync(_remove, self.path(deployment, old.generation))
        except (OSError, NotRead) as error:  # what had to be kept is kept
            log.warning("old known-good records stay", deployment=deployment, why=str(error))

    def path(self, deployment: str, generation: int) -> Path:
        return self.folder / deployment / f"{generation}.yaml"

    async def text(self, record: Record) -> str:
        """The record as it is kept. Raises OSError."""
        return await files.aside(partial(_text, self.path(record.deployment, record.generation)))

    async def source(self, record: Record) -> str | None:
        """The deployment file of that time, where it was kept."""
        try:
            return await files.aside(partial(_text, _beside(self.path(record.deployment, record.generation))))
        except OSError:
            return None


def chosen(records: Sequence[Record]) -> Record | None:
    """What everything is compared with, of records in their order: the pinned one, else the newest."""
    pinned = [one for one in records if one.pinned]
    return next(reversed(pinned or records), None)


async def _values(paths: list[Path]) -> dict[str, Any]:
    try:
        return await load_config.records(paths)
    except load_config.NotLoaded as error:
        raise NotRead(str(error)) from error


async def _written(file: Path, record: Record, tables: Tables) -> Record | None:
    """Writes the record and reads it again: the record as readers will get it, or None where that read fails. Raises OSError
    for a record that no reader would take: too large, too deep, or with half a character."""
    await anyio.to_thread.run_sync(_fill, file, _yaml(record))
    try:
        found = _record(record.deployment, record.generation, (await _values([file])).get(str(file)), tables)
    except NotRead:
        return None
    if isinstance(found, str):
        raise OSError(errno.EINVAL, f"it could not be read again: {found}")
    return found


def _yaml(record: Record) -> str:
    about = {
        "deployment": record.deployment,
        "generation": record.generation,
        "recorded": record.recorded,
        **({"note": record.note} if record.note else {}),
        **({"pinned": True} if record.pinned else {}),
        **({"measured": dict(record.measured)} if record.measured else {}),
        **({"answer": dict(record.answer)} if record.answer else {}),
    }
    return as_yaml(replace(record.side, label=f"{record.deployment}, generation {record.generation}"), about)


def _record(deployment: str, generation: int, values: Any, tables: Tables) -> Record | str:
    """The record in a file's values, or why there is none."""
    if not isinstance(values, dict):
        return str(values or "it cannot be read")
    try:
        side = from_plain(values, f"{KIND} {generation}", tables)
    except ValueError as error:
        return str(error)
    measured, answer = values.get("measured"), values.get("answer")
    return Record(
        deployment=deployment,
        generation=generation,
        recorded=str(values.get("recorded") or ""),
        note=None if values.get("note") is None else str(values["note"]),
        pinned=values.get("pinned") is True,
        measured=measured if isinstance(measured, dict) else {},
        answer={str(key): str(value) for key, value in answer.items()} if isinstance(answer, dict) else {},
        side=side,
    )


# ------------------------------------------------------------------------------------------------------------- on disk


def _beside(path: Path) -> Path:
    return path.with_name(f"{path.stem}.deployment.yaml")


def _stamps(folder: Path) -> dict[Path, _Stamp]:
    """The stamps of the newest files. Raises NotRead for a folder that is there and cannot be listed."""
    try:
        names = patience.answered(str(folder), regular.names, files.PATIENCE_S)
    except FileNotFoundError:
        return {}  # nothing was recorded yet
    except OSError as error:
        raise NotRead(f"{folder} cannot be read: {error.strerror}") from error
    numbers = [int(name[:-5]) for name in names if name.endswith(".yaml") and name[:-5].isdecimal() and name.isascii()]
    found: dict[Path, _Stamp] = {}
    for number in sorted(numbers)[-MOST_READ:]:
        path = folder / f"{number}.yaml"
        try:
            about = path.stat()
        except OSError:
            continue  # went while we looked, or it is called 007.yaml
        if stat.S_ISREG(about.st_mode):  # a pipe would keep its reader for ever
            found[path] = _stamp(about)
    return found


def _stamp(about: os.stat_result) -> _Stamp:
    return about.st_ino, about.st_size, about.st_mtime_ns


def _text(path: Path) -> str:
    return files.read(path, MAX_FILE_BYTES).decode("utf-8", "replace")


def _fresh(path: Path) -> Path:
    return path.with_name(f".{path.name}.new")


def _fill(fresh: Path, text: str) -> None:
    """Writes the new file through to the disk before it replaces the old one: the power may go."""
    fresh.parent.mkdir(parents=True, exist_ok=True)
    with fresh.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def _move(path: Path, source: str | None) -> _Stamp:
    fresh = _fresh(path)
    if source is not None:
        other = fresh.with_name(f".{path.stem}.deployment.new")
        try:
            _fill(other, source)
            other.replace(_beside(path))
        finally:
            other.unlink(missing_ok=True)
    stamp = _stamp(fresh.stat())
    fresh.replace(path)
    return stamp


def _remove(path: Path) -> None:
    for one in (path, _beside(path)):
        one.unlink(missing_ok=True)
