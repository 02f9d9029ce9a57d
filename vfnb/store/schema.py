"""The tables of `run.sqlite`, their version, and how an older file is brought up to it."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from vfnb.errors import StoreError

__all__ = [
    "APPLICATION_ID",
    "SCHEMA_VERSION",
    "TABLES",
    "check_version",
    "create",
    "journal_range",
    "upgrade",
]

SCHEMA_VERSION = 2
APPLICATION_ID = 0x76666E62  # "vfnb", in the file's header
PAGE = 8192
"""Bytes of a page of a new file: half the writes of a long message that 4096 need, no more for a short call."""

TABLES = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;

CREATE TABLE tasks (
    digest BLOB PRIMARY KEY, idx INTEGER, key TEXT, name TEXT, data TEXT
);

CREATE TABLE episodes (
    id TEXT PRIMARY KEY, group_id TEXT, env TEXT, started REAL, ended REAL, info TEXT
);

-- Headlines only: a scan never touches a message. `num` is the key inside this file.
CREATE TABLE traces (
    num INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE,
    episode TEXT, group_id TEXT, role TEXT,
    task BLOB, task_idx INTEGER, task_key TEXT, task_name TEXT,
    rollout INTEGER, attempt INTEGER, superseded INTEGER NOT NULL DEFAULT 0,
    rollout_hash TEXT, score_hash TEXT,
    state TEXT NOT NULL, stop TEXT, ok INTEGER, dropped TEXT,
    error TEXT, error_boundary TEXT, error_message TEXT, errors INTEGER NOT NULL DEFAULT 0,
    calls INTEGER, turns INTEGER, nodes INTEGER, branches INTEGER,
    prompt_tokens INTEGER, completion_tokens INTEGER, cached_tokens INTEGER, reasoning_tokens INTEGER,
    cost REAL, model TEXT,
    started REAL, ended REAL,
    boot_s REAL, setup_s REAL, agent_s REAL, finalize_s REAL, scoring_s REAL
);
CREATE INDEX traces_rollout ON traces (rollout_hash, rollout);
CREATE INDEX traces_running ON traces (num) WHERE state = 'running';

-- While a rollout runs: one row per commit (a call with the messages and tokens it added).
-- `id` is the trace's number times 2^32 plus the position in the trace.
CREATE TABLE journal (id INTEGER PRIMARY KEY, delta BLOB);

-- When it has ended: one row, its journal compressed as a whole. Small columns first, SQLite reads from the
-- left.
CREATE TABLE packs (
    trace INTEGER PRIMARY KEY, version INTEGER, header BLOB, state BLOB, structure BLOB, texts BLOB, tokens
    BLOB
);

-- Messages and tool lists that more than one trace uses, by content address.
CREATE TABLE contents (key BLOB PRIMARY KEY, body BLOB);

CREATE TABLE branches (
    trace INTEGER, branch INTEGER, first_node INTEGER, leaf INTEGER, cause TEXT, fork_index INTEGER,
    messages INTEGER, turns INTEGER, tokens INTEGER, trainable_tokens INTEGER, diff TEXT,
    linked_to INTEGER, returned_to INTEGER,
    PRIMARY KEY (trace, branch)
) WITHOUT ROWID;

CREATE TABLE errors (
    trace INTEGER, seq INTEGER, type TEXT, boundary TEXT, message TEXT, stage TEXT, status INTEGER,
    at REAL, traceback TEXT, PRIMARY KEY (trace, seq)
) WITHOUT ROWID;

CREATE TABLE marks (
    id INTEGER PRIMARY KEY, trace INTEGER, kind TEXT, text TEXT, at REAL
);
CREATE INDEX marks_trace ON marks (trace);

-- Scores are versions; a version is never changed after it was written.
CREATE TABLE versions (
    version INTEGER PRIMARY KEY, created REAL, kind TEXT, label TEXT, weights TEXT
);
CREATE TABLE totals (
    trace INTEGER, version INTEGER, reward REAL, score_hash TEXT, error TEXT, PRIMARY KEY (trace, version)
) WITHOUT ROWID;
CREATE TABLE scores (
    trace INTEGER, version INTEGER, pos INTEGER, kind TEXT, name TEXT, value REAL, weight REAL,
    PRIMARY KEY (trace, version, pos)
) WITHOUT ROWID;
"""


def journal_range(num: int) -> tuple[int, int]:
    """First and last `journal.id` that a trace may have."""
    return num << 32, (num << 32) + (1 << 32) - 1


def create(db: sqlite3.Connection) -> None:
    """Make the tables in an empty file."""
    db.execute(f"PRAGMA page_size = {PAGE}")
    db.execute("PRAGMA auto_vacuum = INCREMENTAL")  # before the first table: packed journals give pages back
    db.executescript(f"BEGIN; {TABLES} COMMIT;")
    db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


def upgrade(db: sqlite3.Connection, version: int) -> None:
    """Bring the tables of an older file up to date; its rows stay as they are."""
    if version < 2:
        for name in ("linked_to", "returned_to"):
            db.execute(f"ALTER TABLE branches ADD COLUMN {name} INTEGER")
        db.execute("PRAGMA user_version = 2")


def check_version(db: sqlite3.Connection, path: Path) -> int:
    """The file's schema version, 0 for an empty file.

    Columns and tables that this version does not know are left alone.

    Raises:
        StoreError: if the file is something else, damaged, or of a newer version.
    """
    try:
        version = int(db.execute("PRAGMA user_version").fetchone()[0])
        owner = int(db.execute("PRAGMA application_id").fetchone()[0])
        tables = int(db.execute("SELECT count(*) FROM sqlite_master WHERE type = 'table'").fetchone()[0])
    except sqlite3.DatabaseError as error:
        raise StoreError(
            f"{path} cannot be read as a run ({error}{_missing(path)}). Restore it from a copy; "
            "fresh=True sets it aside and starts a new one"
        ) from error
    if tables == 0 and version == 0:
        return 0
    if owner != APPLICATION_ID:
        raise StoreError(f"{path} is an SQLite file of another program; give this run another dir=")
    if version > SCHEMA_VERSION:
        raise StoreError(
            f"{path} was written by a newer vfnb (schema {version}, this one knows {SCHEMA_VERSION}); "
            "upgrade with: pip install -U vfnb"
        )
    return version


def _missing(path: Path) -> str:
    """How much of a truncated file is gone, by the page size and count in its header (SQLite file format, 1.3)."""
    with path.open("rb") as file:
        head = file.read(32)
    if not head.startswith(b"SQLite format 3\0"):
        return ""
    page = int.from_bytes(head[16:18], "big")
    whole = (page if page > 1 else 65536) * int.from_bytes(head[28:32], "big")
    size = path.stat().st_size
    return f"; its last {whole - size} of {whole} bytes are lost" if size < whole else ""
