"""The SQLite file behind the journal: synchronous, used by the journal's own thread alone."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from sparkd.journal import spare, values
from sparkd.journal.event import Event
from sparkd.journal.values import COLUMNS

SCHEMA = """
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS states (name TEXT PRIMARY KEY, json TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS intents (name TEXT PRIMARY KEY, json TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS outages (id TEXT PRIMARY KEY, json TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS events (
    id INTEGER PRIMARY KEY, at REAL NOT NULL, deployment TEXT NOT NULL, generation INTEGER NOT NULL,
    kind TEXT NOT NULL, sentence TEXT NOT NULL, reason TEXT NOT NULL, cls TEXT NOT NULL, signature TEXT NOT NULL,
    by TEXT NOT NULL, message TEXT NOT NULL, data TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS events_of ON events (deployment, id);
"""
TABLES = {"meta": ("key", "value"), "states": ("name", "json"), "intents": ("name", "json"), "outages": ("id", "json")}
"""Name and value column of each; all of them are known in memory too."""
VERSION = 1
"""Of the schema, in the file's user_version. Columns may be added under the same number; a later one is not touched."""
CORRUPT = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
PRUNE_EVERY = 50
MEMORY = "/dev/shm"


@dataclass(slots=True)
class Batch:
    """What is written in one transaction. A value of None deletes the row."""

    meta: dict[str, str | None] = field(default_factory=dict)
    states: dict[str, str | None] = field(default_factory=dict)
    intents: dict[str, str | None] = field(default_factory=dict)
    outages: dict[str, str | None] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)

    @property
    def empty(self) -> bool:
        return not (any(getattr(self, table) for table in TABLES) or self.events)


@dataclass(slots=True)
class Rows:
    """What a file held when it was opened."""

    meta: dict[str, str] = field(default_factory=dict)
    states: dict[str, str] = field(default_factory=dict)
    intents: dict[str, str] = field(default_factory=dict)
    outages: dict[str, str] = field(default_factory=dict)
    """Of those that ended. Events are forgotten in time; these are few, and a sum over months needs them all."""
    last_event: int = 0
    restored: int = 0
    """Intents that came from their spare, because the file had none."""


def is_corrupt(error: BaseException) -> bool:
    """The file itself is damaged, or never was a database."""
    code = getattr(error, "sqlite_errorcode", None)
    return isinstance(code, int) and code & 0xFF in CORRUPT


class Store:
    """One open file. Raises sqlite3.Error and OSError; the journal makes of them what they mean."""

    def __init__(self, path: Path, max_events: int, max_bytes: int) -> None:
        self.path, self.max_events, self.max_bytes = path, max_events, max_bytes
        self._connection: sqlite3.Connection | None = None
        self._inode = 0
        self._unpruned = 0

    # ---------------------------------------------------------------------------------------------------------- opening

    def open(self) -> bool:
        """Open for writing, unless it is open. True when the file is new (there was none, or it was taken away)."""
        if self._connection is not None and self._inode == self._file_inode():
            return False
        self.close()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        fresh = not self.path.exists()
        if not fresh and self.path.stat().st_size == 0 and spare.read(self.path):
            # A power cut does that; to SQLite it would be a new file, with nobody's wishes in it.
            raise _damaged("it is empty")
        connection = sqlite3.connect(self.path, timeout=1.0, isolation_level=None)
        try:
            self._prepare(connection)
        except BaseException:
            connection.close()
            raise
        self._connection, self._inode = connection, self._file_inode()
        return fresh

    def _prepare(self, connection: sqlite3.Connection) -> None:
        connection.text_factory = values.readable
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version > VERSION:
            raise sqlite3.NotSupportedError(
                f"it was written by a newer sparkd (schema {version}): install that one again"
            )
        page = connection.execute("PRAGMA page_size").fetchone()[0]
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(f"PRAGMA journal_size_limit = {4 * 1024 * 1024}")
        connection.execute(f"PRAGMA max_page_count = {self.max_bytes // page}")
        connection.executescript(SCHEMA)
        if version < VERSION:
            connection.execute(f"PRAGMA user_version = {VERSION}")
        verdict = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
        if verdict != "ok":
            raise _damaged(verdict)

    def _file_inode(self) -> int:
        try:
            return self.path.stat().st_ino
        except FileNotFoundError:
            return 0

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def move_aside(self) -> Path:
        """Take a damaged file out of the way, with its log; returns its new name."""
        self.close()
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        aside = self.path.with_name(f"{self.path.name}.corrupt-{stamp}")
        number = 1
        while aside.exists():
            number += 1
            aside = self.path.with_name(f"{self.path.name}.corrupt-{stamp}-{number}")
        self.path.rename(aside)
        for suffix in ("-wal", "-shm"):
            beside = self.path.with_name(self.path.name + suffix)
            if beside.exists():
                beside.rename(aside.with_name(aside.name + suffix))
        return aside

    # ---------------------------------------------------------------------------------------------------------- reading

    def rows(self) -> Rows:
        """Everything but the events; intents from their spare where the file has none."""
        rows = _rows(self._open_connection(), strict=True)
        if not rows.intents and (kept := spare.read(self.path)):
            self.write(Batch(intents=dict(kept)))
            rows.intents, rows.restored = kept, len(kept)
        return rows

    def history(self, deployment: str | None, kind: str | None, limit: int, after_id: int) -> list[Event]:
        """Events in order of id: the first `limit` after `after_id`, or the last `limit` when that is 0."""
        clauses = ["id > ?"] + ["deployment = ?"] * (deployment is not None) + ["kind = ?"] * (kind is not None)
        asked = [after_id, *(values.storable(word) for word in (deployment, kind) if word is not None), limit]
        order = "ASC" if after_id else "DESC"
        query = (
            f"SELECT {', '.join(COLUMNS)}, data FROM events WHERE {' AND '.join(clauses)} ORDER BY id {order} LIMIT ?"
        )
        found = [values.event(row) for row in self._open_connection().execute(query, asked)]
        return found if after_id else found[::-1]

    def _open_connection(self) -> sqlite3.Connection:
        if self._connection is None:
            raise sqlite3.OperationalError("the journal is not open")
        return self._connection

    # ---------------------------------------------------------------------------------------------------------- writing

    def write(self, batch: Batch, keep: Callable[[], bool] = lambda: True) -> bool:
        """All or nothing, on the disk when this returns True. `keep` is asked last; False rolls back."""
        connection = self._open_connection()
        with _transaction(connection) as transaction:
            for table in TABLES:
                _upsert(connection, table, getattr(batch, table))
            connection.executemany(
                f"INSERT OR IGNORE INTO events ({', '.join(COLUMNS)}, data) VALUES ({', '.join('?' * 12)})",
                [values.row(event) for event in batch.events],
            )
            transaction.kept = keep()
        if batch.intents and transaction.kept:
            spare.keep(self.path, _rows(connection, strict=True).intents)
        self._unpruned += len(batch.events)
        if self._unpruned >= PRUNE_EVERY:
            self._unpruned = 0
            self._prune(connection)
        return transaction.kept

    def _prune(self, connection: sqlite3.Connection) -> None:
        """Forget the oldest events beyond the number, then a tenth at a time until the file has room again."""
        with _transaction(connection):
            connection.execute("DELETE FROM events WHERE id <= (SELECT max(id) FROM events) - ?", (self.max_events,))
            while self._used_bytes(connection) > 0.8 * self.max_bytes:
                gone = connection.execute(
                    "DELETE FROM events WHERE id <= (SELECT min(id) + (max(id) - min(id)) / 10 FROM events)"
                )
                if not gone.rowcount:
                    return

    def _used_bytes(self, connection: sqlite3.Connection) -> int:
        pages, free, size = (
            int(connection.execute(f"PRAGMA {name}").fetchone()[0])
            for name in ("page_count", "freelist_count", "page_size")
        )
        return (pages - free) * size


def salvage(path: Path) -> Rows:
    """What can still be read of intents, states, outages and owner from a damaged file; the rest is left empty.

    Intents that cannot come from their spare, which lies beside the place where the file was.
    """
    rows = Rows()
    with suppress(sqlite3.Error), closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=1.0)) as connection:
        connection.text_factory = values.readable
        rows = _rows(connection, strict=False)
    rows.intents = {**spare.read(path), **rows.intents}
    return rows


def read_copy(path: Path) -> tuple[Rows, list[Event]]:
    """Rows and the last events of a file on a disk that cannot be written: SQLite needs room beside it even to read.

    That room is memory where there is some: the folder for temporary files is mostly on the very disk that is full.
    """
    in_memory = MEMORY if os.access(MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="sparkd-journal-", dir=in_memory) as folder:
        copy = Path(folder) / path.name
        for name in (path.name, f"{path.name}-wal", spare.NAME):
            if (beside := path.with_name(name)).exists():
                shutil.copyfile(beside, copy.with_name(name))
        store = Store(copy, max_events=1, max_bytes=1 << 30)
        try:
            store.open()
            return store.rows(), store.history(None, None, 500, 0)
        finally:
            store.close()


@dataclass(slots=True)
class _Transaction:
    kept: bool = True


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[_Transaction]:
    transaction = _Transaction()
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield transaction
        connection.execute("COMMIT" if transaction.kept else "ROLLBACK")
    except BaseException:
        if connection.in_transaction:
            connection.rollback()
        raise


def _upsert(connection: sqlite3.Connection, table: str, rows: Mapping[str, str | None]) -> None:
    key, value = TABLES[table]
    for name, text in rows.items():
        if text is None:
            connection.execute(f"DELETE FROM {table} WHERE {key} = ?", (name,))
        else:
            connection.execute(f"INSERT OR REPLACE INTO {table} ({key}, {value}) VALUES (?, ?)", (name, text))


def _rows(connection: sqlite3.Connection, strict: bool) -> Rows:
    rows = Rows()
    for table, (key, value) in TABLES.items():
        try:
            getattr(rows, table).update(
                connection.execute(f"SELECT CAST({key} AS TEXT), CAST({value} AS TEXT) FROM {table}").fetchall()
            )
        except sqlite3.Error:
            if strict:
                raise  # only a damaged file may give what it still has
    try:
        rows.last_event = connection.execute("SELECT coalesce(max(id), 0) FROM events").fetchone()[0]
    except sqlite3.Error:
        if strict:
            raise
    return rows


def _damaged(verdict: str) -> sqlite3.DatabaseError:
    error = sqlite3.DatabaseError(verdict)
    error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
    return error
