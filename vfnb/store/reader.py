"""The read side of a run, for any process, finished or not."""

from __future__ import annotations

import json
import sqlite3
import threading
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec

from vfnb.errors import StoreError, VfnbError
from vfnb.store.codec import decode_delta, decompress, merge
from vfnb.store.connect import connect_reader
from vfnb.store.layout import DATABASE_NAME, LOCK_NAME
from vfnb.store.lock import is_held
from vfnb.store.rows import EpisodeRow, ScoreRow, ScoreVersion, TaskRow, TraceHead, Unit
from vfnb.store.schema import journal_range
from vfnb.store.skim import Skim, skim_pack, skim_trace
from vfnb.trace.labels import read_labels
from vfnb.trace.pack import Packed, unpack
from vfnb.trace.records import trace_from_records
from vfnb.trace.stored import stored_trace
from vfnb.trace.trace import Reward, Trace
from vfnb.utils.models import bare
from vfnb.utils.plain import decode_json

__all__ = ["RunReader"]

_HEAD = {name: f"traces.{name}" for name in TraceHead.__struct_fields__} | {
    "group": "traces.group_id",
    "reward": "t.reward",
}
_BULK = 200  # traces read by one statement
_PACK = "header, texts, structure, tokens, version, state"
_PACKS = 16  # of them, whose messages are held at a time: a long one with tokens has a megabyte
_SHARED_BYTES = 64 << 20  # shared messages kept between two loads


