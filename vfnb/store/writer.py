"""The write side of a run: what is acknowledged is on disk."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import time
from collections.abc import Awaitable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from vfnb.errors import StoreError
from vfnb.store import headline
from vfnb.store.codec import encode_delta
from vfnb.store.commits import After, GroupCommit
from vfnb.store.connect import Durability, connect_writer
from vfnb.store.keeper import Keeper
from vfnb.store.layout import CONFIG_NAME, DATABASE_NAME, LOCK_NAME, LOGS_NAME
from vfnb.store.lock import RunLock
from vfnb.store.reader import RunReader
from vfnb.store.rows import EpisodeRow, ScoreRow, ScoreVersion, TaskRow, TraceRow
from vfnb.store.schema import journal_range
from vfnb.store.sharing import Sharing
from vfnb.trace.pack import pack
from vfnb.trace.records import Delta

if TYPE_CHECKING:
    from vfnb.trace.trace import Trace

__all__ = ["RunStore"]

_THREAD_BYTES = 100_000  # from here on a trace is packed in a worker thread, off the loop


class _Live:
    """A rollout being written."""

    __slots__ = ("broken", "bytes", "num", "seq")

    def __init__(self, num: int, seq: int = 0) -> None:
        self.num = num
        self.seq = seq
        self.bytes = 0
        self.broken: str | None = None


class RunStore:
    """The one writer of a run's folder.

    Open it with `create_or_open`. All writing methods are called on one loop and return an awaitable that
    resolves when the write is committed; it raises `StoreError` if it could not be. Everything that one turn
    of the loop asks for is one transaction.
    """

    def __init__(self, folder: Path, db: sqlite3.Connection, lock: RunLock) -> None:
        self.dir = folder
        self.path = folder / DATABASE_NAME
        self.config_path = folder / CONFIG_NAME
        self.logs = folder / LOGS_NAME
        self._db = db
        self._file = self.path.stat()
        self._lock = lock
        self._closed = False
        self._keeper = Keeper(self.path, lock, self._lost)
        self._commits = GroupCommit(db, self.path, self._keeper.committed)
        self._keeper.start(self._commits)
        self._sharing = Sharing()
        self._live: dict[str, _Live] = {}
        self._next = int(db.execute("SELECT coalesce(max(num), 0) FROM traces").fetchone()[0]) + 1
        self._tasks: set[bytes] = {row[0] for row in db.execute("SELECT digest FROM tasks")}

    @classmethod
    def create_or_open(
        cls,
        folder: str | Path,
        config: Mapping[str, Any] | None = None,
        *,
        fresh: bool = False,
        durability: Durability = "normal",
    ) -> RunStore:
        """Take the lock and open the run, making it if there is none.

        Args:
            folder: the run's folder.
            config: facts about the run (JSON values) for `RunReader.meta`, over what is there.
            fresh: set an existing run aside (its database gets a name with the time) and start a new one.
            durability: `full` survives a power cut too, at the price of a disk flush per commit.

        Raises:
            StoreLocked: another process, or this one, writes the run; the message names it.
            StoreError: the folder or the file cannot be used; the message says why and what to do.
        """
        path = Path(folder)
        try:
            (path / LOGS_NAME).mkdir(parents=True, exist_ok=True)
        except (OSError, ValueError) as error:  # ValueError: characters that no file name has
            raise StoreError(
                f"cannot make the run's folder {str(path)!a}: {error}; choose another dir="
            ) from error
        lock = RunLock.take(path / LOCK_NAME)
        try:
            if fresh:
                _set_aside(path / DATABASE_NAME)
            db = connect_writer(path / DATABASE_NAME, durability)
            try:
                _write_meta(db, {"created": time.time()}, keep=True)
                _write_meta(db, config or {})
                # What a killed process had packed and not yet freed.
                db.execute("DELETE FROM journal WHERE EXISTS (SELECT 1 FROM packs WHERE trace = id >> 32)")
                return cls(path, db, lock)
            except BaseException:
                db.close()
                raise
        except sqlite3.Error as error:
            lock.release()
            raise StoreError(f"cannot write {path / DATABASE_NAME}: {error}") from error
        except BaseException:
            lock.release()
            raise

    # Rollouts

    def put_tasks(self, tasks: Iterable[TaskRow]) -> Awaitable[None]:
        """Store tasks; those whose content is there already cost nothing."""
        new = [task for task in tasks if task.digest not in self._tasks]
        # A lone surrogate becomes its escape, which is JSON.
        rows = [
            (task.digest, task.idx, task.key, task.name, task.data.decode("utf-8", "surrogatepass"))
            for task in new
        ]

        def write(db: sqlite3.Connection) -> None:
            db.executemany("INSERT OR IGNORE INTO tasks VALUES (?, ?, ?, ?, ?)", rows)

        self._tasks.update(task.digest for task in new)
        return self._put(write, sum(len(task.data) for task in new))

    def begin_episode(self, episode: EpisodeRow) -> Awaitable[None]:
        """Store an episode, or change the one with this id."""
        row = (
            episode.id,
            episode.group,
            episode.env,
            episode.started,
            episode.ended,
            json.dumps(episode.info),
        )

        def write(db: sqlite3.Connection) -> None:
            db.execute("INSERT OR REPLACE INTO episodes VALUES (?, ?, ?, ?, ?, ?)", row)

        return self._put(write)

    def end_episode(self, episode_id: str, ended: float | None = None) -> Awaitable[None]:
        """Note when an episode ended (now by default)."""
        at = time.time() if ended is None else ended

        def write(db: sqlite3.Connection) -> None:
            db.execute("UPDATE episodes SET ended = ? WHERE id = ?", (at, episode_id))

        return self._put(write)

    def begin_trace(self, row: TraceRow) -> Awaitable[None]:
        """Store that a rollout has started; its state is `running`.

        Raises:
            StoreError: a trace with this id exists.
        """
        if row.id in self._live:
            raise StoreError(f"trace {row.id} has begun already")
        live = self._live[row.id] = _Live(self._next)
        self._next += 1
        sql, values = headline.insert(live.num, row)

        def write(db: sqlite3.Connection) -> None:
            db.execute(sql, values)

        return self._put(write)

    def append(self, trace_id: str, delta: Delta) -> asyncio.Future[None]:
        """Journal what one commit added to a trace.

        After an append that failed, later ones of the same trace are refused: its journal has a hole.
        `finish_trace` still works, it writes the trace as a whole.

        Raises:
            StoreError: the trace has not begun, has ended, or has a hole.
        """
        live = self._of(trace_id)
        if live.broken is not None:
            raise StoreError(f"an earlier write of trace {trace_id} failed: {live.broken}")
        shared: list[tuple[bytes, bytes]] = []
        row = encode_delta(delta, self._sharing.of(live.num, shared))
        key = journal_range(live.num)[0] + live.seq
        live.seq += 1
        live.bytes += len(row)

        def write(db: sqlite3.Connection) -> None:
            if shared:
                db.executemany("INSERT OR IGNORE INTO contents VALUES (?, ?)", shared)
            sqlite3.Connection.execute(db, "INSERT INTO journal VALUES (?, ?)", (key, row))

        def after(error: Exception | None) -> None:
            if error is None:
                self._sharing.stored(shared)
            else:
                live.broken = str(error)

        return self._put(write, len(row), after)

    async def finish_trace(self, trace: Trace, *, version: int = 0, score_hash: str | None = None) -> None:
        """Store an ended trace: headline, scores, branches, errors, marks; its journal becomes one pack.

        Args:
            trace: it does not change any more.
            version: the score version that its scores belong to (version 0 is made when it is first used).
            score_hash: what its scores were made by, if another than `TraceRow.score_hash`.

        Raises:
            StoreError: the trace has not begun or has ended, or the write failed (it can be tried again
            then).
        """
        live = self._of(trace.id)
        shared: list[tuple[bytes, bytes]] = []
        elsewhere = self._sharing.of(live.num, shared)
        if live.bytes > _THREAD_BYTES:
            packed = await asyncio.to_thread(pack, trace.dag, elsewhere)
        else:
            packed = pack(trace.dag, elsewhere)
        ended = headline.Ended(live.num, trace, packed, shared, version, score_hash)

        def after(error: Exception | None) -> None:
            if error is None:
                self._sharing.stored(shared)
                self._live.pop(trace.id, None)

        await self._put(ended.write, ended.size, after)
        self._drop_journal(live.num)

    def _drop_journal(self, num: int) -> None:
        """Free the journal of an ended trace in a later transaction; nobody waits for it, nobody needs it."""

        def write(db: sqlite3.Connection) -> None:
            db.execute("DELETE FROM journal WHERE id BETWEEN ? AND ?", journal_range(num))

        self._put(write).add_done_callback(lambda done: done.cancelled() or done.exception())

    def adopt(self, trace_id: str) -> None:
        """Go on with an unfinished trace of a dead process, to finish it (`RunReader.unfinished` lists them).

        Raises:
            StoreError: there is no such unfinished trace.
        """
        row = self._db.execute(
            "SELECT num FROM traces WHERE id = ? AND state = 'running'", (trace_id,)
        ).fetchone()
        if row is None:
            raise StoreError(f"{self.path} has no unfinished trace {trace_id}")
        first, last = journal_range(row[0])
        used = self._db.execute(
            "SELECT coalesce(max(id) + 1, ?) FROM journal WHERE id BETWEEN ? AND ?", (first, first, last)
        ).fetchone()[0]
        self._live.setdefault(trace_id, _Live(row[0], used - first))

    def supersede(self, trace_id: str) -> Awaitable[None]:
        """Mark a trace as replaced by a later attempt; it stays."""

        def write(db: sqlite3.Connection) -> None:
            db.execute("UPDATE traces SET superseded = 1 WHERE id = ?", (trace_id,))

        return self._put(write)

    def select(self, units: Iterable[tuple[str, int]]) -> Awaitable[None]:
        """Say which rollouts belong to the run as it is defined now, by (rollout hash, sample index).

        The others stay stored but are set aside (`superseded` = 2): no frame shows them until they are
        selected again. Replaced attempts (`superseded` = 1) are left alone.
        """
        rows = list(units)

        def write(db: sqlite3.Connection) -> None:
            columns = "hash TEXT, rollout INTEGER, PRIMARY KEY (hash, rollout)"
            db.execute(f"CREATE TEMP TABLE IF NOT EXISTS wanted ({columns})")
            db.execute("DELETE FROM wanted")
            db.executemany("INSERT OR IGNORE INTO wanted VALUES (?, ?)", rows)
            same = "w.hash = rollout_hash AND w.rollout = traces.rollout"
            inside = f"EXISTS (SELECT 1 FROM wanted w WHERE {same})"
            db.execute(f"UPDATE traces SET superseded = 2 WHERE superseded = 0 AND NOT {inside}")
            db.execute(f"UPDATE traces SET superseded = 0 WHERE superseded = 2 AND {inside}")

        return self._put(write, 64 * len(rows))

    # Marks and scores

    def mark(self, trace_id: str, kind: str, text: str) -> Awaitable[None]:
        """Add a mark to a stored trace: a `tag`, a `note`, or a `label` (`vfnb.trace.labels` writes its text)."""

        def write(db: sqlite3.Connection) -> None:
            done = db.execute(
                "INSERT INTO marks (trace, kind, text, at) SELECT num, ?, ?, ? FROM traces WHERE id = ?",
                (kind, text, time.time(), trace_id),
            )
            if done.rowcount == 0:
                raise StoreError(f"{self.path} has no trace {trace_id}")

        return self._put(write, len(text))

    def add_scores(
        self, version: ScoreVersion, rows: Sequence[ScoreRow], *, base: int | None = None
    ) -> Awaitable[int]:
        """Append scores and return their version.

        With `version.version` -1 they become a new version, else they join that one, which must not have
        scores of the same traces yet: nothing is overwritten.

        Args:
            base: the version whose scores all other traces keep; None leaves them without any.

        Raises:
            StoreError: a trace is unknown, or has scores in this version.
        """
        return self._put(lambda db: headline.add_scores(db, version, rows, base), 100 * len(rows))

    def reweigh(
        self, version: ScoreVersion, base: int, key: str, traces: Collection[str] | None = None
    ) -> Awaitable[tuple[int, int]]:
        """A new version: the scores of `base` with the weights of `version`, for some traces or all.

        Returns its number and how many traces were weighed.

        Args:
            key: the score hash of those that are weighed anew.
            traces: ids; the others keep their scores.
        """
        return self._put(lambda db: headline.reweigh(db, version, base, key, traces), 1 << 20)

    def add_judge_calls(self, calls: Mapping[str, Sequence[Any]]) -> Awaitable[None]:
        """Add records of judges' calls (JSON values of `JudgeCall`) to ended traces, by trace id.

        Raises:
            StoreError: one is unknown or has not ended.
        """
        return self._put(lambda db: headline.add_judge_calls(db, calls), 4096 * len(calls))

    def restate(self, trace: Trace) -> Awaitable[None]:
        """Write the end state and the errors of a stored trace anew, after it was scored again."""
        return self._put(lambda db: headline.restate(db, trace), 4096)

    # The run itself

    def set_meta(self, **values: Any) -> Awaitable[None]:
        """Store facts about the run, JSON values by name. `state="finished"` says that it is complete."""
        return self._put(lambda db: _write_meta(db, values))

    def reader(self) -> RunReader:
        """A reader of this run, for any thread. It sees what is committed."""
        return RunReader(self.dir)

    def flush(self) -> None:
        """Commit what was asked for until now, at once."""
        self._commits.flush()

    def close(self) -> None:
        """Commit what waits, make the database one plain file, give the lock back. Harmless when repeated.

        Raises:
            StoreError: the folder was deleted, replaced or taken over meanwhile; what was written is lost.
        """
        if self._closed:
            return
        self._closed = True
        try:
            self._commits.flush()
            self._commits.stop(StoreError(f"the store {self.path} is closed"))
            self._keeper.stop()
            self._check_place()
            self._compact()
        finally:
            self._db.close()
            self._lock.release()

    def _check_place(self) -> None:
        """SQLite goes on writing to a file that has lost its name."""
        try:
            self._lock.beat()
            if os.path.samestat(self._file, self.path.stat()):
                return
            what = "another file is in its place"
        except OSError as error:
            what = str(error)
        raise StoreError(f"{self.path} was deleted or replaced while it was written ({what})")

    def _compact(self) -> None:
        try:
            self._db.executescript("PRAGMA incremental_vacuum")  # `execute` would free a single page
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            self._db.execute("PRAGMA journal_mode = DELETE").fetchall()  # a finished run is one plain file
        except sqlite3.Error:
            pass  # someone reads it, or the disk is full: all is committed, the WAL stays beside the file

    def __enter__(self) -> RunStore:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _put(self, operation: Any, size: int = 256, after: After | None = None) -> asyncio.Future[Any]:
        return self._commits.put(operation, size, after)

    def _of(self, trace_id: str) -> _Live:
        live = self._live.get(trace_id)
        if live is None:
            raise StoreError(f"trace {trace_id} has not begun in this store, or has ended")
        return live

    def _lost(self, error: StoreError) -> None:
        self._commits.stop(error)


def _write_meta(db: sqlite3.Connection, values: Mapping[str, Any], *, keep: bool = False) -> None:
    verb = "IGNORE" if keep else "REPLACE"
    db.executemany(
        f"INSERT OR {verb} INTO meta VALUES (?, ?)",
        [(key, json.dumps(value, default=str)) for key, value in values.items()],
    )


def _set_aside(path: Path) -> None:
    """Rename the database of an earlier run; what was paid for is never deleted."""
    if not path.exists():
        return
    try:
        db = sqlite3.connect(path, isolation_level=None)
        try:
            db.execute("PRAGMA journal_mode = DELETE").fetchall()
        finally:
            db.close()
    except sqlite3.Error:
        pass  # damaged: it is set aside as it is
    stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
    target = path.with_name(f"{path.stem}-{stamp}{path.suffix}")
    count = 1
    while target.exists():
        count += 1
        target = path.with_name(f"{path.stem}-{stamp}-{count}{path.suffix}")
    for end in ("", "-wal", "-shm"):
        source = path.with_name(path.name + end)
        if source.exists():
            source.rename(target.with_name(target.name + end))
