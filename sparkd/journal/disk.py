"""The work of the journal's own thread: from memory to the disk and back. It alone may hang."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import structlog

from sparkd.base.json_codec import encode
from sparkd.journal.damage import damage
from sparkd.journal.event import Event
from sparkd.journal.file import is_corrupt
from sparkd.journal.lock import AlreadyOwned, StateLock
from sparkd.journal.moment import Moment
from sparkd.journal.owner import owner_id
from sparkd.journal.remembered import Memory, copied
from sparkd.journal.rows import Batch, Rows
from sparkd.journal.store import Store, read_copy, salvage
from sparkd.model.decision import Intent

log = structlog.get_logger("sparkd.journal")

UNREAD = Intent(wanted="up", unread=True, by="sparkd")
DISK_ERRORS = (OSError, sqlite3.Error, AlreadyOwned)


@dataclass(slots=True)
class Disk:
    """The file, its lock, and the memory that is written to it. All methods belong to the journal's thread, and raise one of
    DISK_ERRORS where they do not say otherwise."""

    store: Store
    lock: StateLock
    moment: Callable[[], Moment]
    memory: Memory = field(default_factory=Memory)
    loaded: Moment | None = None
    """When all of it was read; None as long as it was not."""
    trouble: str = ""
    """Why the disk does not take what it is given, or nothing."""

    def load(self) -> None:
        loaded = self.moment()
        try:
            rows, recent = self._read(), self.store.history(None, None, 500, 0)
        except DISK_ERRORS as error:
            self.trouble = str(error)
            rows, recent = read_copy(self.store.path) if self.store.path.exists() else (Rows(), [])
        for told in damage(rows, self.store.path.name):
            self.tell(*told)
        self.memory.load(rows, recent)
        self.memory.put(Batch(intents=dict.fromkeys(rows.lost.get("intents", ()), json.dumps(encode(UNREAD)))))
        self.loaded = loaded

    def _read(self) -> Rows:
        try:
            self.store.open()
            return self.store.rows()
        except sqlite3.DatabaseError as error:
            if not is_corrupt(error):
                raise
            rows = self._replaced(error)
        self.store.open()
        self.store.write(copied(rows))
        return replace(rows, mended={})  # told in the same sentence as the damage

    def _replaced(self, error: sqlite3.DatabaseError) -> Rows:
        """Move a damaged file aside, tell history, and give back what it still holds."""
        aside = self.store.move_aside()
        rows = salvage(aside, self.store.path)
        kept = f"{len(rows.states)} states and {len(rows.intents)} intents could still be read"
        said = f"{self.store.path.name} was damaged ({error}) and moved to {aside.name}; {kept}"
        self.tell("journal-corrupt", said, moved_to=str(aside))
        return rows

    def tell(self, reason: str, sentence: str, name: str = "", **data: str) -> None:
        log.warning(sentence, reason=reason, **({"deployment": name} if name else {}))
        at = self.moment().wall
        said = Event(at=at, kind="journal", sentence=sentence, reason=reason, deployment=name, by="sparkd", data=data)
        self.memory.add(said)

    def write_pending(self) -> None:
        batch = self.memory.pending()
        if self.trouble:
            # An empty transaction proves nothing about the disk.
            batch = replace(batch, meta={**batch.meta, "tried": str(self.moment().wall)})
        while not batch.empty:
            try:
                self.write(batch)
            except DISK_ERRORS as error:
                self.trouble = str(error)
                return
            self.memory.written(batch)
            self.trouble = ""
            batch = self.memory.pending()

    def write(self, batch: Batch, keep: Callable[[], bool] = lambda: True) -> None:
        try:
            self._write_once(batch, keep)
        except sqlite3.DatabaseError as error:
            if not is_corrupt(error):
                raise
            self._replaced(error)
            self._write_once(batch, keep)

    def _write_once(self, batch: Batch, keep: Callable[[], bool]) -> None:
        self.lock.follow()
        if self.store.open():  # a new file, because the old one was taken away: all that is known goes in again
            self.store.write(self.memory.known())
        self.store.write(batch, keep)

    def take_back(self, name: str, before: str | None) -> None:
        """The intent reached the disk after its verb was refused: what was wanted before is wanted still."""
        self.memory.put(Batch(intents={name: before}))
        self.write_pending()

    def owner(self) -> str:
        known = self.memory.rows.meta.get("owner")
        owner = owner_id(self.store.path.with_name("owner"), known)
        if owner != known:
            self.memory.put(Batch(meta={"owner": owner}))
            self.write_pending()
        return owner
