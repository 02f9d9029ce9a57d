"""One run on disk: an SQLite journal with one writer and many readers."""

from vfnb.store.connect import Durability
from vfnb.store.headline import BEYOND
from vfnb.store.layout import CONFIG_NAME, DATABASE_NAME, LOCK_NAME, LOGS_NAME, is_run
from vfnb.store.reader import RunReader
from vfnb.store.rows import EpisodeRow, ScoreRow, ScoreVersion, TaskRow, TraceHead, TraceRow, TraceState, Unit
from vfnb.store.writer import RunStore

__all__ = [
    "BEYOND",
    "CONFIG_NAME",
    "DATABASE_NAME",
    "LOCK_NAME",
    "LOGS_NAME",
    "Durability",
    "EpisodeRow",
    "RunReader",
    "RunStore",
    "ScoreRow",
    "ScoreVersion",
    "TaskRow",
    "TraceHead",
    "TraceRow",
    "TraceState",
    "Unit",
    "is_run",
]
