"""From a trace to rows: the headline of its start, and everything that its end writes."""

from __future__ import annotations

import json
import math
import sqlite3
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from pydantic import BaseModel

from vfnb.errors import StoreError
from vfnb.store.codec import compress, decompress
from vfnb.store.rows import ScoreRow, ScoreVersion, TraceRow
from vfnb.trace.labels import label_text
from vfnb.utils.plain import plain

if TYPE_CHECKING:
    from vfnb.trace.pack import Packed
    from vfnb.trace.trace import Trace

__all__ = [
    "BEYOND",
    "STAGES",
    "Ended",
    "add_judge_calls",
    "add_scores",
    "branch_rows",
    "insert",
    "restate",
    "reweigh",
]

STAGES = ("boot", "setup", "agent", "finalize", "scoring")
"""Rollout stages with a duration column of their own (`<stage>_s`)."""

STATE_BYTES = 1 << 20
"""The final `trace.state` is kept up to this many bytes of JSON."""


def insert(num: int, row: TraceRow) -> tuple[str, tuple[Any, ...]]:
    """The statement that stores the start of a rollout."""
    values = {
        "num": num,
        "id": row.id,
        "episode": row.episode,
        "group_id": row.group,
        "role": row.role,
        "task": row.task,
        "task_idx": row.task_idx,
        "task_key": row.task_key,
        "task_name": row.task_name,
        "rollout": row.rollout,
        "attempt": row.attempt,
        "rollout_hash": row.rollout_hash,
        "score_hash": row.score_hash,
        "state": "running",
        "started": time.time() if row.started is None else row.started,
    }
    marks = ", ".join("?" * len(values))
    return f"INSERT INTO traces ({', '.join(values)}) VALUES ({marks})", tuple(values.values())


class Ended:
    """The rows of an ended trace, ready to be written in one transaction."""

    def __init__(
        self,
        num: int,
        trace: Trace,
        packed: Packed,
        shared: list[tuple[bytes, bytes]],
        version: int,
        score_hash: str | None,
    ) -> None:
        self.num = num
        self.version = version
        self.score_hash = score_hash
        self.shared = shared
        self._headline = _headline(trace)
        header = _header(trace)
        columns = (packed.structure, packed.texts, packed.tokens)
        self._pack = (num, packed.version, header, _state(trace), *columns)
        self._branches = branch_rows(num, trace)
        self._errors = _errors(num, trace)
        self._marks = [("tag", label) for label in trace.tags]
        self._marks += [("note", text) for text in trace.notes]
        self._marks += [("label", label_text(name, value)) for name, value in trace.labels.items()]
        self._scores = ScoreRow(
            trace=trace.id,
            reward=_finite(trace.reward),
            rewards={name: (_finite(reward.value), reward.weight) for name, reward in trace.rewards.items()},
            metrics={name: _finite(value) for name, value in trace.metrics.items()},
        )
        self.size = packed.nbytes + len(header) + 2048

    def write(self, db: sqlite3.Connection) -> None:
        """Write all rows. The journal of the trace is of no use from here on."""
        _update(db, self.num, self._headline)
        db.executemany("INSERT OR IGNORE INTO contents VALUES (?, ?)", self.shared)
        db.execute("INSERT INTO packs VALUES (?, ?, ?, ?, ?, ?, ?)", self._pack)
        db.executemany("INSERT INTO branches VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", self._branches)
        _write_errors(db, self._errors)
        if self._marks:  # some may have been stored while it ran
            known = set(db.execute("SELECT kind, text FROM marks WHERE trace = ?", (self.num,)))
            new = [(self.num, *mark, None) for mark in self._marks if mark not in known]
            db.executemany("INSERT INTO marks (trace, kind, text, at) VALUES (?, ?, ?, ?)", new)
        db.execute(
            "INSERT OR IGNORE INTO versions VALUES (?, ?, ?, '', '{}')",
            (self.version, time.time(), "rescore" if self.version else "live"),
        )
        _score(db, self.version, [(self.num, self._scores, self.score_hash)])


def restate(db: sqlite3.Connection, trace: Trace) -> None:
    """Write the end state and the errors of a stored trace anew: scoring it again has changed them."""
    row = db.execute("SELECT num FROM traces WHERE id = ?", (trace.id,)).fetchone()
    if row is None:
        raise StoreError(f"trace {trace.id} is not in this run")
    _update(db, row[0], _headline(trace))
    db.execute("UPDATE packs SET header = ? WHERE trace = ?", (_header(trace), row[0]))
    db.execute("DELETE FROM errors WHERE trace = ?", row)
    _write_errors(db, _errors(row[0], trace))


def _update(db: sqlite3.Connection, num: int, values: dict[str, Any]) -> None:
    names = ", ".join(f"{name} = ?" for name in values)
    db.execute(f"UPDATE traces SET {names} WHERE num = ?", (*values.values(), num))


