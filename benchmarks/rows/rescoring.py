"""Scoring 10,000 stored traces anew, and 1,000 longer ones; floor: the function on messages in memory."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.measure import Metric, Row, Sides
from benchmarks.processes import json_program, python

__all__ = ["ROWS"]


@contextmanager
def open_runs(peer: bool) -> Iterator[Sides]:
    with tempfile.TemporaryDirectory() as folder:
        runs = [Path(folder) / "many", Path(folder) / "long"]
        json_program([*python("ours.fleet"), "build", runs[0], 10_000, 20])
        json_program([*python("ours.fleet"), "build", runs[1], 1_000, 50])

        def ours() -> dict[str, float]:
            many, long = (json_program([*python("ours.rescore"), run]) for run in runs)
            return many | {"long_s": long["cheap_s"]}

        yield {"ours": ours}


ROWS = [
    Row(
        "rescore",
        "scoring a stored run anew: 10,000 traces of 20 messages",
        [
            Metric("weights_s", "other weights", "s", 0.2),
            Metric("cheap_s", "a reward of one pass over the text", "s"),
            Metric("cheap_memory_s", "the same function on messages in memory", "s"),
            Metric("cheap_ratio", "ratio of the two", "", 2.0),
            Metric("text_s", "a reward that compares texts", "s"),
            Metric("text_memory_s", "the same function on messages in memory", "s"),
            Metric("text_ratio", "ratio of the two", "", 2.0),
            Metric("long_s", "1,000 traces of 50 messages, one pass", "s", 2.0),
        ],
        open_runs,
    )
]
