"""`run.view()`: the rollouts as a table, live while the run goes on; a click opens a trace below."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from traitlets import Bool, Dict, Int, Unicode

from vfnb.errors import ConfigError
from vfnb.lab.frames import filtered
from vfnb.lab.run_twin import run_bundle, run_trouble
from vfnb.lab.sender import INTERVAL_S, SHARE, sender
from vfnb.lab.widgets.base import script, style
from vfnb.lab.widgets.trace import TracePanel
from vfnb.lab.words import listing, number, one_line, seconds

if TYPE_CHECKING:
    import pandas as pd

    from vfnb.lab.views import RunView
    from vfnb.trace import Trace

__all__ = ["PAGE", "RunTable", "Source", "run_frame"]

PAGE = 100
"""Rows sent to the page at a time."""
_FRONT = ("state", "task", "rollout", "reward")
_BACK = ("turns", "tokens_in", "tokens_out", "cost", "time_s", "stop", "tags")
_READ = ("trace", "task_name", "error", "error_message", "calls", *_FRONT, *_BACK)

log = logging.getLogger("vfnb.lab")


class Source(Protocol):
    """A run, as far as the table looks at it."""

    def frame(self, level: str = ..., *, where: str | None = ...) -> pd.DataFrame: ...

    @property
    def rewards(self) -> pd.DataFrame: ...

    @property
    def traces(self) -> Callable[[str], Trace]: ...


def run_frame(run: Source) -> pd.DataFrame:
    """A row per rollout, the failed ones first: how it ended, every reward and metric, labels, sizes, the error."""
    rows = run.frame("traces", where="superseded = 0").set_index("trace", drop=False)
    labels = [name for name in rows.columns if name.startswith("label_")]
    rows["name"] = rows["task_name"].fillna(rows["task"])
    signals = run.rewards.drop(columns=["task", "rollout", "reward", "ok", "stop", "error"])
    signals = signals.drop(columns=[name for name in signals if name in rows])
    table = rows[[*_READ, "name", *labels]].join(signals)
    order = (table["state"] != "error").astype(int)
    table = table.iloc[order.argsort(kind="stable").to_numpy()].reset_index(drop=True)
    table.attrs = {"shown": [*_FRONT, *signals.columns, *labels, *_BACK]}
    return table


class RunTable(TracePanel):
    """The table. `filter`, `sort` and the other traits may be set from Python too."""

    _esm = script("common", "panel", "runs")
    _css = style("common", "panel", "rows", "runs")

    head = Dict({}).tag(sync=True)
    """What stands above: state, counts, failures."""
    page = Dict({}).tag(sync=True)
    """`columns`, the rows from `offset` on (`ids`, `cells`), how many `matched`, and of how many."""
    sort = Unicode("").tag(sync=True)
    """The column to sort by; by default failed rollouts come first, then the order of the tasks."""
    descending = Bool(False).tag(sync=True)
    filter = Unicode("").tag(sync=True)
    """A condition over the columns, such as `reward < 0.5 AND turns > 3`, or a text to look for."""
    offset = Int(0).tag(sync=True)
    opened = Unicode("").tag(sync=True)
    """Id of the trace that is shown below."""

    def __init__(self, run: Source, view: Callable[[], RunView]) -> None:
        self.run = run
        self._view = view
        self._dirty = True
        self._calls = -1
        self.due = 0.0
        super().__init__()
        self.update()
        self.observe(self._changed, ["sort", "descending", "filter", "offset", "opened"])
        if self.head["running"]:
            sender.add(self)

    # All that the page does not write is written on the sender thread

    @property
    def ending(self) -> bool:
        """Whether something was asked for that is not shown yet."""
        return self._dirty

    def _changed(self, change: Any) -> None:
        self._dirty = True
        sender.add(self)

    def tick(self) -> bool:
        """Show the run as it stands; False when it has ended."""
        if not self._dirty and time.monotonic() < self.due:
            return True
        begin = time.thread_time()
        try:
            self.update()
        except Exception:
            log.warning("the view of a run could not be updated", exc_info=True)
        self.due = time.monotonic() + max(INTERVAL_S, (time.thread_time() - begin) / SHARE)
        return self._dirty or bool(self.head["running"])

    def update(self) -> None:
        """Read the run and put what changed into the traits."""
        self._dirty = False
        view = self._view()  # before the rows: what it says of them must not be newer than they are
        table = run_frame(self.run)
        head, page = _head(view), self._page(table)
        with self.hold_sync():
            self.page = page
            self.head = head
        self._open(table)

    def _page(self, table: pd.DataFrame) -> dict[str, Any]:
        shown = table.attrs["shown"]
        matched, problem = self._matching(table)
        if self.sort in shown:
            matched = matched.sort_values(
                self.sort, ascending=not self.descending, kind="stable", na_position="last"
            )
        begin = max(0, min(self.offset, len(matched) - 1)) // PAGE * PAGE
        rows = matched.iloc[begin : begin + PAGE]
        cells = {name: _cells(rows["name" if name == "task" else name]) for name in shown}
        return {
            "columns": [name for name in shown if table[name].notna().any() or name in _FRONT],
            "numeric": [name for name in shown if table[name].dtype.kind in "iuf"],
            "ids": rows["trace"].tolist(),
            "cells": cells,
            "errors": [
                f"{kind}: {one_line(text, 200)}" if isinstance(kind, str) and isinstance(text, str) else ""
                for kind, text in zip(rows["error"], rows["error_message"], strict=True)
            ],
            "begin": begin,
            "matched": len(matched),
            "total": len(table),
            "problem": problem,
        }

    def _matching(self, table: pd.DataFrame) -> tuple[pd.DataFrame, str]:
        """The rows that the filter leaves, and what is wrong with it."""
        wanted = self.filter.strip()
        if not wanted:
            return table, ""
        try:
            return filtered(table, wanted), ""
        except ConfigError as error:
            if any(sign in wanted for sign in "<>="):
                return table, str(error)
        texts = table[["name", "task", "trace", "state", "stop", "tags", "error", "error_message"]]
        found = texts.apply(lambda column: column.str.contains(wanted, case=False, regex=False, na=False))
        return table[found.any(axis=1)], ""

    def _open(self, table: pd.DataFrame) -> None:
        """Load the opened trace, again when it has grown."""
        if not self.opened:
            self.trace, self.graph = None, {}
            return
        calls = table.loc[table["trace"] == self.opened, "calls"]
        known = -1 if calls.empty else int(calls.iloc[0])
        if self.trace is None or self.trace.id != self.opened or known != self._calls:
            self._calls = known
            self.show(self.run.traces(self.opened))

    def twin(self) -> dict[str, str]:
        """As the run displays itself."""
        return run_bundle(self._view())

    def __repr__(self) -> str:
        return f"RunTable({self.head['title']}: {self.page['matched']} of {self.page['total']} rollouts)"


def _head(view: RunView) -> dict[str, Any]:
    reward = view.summary.reward if view.summary is not None else None
    mean = ""
    if reward is not None and reward.mean is not None:
        mean = f"reward {number(reward.mean)}" + (
            f" ± {number(reward.se, 2)}" if reward.se is not None else ""
        )
    return {
        "title": view.name,
        "state": view.state,
        "running": view.state == "running",
        "done": view.done,
        "total": view.total,
        "line": listing(
            [
                f"{view.done} of {view.total} finished",
                f"{view.running} running" if view.running else "",
                f"{view.failed} failed" if view.failed else "",
                f"{view.cancelled} cancelled" if view.cancelled else "",
                mean,
                f"{seconds(view.eta_s)} left" if view.eta_s is not None and view.state == "running" else "",
            ]
        ),
        "errors": run_trouble(view)[:6],
    }


def _cells(column: pd.Series[Any]) -> list[Any]:
    """Values as the page shows them; None where there is none."""
    values = column.astype(object).where(column.notna(), None).tolist()
    return [_cell(value) for value in values]


def _cell(value: Any) -> Any:
    if isinstance(value, str):
        return one_line(value, 80)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if value is None or isinstance(value, int | float) else str(value)
