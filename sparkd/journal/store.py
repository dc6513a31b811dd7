"""The SQLite file behind the journal: synchronous, used by the journal's own thread alone."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from sparkd.journal import file, spare, values
from sparkd.journal.event import Event
from sparkd.journal.file import ADDED
from sparkd.journal.rows import TABLES, TWICE, Batch, Copy, Row, Rows, merge, read, row, texts
from sparkd.journal.values import COLUMNS

PRUNE_EVERY = 50
MEMORY = "/dev/shm"


class Store:
    """One open file. Raises sqlite3.Error and OSError; the journal makes of them what they mean."""

    def __init__(self, path: Path, max_events: int, max_bytes: int) -> None:
        self.path, self.max_events, self.max_bytes = path, max_events, max_bytes
        self._connection: sqlite3.Connection | None = None
        self._inode = 0
        self._unpruned = 0
        self._twice: dict[str, dict[str, Row]] | None = None
        """Table -> the rows that are in the spare; None until the file was read."""
        self._number = 0

    # ---------------------------------------------------------------------------------------------------------- opening

    def open(self) -> bool:
        """Open for writing, unless it is open. True when the file is new (there was none, or it was taken away)."""
        if self._connection is not None and self._inode == self._file_inode():
            return False
        self.close()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        fresh = not self.path.exists()
        connection = file.open_file(self.path, self.max_bytes)
        self._connection, self._inode = connection, self._file_inode()
        return fresh

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
        return file.move_aside(self.path)

    # ---------------------------------------------------------------------------------------------------------- reading

    def rows(self) -> Rows:
        """Everything but the events. What is damaged or gone comes from its spare, and is whole in the file from then on."""
        connection = self._open_connection()
        try:
            copies = {table: read(connection, table, strict=True) for table in TABLES}
        except UnicodeDecodeError as error:  # the name of a column
            raise file.damaged("its own words are no text") from error
        spares = {table: spare.read(self.path, table) for table in TWICE}
        rows, merged = _merged(copies, spares)
        _read_history(connection, rows)
        self._twice = {table: merged[table] for table in TWICE}
        self._number = max([self._number, *(one.number or 0 for found in merged.values() for one in found.values())])
        for table, kept in spares.items():
            if kept is None or kept.rows != merged[table]:
                spare.keep(self.path, table, merged[table])
        if rows.mended:
            mended = {table: {name: merged[table][name].text for name in rows.mended.get(table, ())} for table in TWICE}
            self.write(Batch(states={**mended["states"]}, intents={**mended["intents"]}))
        if gone := rows.lost.get("outages"):
            self.write(Batch(outages=dict.fromkeys(gone)))  # no spare brings it back: it is told of once
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
        if self._twice is None:
            self.rows()  # the spare must not lose what this batch says nothing of
        numbered = {table: self._numbered(table, getattr(batch, table)) for table in TABLES}
        self._forget(numbered)
        with _transaction(connection) as transaction:
            for table, rows in numbered.items():
                _upsert(connection, table, rows)
            connection.executemany(
                f"INSERT OR IGNORE INTO events ({', '.join(COLUMNS)}, data) VALUES ({', '.join('?' * 12)})",
                [values.row(event) for event in batch.events],
            )
            transaction.kept = keep()
        if transaction.kept:
            self._keep(numbered)
        self._unpruned += len(batch.events)
        if self._unpruned >= PRUNE_EVERY:
            self._unpruned = 0
            self._prune(connection)
        return transaction.kept

    def _numbered(self, table: str, said: Mapping[str, str | None]) -> dict[str, Row | None]:
        found: dict[str, Row | None] = {}
        for name, text in said.items():
            self._number += 1
            found[name] = None if text is None else row(table, name, text, self._number)
        return found

    def _forget(self, numbered: Mapping[str, Mapping[str, Row | None]]) -> None:
        """Out of the spare before it goes from the file: between the two it would come back."""
        for table, twice in (self._twice or {}).items():
            gone = [name for name, one in numbered[table].items() if one is None and name in twice]
            for name in gone:
                del twice[name]
            if gone:
                spare.keep(self.path, table, twice)

    def _keep(self, numbered: Mapping[str, Mapping[str, Row | None]]) -> None:
        """Into the spare after it is in the file: a wish that was refused is in neither."""
        for table, twice in (self._twice or {}).items():
            new = {name: one for name, one in numbered[table].items() if one is not None}
            if new:
                twice.update(new)
                spare.keep(self.path, table, twice)

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


def salvage(path: Path, spares: Path) -> Rows:
    """What can still be read of a damaged file, and of the spares beside `spares`, the place where it was."""
    copies, history = {table: Copy(unread=True) for table in TABLES}, Rows()
    with (
        suppress(sqlite3.Error, UnicodeDecodeError),
        closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=1.0)) as connection,
    ):
        connection.text_factory = values.readable
        copies = {table: read(connection, table, strict=False) for table in TABLES}
        _read_history(connection, history)
    rows, _ = _merged(copies, {table: spare.read(spares, table) for table in TWICE})
    rows.last_event, rows.generations = history.last_event, history.generations
    return rows


def _merged(copies: Mapping[str, Copy], spares: Mapping[str, Copy | None]) -> tuple[Rows, dict[str, dict[str, Row]]]:
    rows = Rows()
    merged = {table: merge(table, copy, spares.get(table), rows) for table, copy in copies.items()}
    for table, found in merged.items():
        setattr(rows, table, texts(found))
    return rows, merged


def read_copy(path: Path) -> tuple[Rows, list[Event]]:
    """Rows and the last events of a file on a disk that cannot be written: SQLite needs room beside it even to read.

    That room is memory where there is some: the folder for temporary files is mostly on the very disk that is full.
    """
    in_memory = MEMORY if os.access(MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="sparkd-journal-", dir=in_memory) as folder:
        copy = Path(folder) / path.name
        for name in (path.name, f"{path.name}-wal", *spare.NAMES.values()):
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


def _upsert(connection: sqlite3.Connection, table: str, rows: Mapping[str, Row | None]) -> None:
    key, value = TABLES[table]
    for name, one in rows.items():
        if one is None:
            connection.execute(f"DELETE FROM {table} WHERE {key} = ?", (name,))
        else:
            columns = ", ".join((key, value, *ADDED))
            connection.execute(f"INSERT OR REPLACE INTO {table} ({columns}) VALUES (?, ?, ?, ?)", (name, *one))


def _read_history(connection: sqlite3.Connection, rows: Rows) -> None:
    rows.last_event = connection.execute("SELECT coalesce(max(id), 0) FROM events").fetchone()[0]
    numbers = "SELECT deployment, max(generation) FROM events WHERE typeof(generation) = 'integer' GROUP BY deployment"
    rows.generations = {values.text(name): number for name, number in connection.execute(numbers) if number > 0}
