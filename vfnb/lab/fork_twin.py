"""A fork as text and html: what came of going on from one message, beside the rollouts that went on as they did."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vfnb.lab.html import MAX_ROWS, Page, banner, esc, table
from vfnb.lab.intervals import Estimate
from vfnb.lab.rows import Row
from vfnb.lab.text import columns, folded, lines
from vfnb.lab.words import number, one_line

__all__ = ["ForkView", "fork_bundle", "fork_text"]


@dataclass(frozen=True, slots=True)
class ForkView:
    """What the twins show."""

    head: str
    message: str
    """The message from which the forks go on, cut."""
    original: float | None
    """Reward of the forked rollout."""
    value: Estimate
    """Of the forks."""
    group: Estimate
    """Of all rollouts of the task in the original run."""
    change: Estimate
    """`value` minus `group`."""
    rows: Sequence[Row]
    notes: Sequence[str]


def _told(name: str, found: Estimate) -> list[str]:
    interval = "" if found.low is None else f"[{number(found.low)}, {number(found.high)}]"
    return [
        name,
        number(found.mean),
        number(found.se, 2) if found.se is not None else "",
        interval,
        str(found.n),
    ]


def _table(view: ForkView) -> tuple[list[str], list[list[str]]]:
    rows = [
        ["this rollout", number(view.original), "", "", "1"],
        _told("forks", view.value),
        _told("its task in the run", view.group),
        _told("forks minus task", view.change),
    ]
    return ["reward", "mean", "se", "95% interval", "rollouts"], rows


def fork_text(view: ForkView) -> str:
    """The text twin."""
    head, rows = _table(view)
    return lines(
        [view.head],
        [f"from: {one_line(view.message, 90)}"],
        [part for note in view.notes for part in folded(note)],
        columns(head, rows, widest=30),
    )


def fork_bundle(view: ForkView) -> dict[str, str]:
    """Text and html."""
    page = Page("fork")
    page.add(f"<div><b>{esc(view.head)}</b></div><div>from: {esc(one_line(view.message, 300))}</div>")
    page.add(banner(view.notes))
    head, rows = _table(view)
    page.add(table(head, [[esc(cell) for cell in row] for row in rows]))
    listed = [
        [
            esc(row.trace[:8]),
            esc(number(row.reward)),
            esc(row.end_state or "running"),
            esc(row.stop or row.error or ""),
        ]
        for row in list(view.rows)[:MAX_ROWS]
    ]
    page.add(table(["fork", "reward", "ended", "by"], listed))
    return {"text/plain": fork_text(view), "text/html": page.close("frame()")}
