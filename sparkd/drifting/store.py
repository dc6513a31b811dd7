"""STATE/known-good/DEPLOYMENT/GENERATION.yaml <-> records of what ran when it worked.

Readable files that may be kept in git and put back from there: what is on disk counts, and is read again when it has
changed. Beside each record lies the deployment file of that time, for a rollback, where it was still the one that ran.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import anyio
import structlog

from sparkd import loading
from sparkd.drift.form import Side
from sparkd.drift.known_good import KIND, as_yaml, from_plain

log = structlog.get_logger("sparkd")

KEPT = 20
"""Records of one deployment; pinned ones are kept beside these."""
MAX_FILE_BYTES = 1 << 20

_Stamp = tuple[int, int, int]
"""(inode, size, mtime in ns) of a file."""


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
    side: Side

    @property
    def label(self) -> str:
        return f"{KIND} {self.generation}"

    def as_json(self) -> dict[str, Any]:
        about = {key: getattr(self, key) for key in ("deployment", "generation", "recorded", "note", "pinned")}
        return {**about, "measured": dict(self.measured), "ranks": len(self.side.ranks)}


@dataclass(slots=True)
class Store:
    """Blocking work is done in threads. What cannot be read is logged, and is as if it were not there."""

    folder: Path
    _known: dict[Path, tuple[_Stamp, Record | None]] = field(default_factory=dict)
    _reading: anyio.Lock = field(default_factory=anyio.Lock)

    async def records(self, deployment: str) -> tuple[Record, ...]:
        """All of one deployment by generation, the newest last."""
        async with self._reading:
            stamps = await anyio.to_thread.run_sync(_stamps, self.folder / deployment)
            for path in [path for path in self._known if path.parent.name == deployment and path not in stamps]:
                del self._known[path]
            await self._read({path: at for path, at in stamps.items() if self._known.get(path, (None,))[0] != at})
            found = [self._known[path][1] for path in stamps if path in self._known]
        return tuple(sorted((one for one in found if one is not None), key=lambda one: one.generation))

    async def _read(self, stamps: Mapping[Path, _Stamp]) -> None:
        try:
            values = await loading.records(list(stamps))
        except loading.NotLoaded as error:
            log.warning("known-good files cannot be read now", why=str(error))
            return
        for path, stamp in stamps.items():
            self._known[path] = stamp, _record(path, values.get(str(path)))

    async def reference(self, deployment: str) -> Record | None:
        """What everything is compared with: the pinned record, else the newest."""
        found = await self.records(deployment)
        pinned = [one for one in found if one.pinned]
        return next(reversed(pinned or found), None)

    async def write(self, record: Record, source: str | None = None) -> Path:
        """Keep it, with the text of its deployment file; old ones that nobody blessed go. Raises OSError."""
        path = self.folder / record.deployment / f"{record.generation}.yaml"
        await anyio.to_thread.run_sync(_write, path, _yaml(record), source)
        if record.pinned:  # one at a time
            for other in await self.records(record.deployment):
                if other.pinned and other.generation != record.generation:
                    await self.write(replace(other, pinned=False))
        for old in [one for one in await self.records(record.deployment) if not one.pinned][:-KEPT]:
            await anyio.to_thread.run_sync(_remove, self.folder / old.deployment / f"{old.generation}.yaml")
        return path

    async def text(self, record: Record) -> str:
        """The record as it is kept. Raises OSError."""
        path = self.folder / record.deployment / f"{record.generation}.yaml"
        return await anyio.to_thread.run_sync(_text, path)

    async def source(self, record: Record) -> str | None:
        """The deployment file of that time, where it was kept."""
        try:
            return await anyio.to_thread.run_sync(_text, _beside(self.folder / record.deployment, record.generation))
        except OSError:
            return None


def _yaml(record: Record) -> str:
    about = {
        "deployment": record.deployment,
        "generation": record.generation,
        "recorded": record.recorded,
        **({"note": record.note} if record.note else {}),
        **({"pinned": True} if record.pinned else {}),
        **({"measured": dict(record.measured)} if record.measured else {}),
    }
    return as_yaml(replace(record.side, label=f"{record.deployment}, generation {record.generation}"), about)


def _record(path: Path, values: Any) -> Record | None:
    try:
        if not isinstance(values, dict):
            raise ValueError("it is no YAML mapping")
        measured = values.get("measured")
        return Record(
            deployment=path.parent.name,
            generation=int(path.stem),
            recorded=str(values.get("recorded") or ""),
            note=None if values.get("note") is None else str(values["note"]),
            pinned=values.get("pinned") is True,
            measured=measured if isinstance(measured, dict) else {},
            side=from_plain(values, f"{KIND} {path.stem}"),
        )
    except ValueError as error:
        log.warning("not a known-good record", file=str(path), why=str(error))
        return None


# ------------------------------------------------------------------------------------------------------------- on disk


def _beside(folder: Path, generation: int) -> Path:
    return folder / f"{generation}.deployment.yaml"


def _stamps(folder: Path) -> dict[Path, _Stamp]:
    found: dict[Path, _Stamp] = {}
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return found  # nothing was recorded yet
    for name in names:
        path = folder / name
        if path.suffix == ".yaml" and path.stem.isdecimal():
            try:
                about = path.stat()
            except OSError:
                continue  # went while we looked
            found[path] = about.st_ino, about.st_size, about.st_mtime_ns
    return found


def _text(path: Path) -> str:
    with path.open("rb") as source:
        return source.read(MAX_FILE_BYTES).decode("utf-8", "replace")


def _write(path: Path, text: str, source: str | None) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if source is not None:
        _replace(_beside(path.parent, int(path.stem)), source)
    _replace(path, text)


def _replace(path: Path, text: str) -> None:
    """Whole or not at all: somebody may read, or the power may go."""
    fresh = path.with_name(f".{path.name}.new")
    with fresh.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)


def _remove(path: Path) -> None:
    for one in (path, _beside(path.parent, int(path.stem))):
        one.unlink(missing_ok=True)
