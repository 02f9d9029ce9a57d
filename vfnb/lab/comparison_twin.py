"""Harnesses side by side, as text and html."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from vfnb.lab.html import MAX_ROWS, Page, banner, esc, table
from vfnb.lab.text import columns, lines
from vfnb.lab.words import count, listing, money, number, one_line, seconds

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["comparison_bundle", "comparison_text"]

_HEAD = ["harness", "reward", "scored", "errors", "turns", "tokens in", "out", "tools", "rewrites", "forks"]
_HEAD += ["time", "model", "own", "cost"]


def _cells(row: Any) -> list[str]:
    reward = number(_known(row.reward))
    if _known(row.reward_se) is not None:
        reward += f" ± {number(row.reward_se, 2)}"
    forks = {
        name[5:]: int(value) for name, value in row._asdict().items() if name.startswith("fork_") and value
    }
    return [
        *(one_line(row.harness, 30), reward, f"{row.scored} of {row.n}", str(row.errors), _short(row.turns)),
        *(_count(row.tokens_in), _count(row.tokens_out), _short(row.tool_calls), _short(row.rewrites)),
        listing((f"{cause} {times}" for cause, times in forks.items()), ", ") or "none",
        *(seconds(_known(value)) for value in (row.time_s, row.model_s, row.harness_s)),
        money(_known(row.cost)),
    ]


def _known(value: Any) -> float | None:
    return None if value is None or value != value else float(value)


def _short(value: Any) -> str:
    return "-" if _known(value) is None else number(float(value))


def _count(value: Any) -> str:
    return "-" if _known(value) is None else count(round(float(value)))


def comparison_text(head: str, frame: pd.DataFrame, notes: Sequence[str]) -> str:
    """The text twin: a line per harness, means per rollout."""
    rows = [_cells(row) for row in frame.itertuples()]
    short = [i for i, name in enumerate(_HEAD) if name not in ("cost", "forks")]
    told = columns([_HEAD[i] for i in short], [[row[i] for i in short] for row in rows], widest=24)
    return lines([head], notes, told, rest="frame()")


def comparison_bundle(head: str, frame: pd.DataFrame, notes: Sequence[str]) -> dict[str, str]:
    """Text and html."""
    page = Page("comparison")
    page.add(f"<div><b>{esc(head)}</b></div>")
    page.add(banner(notes))
    rows = [[esc(cell) for cell in _cells(row)] for row in frame.head(MAX_ROWS).itertuples()]
    page.add(
        table(
            _HEAD,
            rows,
            caption="turns, tokens, tool calls, rewrites and times: means per rollout that ended in order",
        )
    )
    return {"text/plain": comparison_text(head, frame, notes), "text/html": page.close("frame()")}
