"""The SQLite file of the journal: made for its owner alone, opened, made complete, and taken aside where it is damaged."""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import suppress
from pathlib import Path

import structlog

from sparkd.journal import spare, values
from sparkd.journal.rows import TABLES, TWICE
from sparkd.journal.values import COLUMNS

log = structlog.get_logger("sparkd.journal")

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
ADDED = {"number": "INTEGER", "sum": "TEXT"}
"""Columns that the tables of an earlier sparkd lack; one that knows of neither leaves them empty."""
VERSION = 1
"""Of the schema, in the file's user_version. Columns may be added under the same number; a later one is not touched."""
CORRUPT = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def is_corrupt(error: BaseException) -> bool:
    """The file itself is damaged, or never was a database."""
    code = getattr(error, "sqlite_errorcode", None)
    return isinstance(code, int) and code & 0xFF in CORRUPT


def damaged(verdict: str) -> sqlite3.DatabaseError:
    """What `is_corrupt` knows again."""
    error = sqlite3.DatabaseError(verdict)
    error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
    return error


def open_file(path: Path, max_bytes: int) -> sqlite3.Connection:
    """Open for writing; a new file where there is none. Raises sqlite3.Error and OSError."""
    if path.exists() and path.stat().st_size == 0 and any(spare.holds(path, table) for table in TWICE):
        # A power cut does that. SQLite would take it for a new file, and all that people wanted would be lost.
        raise damaged("it is empty")
    if not path.exists():  # what SQLite adds to it gets the mode of this one
        os.close(spare.private(str(path), os.O_WRONLY | os.O_CREAT | os.O_EXCL))
    _close_to_others(path)
    connection = sqlite3.connect(path, timeout=1.0, isolation_level=None)
    try:
        _prepare(connection, max_bytes)
    except BaseException as error:
        connection.close()
        if isinstance(error, UnicodeDecodeError):  # SQLite quotes names and statements of the file as they are by now
            raise damaged("its own words are no text") from error
        raise
    return connection


def _prepare(connection: sqlite3.Connection, max_bytes: int) -> None:
    connection.text_factory = values.readable
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version > VERSION:
        raise sqlite3.NotSupportedError(f"it was written by a newer sparkd (schema {version}): install that one again")
    page = connection.execute("PRAGMA page_size").fetchone()[0]
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute(f"PRAGMA journal_size_limit = {4 * 1024 * 1024}")
    connection.execute(f"PRAGMA max_page_count = {max_bytes // page}")
    connection.executescript(SCHEMA)
    for table in (*TABLES, "events"):
        _complete(connection, table)
    if version < VERSION:
        connection.execute(f"PRAGMA user_version = {VERSION}")
    verdict = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    if verdict != "ok":
        raise damaged(verdict)


def _complete(connection: sqlite3.Connection, table: str) -> None:
    """Columns that an earlier sparkd did not have are added; a table that lost others is damaged."""
    there = {found[1] for found in connection.execute(f"PRAGMA table_info({table})")}
    wanted = {*COLUMNS, "data"} if table == "events" else {*TABLES[table]}
    if not wanted <= there:
        raise damaged(f"the table {table} has lost a column")
    for name, kind in ADDED.items() if table != "events" else ():
        if name not in there:
            connection.execute(f"ALTER TABLE {table} ADD COLUMN {name} {kind}")


def _close_to_others(path: Path) -> None:
    """Files that an earlier sparkd, or a person who brought one back, left open to others."""
    beside = (path.with_name(name) for name in spare.NAMES.values())
    for one in (*path.parent.glob(f"{path.name}*"), *beside):
        with suppress(OSError):  # another user's file, or a read-only disk: it can be read all the same
            if one.is_file() and not one.is_symlink() and one.stat().st_mode & 0o077:
                one.chmod(0o600)
                log.warning("others could read this file; closed to them", file=str(one))


def move_aside(path: Path) -> Path:
    """Take a damaged file out of the way, with its log; returns its new name."""
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    aside = path.with_name(f"{path.name}.corrupt-{stamp}")
    number = 1
    while aside.exists():
        number += 1
        aside = path.with_name(f"{path.name}.corrupt-{stamp}-{number}")
    path.rename(aside)
    for suffix in ("-wal", "-shm"):
        beside = path.with_name(path.name + suffix)
        if beside.exists():
            beside.rename(aside.with_name(aside.name + suffix))
    return aside
