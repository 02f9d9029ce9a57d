"""A run at one moment, for displays and summaries."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from vfnb.clients.engines.loading import under_way as loading
from vfnb.installs import under_way
from vfnb.lab.rows import Row
from vfnb.lab.stats import summarise
from vfnb.lab.views import RunState, RunView
from vfnb.runs.config import names
from vfnb.runs.live import Live
from vfnb.store import RunReader

__all__ = ["snapshot"]

SHOWN = 50  # rows in a display


def snapshot(
    name: str,
    dir: Path,
    config: dict[str, Any],
    live: Live | None,
    reader: RunReader,
    notes: Sequence[str],
    found: list[Row],
) -> RunView:
    """What a display of the run shows now: `found` has the record of each rollout. Safe on any thread."""
    if live is not None:
        rows, total, reused, running = found, live.total, len(live.reused), live.running
        state, reason = _live_state(live), live.reason
        end = live.ended or time.time()
        elapsed: float | None = end - live.started
        fresh = len(rows) - reused
        eta = elapsed / fresh * (total - len(rows)) if fresh and state == "running" and elapsed else None
    else:
        meta = reader.meta()
        rows = [row for row in found if row.end_state is not None]
        running = len(found) - len(rows)
        total = max(int(meta.get("planned", 0)), len(found))
        state, reason = _stored_state(meta, reader), str(meta.get("reason", ""))
        reused, elapsed, eta = 0, None, None
    return RunView(
        name=name,
        total=total,
        done=len(rows),
        running=running,
        failed=sum(row.outcome == "error" for row in rows),
        cancelled=sum(row.outcome == "cancelled" for row in rows),
        reused=reused,
        rescored=live.rescored if live is not None else 0,
        state=state,
        summary=summarise(rows, planned=total),
        rows=rows[:SHOWN],
        rows_total=len(rows),
        **names(config),
        dir=str(dir),
        elapsed_s=elapsed,
        eta_s=eta,
        error=reason,
        notes=tuple(notes),
        doing=(*under_way(), *loading()) if live is not None and state == "running" else (),
    )


def _live_state(live: Live) -> RunState:
    if not live.done.done():
        return "running"
    if live.done.exception() is not None:
        return "failed"
    return "cancelled" if live.reason else "finished"


def _stored_state(meta: dict[str, Any], reader: RunReader) -> RunState:
    stored = meta.get("state")
    if stored == "finished":
        return "finished"
    if stored == "stopped":
        return "cancelled"
    return "running" if reader.unfinished_state == "running" else "interrupted"