class RunReader:
    """Reads one run's folder. It sees what is committed, also while another process writes.

    A reader may be used from several threads. Close it, or use it in a `with` block.
    """

    def __init__(self, folder: str | Path) -> None:
        """
        Raises:
            StoreError: no run is there, or its file is damaged, foreign or of a newer version.
        """
        self.dir = Path(folder)
        self.path = self.dir / DATABASE_NAME
        self._db = connect_reader(self.path)
        weakref.finalize(self, self._db.close)  # a reader that nobody closed: Python 3.13 warns of such files
        self._lock = threading.RLock()
        self._shared: dict[bytes, bytes] = {}
        self._shared_size = 0

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._db.close()

    def __enter__(self) -> RunReader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # The run

    def query(self, sql: str, parameters: Sequence[Any] | Mapping[str, Any] = ()) -> list[tuple[Any, ...]]:
        """Rows of any SELECT over the file (tables: `store/schema.py`).

        Raises:
            StoreError: the statement is wrong or the file is damaged; the message says how much could be
            read.
        """
        rows: list[tuple[Any, ...]] = []
        with self._lock, self._reading(rows):
            for row in self._db.execute(sql, parameters):
                rows.append(row)  # noqa: PERF402 (what came before a damaged page is counted)
        return rows

    @contextmanager
    def _reading(self, rows: Sequence[Any]) -> Iterator[None]:
        try:
            yield
        except sqlite3.DatabaseError as error:
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF
            if code not in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_IOERR):
                raise StoreError(f"{self.path}: {error}") from error
            raise StoreError(
                f"{self.path} is damaged ({error}): {len(rows)} rows were read, those after them are lost. "
                "Restore it from a copy, or use fresh=True to run anew"
            ) from error

    @contextmanager
    def _snapshot(self) -> Iterator[None]:
        """Several statements that see one state of a file that is being written."""
        with self._lock:
            if self._db.in_transaction:
                yield
                return
            self._db.execute("BEGIN")
            try:
                yield
            finally:
                self._db.execute("COMMIT")

    def meta(self) -> dict[str, Any]:
        """Facts about the run by name (`created`, `state` and what its writer stored)."""
        return {key: json.loads(value) for key, value in self.query("SELECT key, value FROM meta")}

    @property
    def complete(self) -> bool:
        """Whether the run was marked finished and no rollout is running."""
        return self.meta().get("state") == "finished" and self.counts().get("running", 0) == 0

    @property
    def unfinished_state(self) -> str:
        """What a rollout without an end is: `running`, or `interrupted` if nobody writes the run any more."""
        return "running" if is_held(self.dir / LOCK_NAME) else "interrupted"

    def counts(self) -> dict[str, int]:
        """Traces by state, superseded attempts apart."""
        sql = "SELECT iif(superseded, 'superseded', state), count(*) FROM traces GROUP BY 1"
        return dict(self.query(sql))

    def tasks(self) -> list[TaskRow]:
        """The stored tasks, by index."""
        rows = self.query("SELECT digest, idx, key, name, data FROM tasks ORDER BY idx, rowid")
        return [TaskRow(digest=d, idx=i, key=k, name=n, data=data.encode()) for d, i, k, n, data in rows]

    def episodes(self) -> list[EpisodeRow]:
        """The episodes in order of their start."""
        rows = self.query(
            "SELECT id, group_id, env, started, ended, info FROM episodes ORDER BY started, rowid"
        )
        return [
            EpisodeRow(id=i, group=g, env=env, started=s, ended=e, info=json.loads(info or "{}"))
            for i, g, env, s, e, info in rows
        ]

    # Traces

    def heads(
        self, where: str = "1", parameters: Sequence[Any] = (), *, version: int | None = None
    ) -> list[TraceHead]:
        """Headlines, without reading a message, in order of their start.

        Args:
            where: SQL over the columns of `traces`.
            parameters: its `?` values.
            version: whose `reward` to show; the newest version by default.
        """
        columns = ", ".join(_HEAD.values())
        sql = (
            f"SELECT {columns} FROM traces LEFT JOIN totals t ON t.trace = traces.num AND t.version = ? "
            f"WHERE {where} ORDER BY traces.num"
        )
        chosen = self.newest() if version is None else version
        rows = self.query(sql, (chosen, *parameters))
        names = list(_HEAD)
        return [msgspec.convert(dict(zip(names, row, strict=True)), TraceHead, strict=False) for row in rows]

    def trace_ids(self, where: str = "1", parameters: Sequence[Any] = ()) -> list[str]:
        """Ids in order of their start. `where` is SQL over the columns of `traces`."""
        return [row[0] for row in self.query(f"SELECT id FROM traces WHERE {where} ORDER BY num", parameters)]

    def unfinished(self) -> list[TraceHead]:
        """Traces that are running, or were when their process died."""
        return self.heads("state = 'running'")

    def finished(self, rollout_hash: str | None = None) -> list[Unit]:
        """Ended traces that no later attempt replaced, those set aside too, with their score versions."""
        scored: dict[int, dict[str, int]] = {}
        for num, key, version in self.query(
            "SELECT trace, score_hash, max(version) FROM totals GROUP BY 1, 2"
        ):
            scored.setdefault(num, {})[key or ""] = version
        rows = self.query(
            "SELECT num, id, rollout_hash, rollout, attempt, state, ok, task_key FROM traces "
            "WHERE state <> 'running' AND superseded <> 1 AND (? IS NULL OR rollout_hash = ?) ORDER BY num",
            (rollout_hash, rollout_hash),
        )
        return [
            Unit(
                trace=trace,
                rollout_hash=key or "",
                rollout=rollout,
                attempt=attempt,
                state=state,
                ok=None if ok is None else bool(ok),
                task_key=task or "",
                scored=scored.get(num, {}),
            )
            for num, trace, key, rollout, attempt, state, ok, task in rows
        ]

    def load_trace(self, trace_id: str, *, version: int | None = None) -> Trace:
        """One trace, also an unfinished one.

        Args:
            trace_id: its id.
            version: whose scores it carries; by default the newest version that has it.

        Raises:
            StoreError: there is no such trace, or its data is damaged.
        """
        for _, outcome in self.read_traces([trace_id], version=version):
            if isinstance(outcome, StoreError):
                raise outcome
            return outcome
        raise StoreError(f"{self.path} has no trace {trace_id}")

    def load_traces(self, ids: Iterable[str] | None = None, *, version: int | None = None) -> list[Trace]:
        """Many traces at once (all by default), in the order asked for.

        Raises:
            StoreError: one is missing or damaged. `read_traces` goes on instead.
        """
        wanted = self.trace_ids() if ids is None else list(ids)
        found: dict[str, Trace] = {}
        for trace_id, outcome in self.read_traces(wanted, version=version):
            if isinstance(outcome, StoreError):
                raise outcome
            found[trace_id] = outcome
        absent = [trace_id for trace_id in wanted if trace_id not in found]
        if absent:
            raise StoreError(f"{self.path} has no trace {absent[0]}")
        return [found[trace_id] for trace_id in wanted]

    def read_traces(
        self, ids: Iterable[str] | None = None, *, version: int | None = None
    ) -> Iterator[tuple[str, Trace | StoreError]]:
        """Traces one after the other, in order of their start; an error in the place of a damaged one.

        Their `state` is the final one of the program as JSON values, None if it has none.
        """
        wanted = self.trace_ids() if ids is None else list(ids)
        for start in range(0, len(wanted), _BULK):
            chunk = wanted[start : start + _BULK]
            numbers = dict(
                self.query(f"SELECT num, id FROM traces WHERE id IN ({_marks(chunk)}) ORDER BY num", chunk)
            )
            scores = self._scores(list(numbers), version)
            marks: dict[int, list[tuple[str, str]]] = {}
            sql = f"SELECT trace, kind, text FROM marks WHERE trace IN ({_marks(numbers)}) ORDER BY id"
            for num, kind, text in self.query(sql, list(numbers)):
                marks.setdefault(num, []).append((kind, text))
            packs: dict[int, tuple[Any, ...]] = {}
            for place, (num, trace_id) in enumerate(numbers.items()):
                if place % _PACKS == 0:
                    near = list(numbers)[place : place + _PACKS]
                    sql = f"SELECT trace, {_PACK} FROM packs WHERE trace IN ({_marks(near)})"
                    try:
                        packs = {row[0]: row[1:] for row in self.query(sql, near)}
                    except StoreError:  # a damaged page: each is read by itself then
                        packs = {}
                try:
                    trace = self._trace(num, packs.pop(num, None))
                    _dress(trace, marks.get(num, ()), scores.get(num), chosen=version is not None)
                    yield trace_id, trace
                except VfnbError as error:
                    yield trace_id, StoreError(f"trace {trace_id} of {self.path} cannot be read: {error}")

    def headers(self, numbers: Sequence[int]) -> Iterator[tuple[int, dict[str, Any]]]:
        """The fields of ended traces (by `TraceHead.num`) without their graphs, as JSON values.

        Raises:
            StoreError: one cannot be read.
        """
        for start in range(0, len(numbers), _BULK):
            chunk = numbers[start : start + _BULK]
            sql = f"SELECT trace, header FROM packs WHERE trace IN ({_marks(chunk)}) ORDER BY trace"
            for num, header in self.query(sql, chunk):
                yield num, json.loads(decompress(header))

    def skim(
        self, numbers: Sequence[int], *, tokens: bool = False
    ) -> Iterator[tuple[int, Skim | StoreError]]:
        """Messages and calls of many traces (by `TraceHead.num`) as columns, in the order asked for.

        Args:
            numbers: numbers of traces.
            tokens: count tokens too.
        """
        wanted = "tokens" if tokens else "x''"
        for start in range(0, len(numbers), _BULK):
            chunk = numbers[start : start + _BULK]
            sql = f"SELECT trace, texts, structure, {wanted}, version FROM packs WHERE trace IN ({_marks(chunk)})"
            packs = {row[0]: row[1:] for row in self.query(sql, chunk)}
            for num in chunk:
                try:
                    if num in packs:
                        yield num, skim_pack(Packed(*packs[num]), self._content)
                    else:
                        yield num, skim_trace(self._trace(num))
                except VfnbError as error:
                    yield num, StoreError(f"{self.path}: {error}")

    def _trace(self, num: int, pack: tuple[Any, ...] | None = None) -> Trace:
        """A trace, from its pack if it has been read."""
        if pack is None:
            with self._snapshot():
                row = self.query(f"SELECT {_PACK} FROM packs WHERE trace = ?", (num,))
                if not row:
                    return self._unfinished(num)
                pack = row[0]
        header, *packed, state = pack
        trace = stored_trace(decode_json(decompress(header)), unpack(Packed(*packed), fetch=self._content))
        if state is not None:
            trace.state = json.loads(decompress(state))
        return trace

    def _unfinished(self, num: int) -> Trace:
        rows = self.query(
            "SELECT delta FROM journal WHERE id BETWEEN ? AND ? ORDER BY id", journal_range(num)
        )
        records = merge(decode_delta(row) for (row,) in rows)
        for bodies in (records.contents, records.tools):
            for key in [key for key, body in bodies.items() if not body]:
                bodies[key] = self._content(key)
        return trace_from_records(
            self._start(num), records.nodes, records.contents, records.calls, records.tokens, records.tools
        )

    def _start(self, num: int) -> dict[str, Any]:
        """The fields of a trace that has not been finished, from its headline."""
        head = self.heads("num = ?", (num,))[0]
        data = self.query("SELECT data FROM tasks WHERE digest = ?", (head.task,))
        return {
            "id": head.id,
            "episode_id": head.episode,
            "group_id": head.group,
            "agent": head.role,
            "rollout": head.rollout,
            "task": {
                "idx": head.task_idx,
                "key": head.task_key,
                "name": head.task_name,
                "data": json.loads(data[0][0]) if data else {},
            },
        }

    def _content(self, key: bytes) -> bytes:
        body = self._shared.get(key)
        if body is None:
            rows = self.query("SELECT body FROM contents WHERE key = ?", (key,))
            if not rows:
                raise StoreError(f"damaged: the shared message {key.hex()} is missing")
            body = bytes(rows[0][0])
            self._shared_size += len(body)
            if self._shared_size > _SHARED_BYTES:
                self._shared.clear()
                self._shared_size = len(body)
            self._shared[key] = body
        return body

    def state(self, trace_id: str) -> Any:
        """The final state of a trace's program, None if it has none or has not ended."""
        rows = self.query(
            "SELECT packs.state FROM packs JOIN traces ON num = trace WHERE id = ? AND packs.state IS NOT NULL",
            (trace_id,),
        )
        return json.loads(decompress(rows[0][0])) if rows else None

    # Scores

    def newest(self) -> int:
        """The newest score version, 0 if there is none yet."""
        return int(self.query("SELECT coalesce(max(version), 0) FROM versions")[0][0])

    def versions(self) -> list[ScoreVersion]:
        """The score versions, oldest first."""
        rows = self.query("SELECT version, created, kind, label, weights FROM versions ORDER BY version")
        return [
            ScoreVersion(version=v, created=at, kind=kind, label=label, weights=json.loads(weights))
            for v, at, kind, label, weights in rows
        ]

    def scores(self, version: int | None = None) -> list[ScoreRow]:
        """The scores of one version (the newest by default), a row per trace that has any."""
        chosen = self.newest() if version is None else version
        numbers = [row[0] for row in self.query("SELECT trace FROM totals WHERE version = ?", (chosen,))]
        return list(self._scores(numbers, chosen).values())

    def _scores(self, numbers: list[int], version: int | None) -> dict[int, ScoreRow]:
        """Scores by trace number: of one version, or of each trace's newest."""
        found: dict[int, ScoreRow] = {}
        for start in range(0, len(numbers), _BULK):
            chunk = numbers[start : start + _BULK]
            among = f"FROM totals WHERE trace IN ({_marks(chunk)})"
            of = f"(SELECT trace AS of, max(version) AS last {among} GROUP BY 1)"
            chosen = "coalesce(?, last)"
            signals: dict[int, tuple[dict[str, tuple[float | None, float]], dict[str, float | None]]] = {}
            for num, kind, name, value, weight in self.query(
                f"SELECT trace, kind, name, value, weight FROM {of} CROSS JOIN scores "
                f"ON trace = of AND version = {chosen} ORDER BY trace, pos",
                (*chunk, version),
            ):
                rewards, metrics = signals.setdefault(num, ({}, {}))
                if kind == "reward":
                    rewards[name] = value, weight
                else:
                    metrics[name] = value
            for num, trace_id, reward, key, error in self.query(
                f"SELECT num, id, reward, totals.score_hash, totals.error FROM {of} "
                f"CROSS JOIN totals ON trace = of AND version = {chosen} JOIN traces ON num = of",
                (*chunk, version),
            ):
                rewards, metrics = signals.get(num, ({}, {}))
                found[num] = ScoreRow(
                    trace=trace_id,
                    reward=reward,
                    rewards=rewards,
                    metrics=metrics,
                    score_hash=key or "",
                    error=error,
                )
        return found


def _dress(trace: Trace, marks: Iterable[tuple[str, str]], scores: ScoreRow | None, *, chosen: bool) -> None:
    """Put marks and scores on a trace; without any of the chosen version it has none."""
    trace.tags = [text for kind, text in marks if kind == "tag"]
    trace.notes = [text for kind, text in marks if kind == "note"]
    trace.labels = read_labels(text for kind, text in marks if kind == "label")
    if scores is not None:
        trace.rewards = {
            name: bare(Reward, {"value": value, "weight": weight})
            for name, (value, weight) in scores.rewards.items()
        }
        trace.metrics = dict(scores.metrics)
    elif chosen:
        trace.rewards, trace.metrics = {}, {}


def _marks(values: Sized) -> str:
    return ", ".join("?" * len(values))
