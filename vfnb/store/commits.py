"""Group commit: what one turn of the loop asks for becomes one transaction."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from vfnb.errors import StoreError
from vfnb.store.connect import is_full

__all__ = ["After", "GroupCommit", "Operation"]

T = TypeVar("T")
Operation = Callable[[sqlite3.Connection], T]
"""Statements of one write. It may run twice (again alone, if another one of its batch failed)."""


After = Callable[[Exception | None], None]
"""Told how a write ended, also when nobody waits for it any more; on the closing thread for the last ones."""


class _Waiting(NamedTuple):
    operation: Operation[Any]
    future: asyncio.Future[Any]
    size: int
    after: After | None


class GroupCommit:
    """Collects operations and commits them together at the end of the loop's turn.

    `on_commit` is told after each transaction how many bytes it wrote, about.
    """

    def __init__(self, db: sqlite3.Connection, path: Path, on_commit: Callable[[int], None]) -> None:
        self._db = db
        self._path = path
        self._on_commit = on_commit
        self._waiting: list[_Waiting] = []
        self._lock = threading.Lock()  # `flush` may come from the thread that closes the store
        self._failed: StoreError | None = None
        self.checkpoint_wanted = False

    def put(self, operation: Operation[T], size: int = 256, after: After | None = None) -> asyncio.Future[T]:
        """Ask for a write; the future resolves once it is committed, with what the operation returned.

        Call it on the loop that owns the store. A write that fails gives its future a `StoreError`.
        `size` is about how many bytes it writes.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        if self._failed is not None:
            future.set_exception(StoreError(str(self._failed)))
            return future
        with self._lock:
            self._waiting.append(_Waiting(operation, future, size, after))
            first = len(self._waiting) == 1
        if first:
            loop.call_soon(self.flush)
        return future

    def stop(self, reason: StoreError) -> None:
        """Refuse every later write with this reason."""
        self._failed = reason

    def flush(self) -> None:
        """Commit what waits. Safe from any thread."""
        with self._lock:
            batch, self._waiting = self._waiting, []
            if not batch:
                return
            if self._failed is not None:
                outcomes: list[Any] = [StoreError(str(self._failed)) for _ in batch]
            else:
                outcomes = self._commit(batch)
            if self.checkpoint_wanted:
                self.checkpoint_wanted = False
                with suppress(sqlite3.Error):  # all is committed; the WAL only stays long
                    self._db.execute("PRAGMA wal_checkpoint(PASSIVE)")
        for one, outcome in zip(batch, outcomes, strict=True):
            if one.after is not None:
                one.after(outcome if isinstance(outcome, Exception) else None)
            _resolve(one.future, outcome)
        self._on_commit(sum(one.size for one in batch))

    def _commit(self, batch: list[_Waiting]) -> list[Any]:
        try:
            return self._transaction([one.operation for one in batch])
        except Exception as error:
            if len(batch) == 1:
                return [self._explain(error)]
        return [outcome for one in batch for outcome in self._commit([one])]

    def _transaction(self, operations: list[Operation[Any]]) -> list[Any]:
        execute = sqlite3.Connection.execute  # without what our own does for texts
        execute(self._db, "BEGIN IMMEDIATE")
        try:
            results = [operation(self._db) for operation in operations]
            execute(self._db, "COMMIT")
        except BaseException:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise
        return results

    def _explain(self, error: Exception) -> Exception:
        if isinstance(error, StoreError):
            return error
        if is_full(error):
            text = (
                f"{self._path} could not be written ({error}): free some space; it does not count as stored"
            )
        else:
            text = f"{self._path} could not be written: {type(error).__name__}: {error}"
        wrapped = StoreError(text)
        wrapped.__cause__ = error
        return wrapped


def _resolve(future: asyncio.Future[Any], outcome: Any) -> None:
    loop = future.get_loop()
    try:
        here = asyncio.get_running_loop() is loop
    except RuntimeError:
        here = False
    if here:
        _settle(future, outcome)
    elif not loop.is_closed():
        loop.call_soon_threadsafe(_settle, future, outcome)


def _settle(future: asyncio.Future[Any], outcome: Any) -> None:
    if future.done():  # its waiter was cancelled; the write stands
        return
    if isinstance(outcome, Exception):
        future.set_exception(outcome)
        future.exception()  # looked at: asyncio would print it where nobody waits
    else:
        future.set_result(outcome)
