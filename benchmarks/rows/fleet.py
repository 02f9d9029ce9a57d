"""Rows 13, 14 and 15: a finished run of 10,000 traces with 20 messages each."""

from __future__ import annotations

import sqlite3
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import zstandard

from benchmarks.measure import Figures, Metric, Row, Sides
from benchmarks.peer import setup
from benchmarks.processes import json_program, python

__all__ = ["ROWS"]

TRACES = 10_000


def floor(path: Path) -> Figures:
    """Read all rows of the headline tables, and unpack every message, with nothing made of them."""
    start = time.process_time()
    with closing(sqlite3.connect(path)) as db:
        opened = time.process_time() - start
        start = time.process_time()
        for table in ("traces", "totals"):
            db.execute(f"SELECT * FROM {table}").fetchall()
        scanned = time.process_time() - start
        start = time.process_time()
        expand = zstandard.ZstdDecompressor().decompress
        for (blob,) in db.execute("SELECT texts FROM packs"):
            expand(blob, max_output_size=1 << 24)
        unpacked = time.process_time() - start
    return {"open_s": opened, "rewards_s": scanned, "messages_s": unpacked}


@contextmanager
def open_fleet(peer: bool) -> Iterator[Sides]:
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        json_program([*python("ours.fleet"), "build", run, TRACES])
        sides: Sides = {
            "floor": lambda: floor(run / "run.sqlite"),
            "ours": lambda: json_program([*python("ours.fleet"), "read", run]),
        }
        if peer:
            file = Path(folder) / "traces.jsonl"
            sides["peer"] = lambda: json_program([*python("peer.fleet", setup.PYTHON), file, TRACES])
        yield sides


ROWS = [
    Row(
        "13-15",
        "a finished run of 10,000 traces of 20 messages; floor: SQLite scan, zstd",
        [
            Metric("rewards_s", "13: run.rewards", "s", 0.3),
            Metric("messages_s", "14: messages frame", "s", 3.0),
            Metric("open_s", "15: open", "s", 0.2),
            Metric("open_mb", "15: open, memory", "MB"),
        ],
        open_fleet,
    )
]
