"""The store's background thread: heartbeat of the lock, and checkpoints off the loop that writes."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path

from vfnb.errors import StoreError
from vfnb.store.commits import GroupCommit
from vfnb.store.connect import connect_side
from vfnb.store.lock import HEARTBEAT_S, RunLock
from vfnb.store.schema import PAGE

__all__ = ["Keeper"]

CHECKPOINT_BYTES = 16 << 20
"""After so many written bytes the WAL is copied into the database. The first commit after that begins it anew,
a disk flush that the calls of that moment wait for: it must be rarer than once in a few thousand calls."""
CATCH_UP_BYTES = 64 << 20
"""A WAL that outgrows its checkpoints to this length gets one from the writer itself, between two commits."""
_TRIES = 3


class Keeper:
    """Wakes up for the heartbeat and when a commit has made the WAL long."""

    def __init__(self, path: Path, lock: RunLock, lost: Callable[[StoreError], None]) -> None:
        self._path = path
        self._lock = lock
        self._lost = lost
        self._wake = threading.Event()
        self._end = False
        self._commits: GroupCommit | None = None
        self._written = 0
        self._thread = threading.Thread(target=self._run, name="vfnb-store", daemon=True)

    def start(self, commits: GroupCommit) -> None:
        """Begin; `commits` is asked for a checkpoint of its own when ours fall behind."""
        self._commits = commits
        self._thread.start()

    def committed(self, size: int) -> None:
        """Told after each transaction how many bytes it wrote, about."""
        self._written += max(size, PAGE)  # each writes whole pages
        if self._written >= CHECKPOINT_BYTES:
            self._wake.set()

    def stop(self) -> None:
        """End the thread and wait for it."""
        self._end = True
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        side: sqlite3.Connection | None = None
        next_beat = time.monotonic() + HEARTBEAT_S
        try:
            while not self._end:
                self._wake.wait(max(0.0, next_beat - time.monotonic()))
                self._wake.clear()
                if self._end:
                    break
                beat = time.monotonic() >= next_beat
                if beat:
                    next_beat = time.monotonic() + HEARTBEAT_S
                    self._beat()
                # With the heartbeat also a short rest, and what came in while it was copied: the WAL can only begin
                # anew once all of it is copied.
                for _ in range(_TRIES if beat else 1):
                    if self._written >= (1 if beat else CHECKPOINT_BYTES):
                        self._written = 0
                        side = side or connect_side(self._path)
                        self._checkpoint(side)
        finally:
            if side is not None:
                side.close()

    def _checkpoint(self, side: sqlite3.Connection) -> None:
        try:
            _, pages, copied = side.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        except sqlite3.Error:
            return  # full disk or busy file: the WAL keeps everything, the next round tries again
        if copied < pages:
            self._written = CHECKPOINT_BYTES  # commits came in between: the next one asks again
        if pages * PAGE > CATCH_UP_BYTES and self._commits is not None:
            self._commits.checkpoint_wanted = True

    def _beat(self) -> None:
        try:
            self._lock.beat()
        except StoreError as error:
            self._lost(error)
        except OSError as error:
            self._lost(StoreError(f"the run's folder {self._path.parent} is gone or read-only: {error}"))
