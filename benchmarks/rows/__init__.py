"""The rows of the table, by what they exercise."""

from __future__ import annotations

from benchmarks import tools
from benchmarks.measure import Row
from benchmarks.rows import disk, fleet, recording, relaying, rescoring, rollouts, starting, tokens

__all__ = ["ROWS"]

ROWS: list[Row] = [
    *starting.ROWS,
    *recording.ROWS,
    *relaying.ROWS,
    *rollouts.ROWS,
    *disk.ROWS,
    *fleet.ROWS,
    *tokens.ROWS,
    *rescoring.ROWS,
    *tools.ROWS,
]
