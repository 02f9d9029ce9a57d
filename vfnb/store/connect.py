"""SQLite connections as the store needs them: one that writes, many that read."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

from vfnb.errors import StoreError
from vfnb.store.layout import is_network
from vfnb.store.schema import check_version, create, upgrade
from vfnb.utils.plain import encodable

__all__ = ["Durability", "connect_reader", "connect_side", "connect_writer", "is_full"]

Durability = Literal["normal", "full"]
"""`normal`: a commit survives the death of the process. `full`: also a power cut, for a disk flush each."""

BUSY_MS = 5_000


class _Writer(sqlite3.Connection):
    """Writes text with lone surrogates as their escapes, which UTF-8 columns cannot hold otherwise."""

    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
        try:
            return super().execute(sql, parameters)
        except UnicodeEncodeError:
            return super().execute(sql, _row(parameters))

    def executemany(self, sql: str, parameters: Iterable[Any], /) -> sqlite3.Cursor:
        return super().executemany(sql, map(_row, parameters))


def _row(values: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(encodable(value) if isinstance(value, str) else value for value in values)


def is_full(error: BaseException) -> bool:
    """Whether an SQLite error says that the disk, or the allowed size, is used up."""
    code = getattr(error, "sqlite_errorcode", None)
    return code is not None and code & 0xFF in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)


def connect_writer(path: Path, durability: Durability) -> sqlite3.Connection:
    """Open or make the file for its one writer. The caller holds the lock.

    Raises:
        StoreError: if it cannot be opened, is damaged, foreign or newer.
    """
    try:
        db = sqlite3.connect(
            path, isolation_level=None, check_same_thread=False, timeout=BUSY_MS / 1000, factory=_Writer
        )
    except sqlite3.Error as error:
        raise StoreError(f"cannot open {path} for writing: {error}; is the folder writable?") from error
    try:
        version = check_version(db, path)
        if version == 0:
            create(db)
        else:
            upgrade(db, version)
        wal = not is_network(path.parent)
        mode = db.execute(f"PRAGMA journal_mode = {'WAL' if wal else 'TRUNCATE'}").fetchone()[0]
        if wal and mode != "wal":
            raise StoreError(
                f"{path}: its file system refuses SQLite's WAL; give this run a dir= on a local disk"
            )
        db.execute(f"PRAGMA synchronous = {'FULL' if durability == 'full' else 'NORMAL'}")
        db.execute("PRAGMA wal_autocheckpoint = 0")  # a background thread does it
        db.execute(f"PRAGMA journal_size_limit = {8 << 20}")
        db.execute("PRAGMA temp_store = MEMORY")
    except sqlite3.Error as error:
        db.close()
        hint = "free some space" if is_full(error) else "restore it from a copy, or use fresh=True"
        raise StoreError(f"cannot prepare {path}: {error}; {hint}") from error
    except StoreError:
        db.close()
        raise
    return db


def connect_side(path: Path) -> sqlite3.Connection:
    """A second connection of the writing process, for checkpoints off its loop."""
    db = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=BUSY_MS / 1000)
    db.execute("PRAGMA synchronous = NORMAL")
    return db


def connect_reader(path: Path) -> sqlite3.Connection:
    """Open the file read-only; a running writer is no obstacle.

    Raises:
        StoreError: if there is no such file, or it is damaged, foreign or newer.
    """
    if not path.is_file():
        several = any(path.parent.glob(f"*/{path.name}"))
        hint = "; folders in it have: open one of them, or all with vf.Comparison.load" if several else ""
        raise StoreError(f"no run at {path.parent}: it has no {path.name}{hint}")
    try:
        db = sqlite3.connect(
            f"file:{quote(str(path.resolve()))}?mode=ro",
            uri=True,
            isolation_level=None,
            check_same_thread=False,
            timeout=BUSY_MS / 1000,
        )
        db.execute("PRAGMA query_only = ON")
    except sqlite3.Error as error:
        raise StoreError(f"cannot open {path} for reading: {error}") from error
    try:
        version = check_version(db, path)
    except StoreError:
        db.close()
        raise
    if version == 0:
        db.close()
        raise StoreError(f"{path} is empty: its writer died before the first row; start the run again")
    return db