def _write_errors(db: sqlite3.Connection, rows: list[tuple[Any, ...]]) -> None:
    db.executemany("INSERT INTO errors VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)


def _header(trace: Trace) -> bytes:
    return _squeezed(trace.header())


def _squeezed(header: dict[str, Any]) -> bytes:
    return compress(json.dumps(header, default=str, separators=(",", ":")).encode())


def _headline(trace: Trace) -> dict[str, Any]:
    counters = trace.dag.counters
    state = trace.end_state or ("error" if trace.errors else "completed")
    last = trace.errors[-1] if trace.errors and state == "error" else None
    values: dict[str, Any] = {
        "state": state,
        "stop": trace.stop_condition,
        "ok": trace.ok,
        "dropped": trace.dropped,
        "error": last.type if last else None,
        "error_boundary": last.boundary if last else None,
        "error_message": last.message[:2000] if last else None,
        "errors": len(trace.errors),
        "calls": counters.calls,
        "turns": counters.turns,
        "nodes": len(trace.dag.nodes),
        "branches": len(trace.dag.tips),
        "prompt_tokens": counters.prompt_tokens,
        "completion_tokens": counters.completion_tokens,
        "cached_tokens": counters.cached_tokens,
        "reasoning_tokens": counters.reasoning_tokens,
        "cost": counters.cost if counters.priced else None,
        "model": next((call.served_model or call.model for call in trace.dag.calls), None),
    }
    spans = trace.timing
    ends = [span.end for span in spans.values() if span.end is not None]
    values["ended"] = max(ends) if ends else time.time()
    for stage in STAGES:
        span = spans.get(stage)
        values[f"{stage}_s"] = None if span is None or span.end is None else span.end - span.start
    return values


def _state(trace: Trace) -> bytes | None:
    """The program's final state as JSON, or what is known of one that cannot be kept."""
    state = trace.state
    if state is None:
        return None
    try:
        raw = msgspec.json.encode(plain(state if isinstance(state, BaseModel) else vars(state)))
    except Exception as error:
        raw = msgspec.json.encode({"unstored": f"{type(error).__name__}: {error}"})
    if len(raw) > STATE_BYTES:
        raw = msgspec.json.encode({"unstored": f"{len(raw)} bytes of JSON, at most {STATE_BYTES} are kept"})
    return compress(raw)


def branch_rows(num: int, trace: Trace) -> list[tuple[Any, ...]]:
    """Rows of the branches table."""
    rows = []
    nodes = trace.dag.nodes
    linked, returned = {}, {}
    for link in trace.links:
        if link.kind == "returned_to":
            returned[nodes[link.source].branch] = link.target
        else:
            linked[link.source] = link.target
    for branch in trace.branches:
        fork = branch.cause
        mask = branch.mask
        rows.append(
            (
                num,
                branch.index,
                branch.id,
                branch.leaf,
                fork.cause if fork else None,
                fork.index if fork else None,
                len(branch.path),
                sum(nodes[node].sampled for node in branch.path),
                nodes[branch.leaf].total,
                0 if mask is None else int(mask.sum()),
                fork.diff if fork else None,
                linked.get(branch.id),
                returned.get(branch.id),
            )
        )
    return rows


def _errors(num: int, trace: Trace) -> list[tuple[Any, ...]]:
    return [
        (num, seq, one.type, one.boundary, one.message, one.stage, one.status, one.at, one.traceback)
        for seq, one in enumerate(trace.errors)
    ]


def _finite(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(value)


def add_scores(
    db: sqlite3.Connection, version: ScoreVersion, rows: Sequence[ScoreRow], base: int | None = None
) -> int:
    """Write scores of one version, with those of `base` for all other traces; returns its number."""
    number = _begin_version(db, version)
    numbers = dict(db.execute("SELECT id, num FROM traces"))
    for row in rows:
        if row.trace not in numbers:
            raise StoreError(f"scores for trace {row.trace}, which is not in this run")
    _score(db, number, [(numbers[row.trace], row, row.score_hash) for row in rows])
    if base is not None:
        _copy_scores(db, base, number)
    return number


def _begin_version(db: sqlite3.Connection, version: ScoreVersion) -> int:
    number = version.version
    if number < 0:
        number = int(db.execute("SELECT coalesce(max(version), 0) + 1 FROM versions").fetchone()[0])
    db.execute(
        "INSERT OR IGNORE INTO versions VALUES (?, ?, ?, ?, ?)",
        (number, version.created or time.time(), version.kind, version.label, json.dumps(version.weights)),
    )
    return number


def _copy_scores(db: sqlite3.Connection, base: int, number: int) -> None:
    """The scores of `base` for the traces that the version `number` has none of."""
    others = "version = :base AND trace NOT IN (SELECT trace FROM totals WHERE version = :new)"
    given = {"base": base, "new": number}
    names = "pos, kind, name, value, weight"  # before the totals, which say who is there
    db.execute(f"INSERT INTO scores SELECT trace, :new, {names} FROM scores WHERE {others}", given)
    names = "reward, score_hash, error"
    db.execute(f"INSERT INTO totals SELECT trace, :new, {names} FROM totals WHERE {others}", given)


BEYOND = "the weighted sum of its rewards is no finite number"
"""The error of a trace whose sum no float holds."""


class _Sum:
    """`math.fsum` for SQL: its result does not depend on the order."""

    beyond = False
    """Whether a sum was beyond what a float holds."""

    def __init__(self) -> None:
        self.values: list[float] = []

    def step(self, value: float) -> None:
        """One value."""
        self.values.append(value)

    def finalize(self) -> float | None:
        """The sum, None of none."""
        if not self.values:
            return None
        try:
            total = math.fsum(self.values)
        except (OverflowError, ValueError):
            total = math.inf
        if not math.isfinite(total):
            type(self).beyond = True
        return total


def reweigh(
    db: sqlite3.Connection, version: ScoreVersion, base: int, key: str, traces: Collection[str] | None
) -> tuple[int, int]:
    """Write the scores of `base` with other weights, for some traces or all.

    A trace without a sum has none again: it failed, or one of its values is missing. One whose sum was beyond what
    a float holds is summed again. Returns the version's number and how many traces were weighed.
    """
    number = _begin_version(db, version)
    given: dict[str, Any] = {"base": base, "new": number, "key": key, "beyond": BEYOND}
    db.execute("CREATE TEMP TABLE IF NOT EXISTS chosen (id TEXT PRIMARY KEY)")
    db.execute("DELETE FROM chosen")
    db.executemany("INSERT OR IGNORE INTO chosen VALUES (?)", [(trace,) for trace in traces or ()])
    of = "version = :base"
    if traces is not None:
        of += " AND trace IN (SELECT num FROM traces JOIN chosen USING (id))"
    cases = " ".join(f"WHEN :name{place} THEN :weight{place}" for place in range(len(version.weights)))
    weight = f"iif(kind = 'reward', CASE name {cases} ELSE weight END, weight)"
    for place, (name, value) in enumerate(version.weights.items()):
        given |= {f"name{place}": name, f"weight{place}": value}
    db.execute(
        f"INSERT INTO scores SELECT trace, :new, pos, kind, name, value, {weight} FROM scores s WHERE {of}",
        given,
    )

    class Adding(_Sum):
        """Of this version alone."""

    db.create_aggregate("exact_sum", 1, Adding)  # type: ignore[arg-type]
    total = (
        "(SELECT exact_sum(value * weight) FROM scores s "
        "WHERE s.trace = totals.trace AND s.version = :new AND kind = 'reward')"
    )
    done = db.execute(
        f"INSERT INTO totals SELECT trace, :new, iif(reward IS NULL AND error IS NOT :beyond, NULL, "
        f"coalesce({total}, reward)), :key, iif(error IS :beyond, NULL, error) "
        f"FROM totals WHERE {of}",
        given,
    )
    if Adding.beyond:
        sql = "UPDATE totals SET reward = NULL, error = coalesce(error, ?) WHERE version = ? AND abs(reward) > ?"
        db.execute(sql, (BEYOND, number, sys.float_info.max))
    if traces is not None:
        _copy_scores(db, base, number)
    return number, done.rowcount


def _score(db: sqlite3.Connection, version: int, rows: Sequence[tuple[int, ScoreRow, str | None]]) -> None:
    try:
        db.executemany(
            "INSERT INTO totals VALUES "
            "(?, ?, ?, coalesce(?, (SELECT score_hash FROM traces WHERE num = ?)), ?)",
            [(num, version, row.reward, key, num, row.error) for num, row, key in rows],
        )
    except sqlite3.IntegrityError as error:
        there = {num for (num,) in db.execute("SELECT trace FROM totals WHERE version = ?", (version,))}
        twice = next((row.trace for num, row, _ in rows if num in there), rows[0][1].trace)
        raise StoreError(
            f"trace {twice} has scores in version {version}; it is never overwritten, add a new one"
        ) from error
    signals: list[tuple[Any, ...]] = []
    for num, row, _ in rows:
        pos = 0
        for name, (value, weight) in row.rewards.items():
            signals.append((num, version, pos, "reward", name, value, weight))
            pos += 1
        for name, value in row.metrics.items():
            signals.append((num, version, pos, "metric", name, value, None))
            pos += 1
    db.executemany("INSERT INTO scores VALUES (?, ?, ?, ?, ?, ?, ?)", signals)


def add_judge_calls(db: sqlite3.Connection, calls: Mapping[str, Sequence[Any]]) -> None:
    """Add records of judges' calls (JSON values) to those of ended traces, by trace id."""
    for trace_id, new in calls.items():
        row = db.execute(
            "SELECT num, header FROM packs JOIN traces ON num = trace WHERE id = ?", (trace_id,)
        ).fetchone()
        if row is None:
            raise StoreError(f"trace {trace_id} has not ended in this run")
        header = json.loads(decompress(row[1]))
        header["judge_calls"] = [*header.get("judge_calls", []), *new]
        db.execute("UPDATE packs SET header = ? WHERE trace = ?", (_squeezed(header), row[0]))
