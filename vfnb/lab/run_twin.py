"""A run as text, as html and as one terminal line, from its snapshot."""

from __future__ import annotations

from collections.abc import Sequence

from vfnb.lab.html import MAX_ROWS, MUTED, Page, badge, banner, esc, span, table
from vfnb.lab.rows import Row
from vfnb.lab.summary_twin import error_lines, summary_blocks, summary_lines
from vfnb.lab.text import MAX_LINES, columns, folded, lines
from vfnb.lab.views import RunView
from vfnb.lab.words import count, listing, money, number, one_line, seconds

__all__ = ["run_bundle", "run_line", "run_repr", "run_text", "run_trouble"]

_TONES = {"running": "none", "finished": "good", "cancelled": "warn", "failed": "bad", "interrupted": "warn"}
_HEAD = ["task", "rollout", "reward", "state", "turns", "tokens in", "out", "time"]


def run_line(view: RunView) -> str:
    """Progress in one line: counts, failures with their cause, reward, tokens, cost, time left."""
    summary = view.summary
    cause = ""
    if summary and summary.errors:
        first = summary.errors[0]
        cause = f" ({first.type}: {one_line(first.message, 40)})"
    return listing(
        [
            f"{one_line(view.name, 30)} {view.done}/{view.total}",
            "" if view.state == "running" else view.state,
            f"{view.running} running" if view.running else "",
            *(one_line(line, 60) for line in view.doing[:1]),
            f"{view.failed} failed{cause}" if view.failed else "",
            f"{view.cancelled} cancelled" if view.cancelled else "",
            f"{view.reused} reused" if view.reused else "",
            f"reward {_short(view)}" if summary and summary.reward.mean is not None else "",
            f"{count(summary.tokens_in + summary.tokens_out)} tokens" if summary else "",
            money(summary.cost) if summary and summary.cost is not None else "",
            _time(view),
        ]
    )


def run_repr(view: RunView) -> str:
    """The short form for `repr`."""
    reward = f", reward {_short(view)}" if view.summary and view.summary.reward.mean is not None else ""
    failed = f", {view.failed} failed" if view.failed else ""
    return f"Run({one_line(view.name, 40)}: {view.state}, {view.done} of {view.total}{reward}{failed})"


def _short(view: RunView) -> str:
    assert view.summary is not None
    reward = view.summary.reward
    return number(reward.mean) + (f" ± {number(reward.se, 2)}" if reward.se is not None else "")


def _time(view: RunView) -> str:
    if view.state == "running" and view.eta_s is not None:
        return f"{seconds(view.eta_s)} left"
    return seconds(view.elapsed_s) if view.elapsed_s is not None else ""


def _counts(view: RunView) -> str:
    done = f"{view.done} of {view.total} finished"
    ran = view.done - view.reused
    anew = f" ({view.rescored} scored anew)" if view.rescored else ""
    return listing(
        [
            done,
            f"{view.running} running" if view.running else "",
            f"{view.failed} failed" if view.failed else "",
            f"{view.cancelled} cancelled" if view.cancelled else "",
            f"{view.reused} reused{anew}, {ran} run" if view.reused else "",
        ]
    )


def _setting(view: RunView) -> str:
    return listing(
        f"{name} {one_line(value, 60)}"
        for name, value in [("taskset", view.taskset), ("model", view.model), ("harness", view.harness)]
        if value
    )


def run_trouble(view: RunView) -> list[str]:
    """Why the run stopped and what failed, one line a cause."""
    found = [f"run stopped: {one_line(view.error, 300)}"] if view.error else []
    if view.summary:
        found += error_lines(view.summary)
    elif view.failed:
        found.append(f"{view.failed} of {view.total} rollouts failed")
    return found


def run_text(view: RunView) -> str:
    """The text twin, at most 20 lines: state, failures, settings, numbers, then as many rows as fit."""
    head = [
        listing([f"Run {one_line(view.name, 60)}", view.state, _counts(view), _time(view)]),
        *(part for line in run_trouble(view) for part in folded(line)),
        *(f"now: {one_line(line, 100)}" for line in view.doing[:3]),
        *(part for note in view.notes[:3] for part in folded(f"note: {note}")),
        _setting(view),
        *(summary_lines(view.summary) if view.summary else []),
        f"stored in {view.dir}" if view.dir else "",
    ]
    head = [line for line in head if line]
    room = MAX_LINES - len(head) - 2  # the table's head and the line that says what was cut
    shown = list(view.rows)[: max(0, room)]
    if not shown:
        return lines(head, rest="run.summary")
    total = max(view.rows_total, len(view.rows))
    rest = f"{len(shown)} of {total} rollouts shown; run.rewards has all" if total > len(shown) else ""
    return lines(head, columns(_HEAD, [_cells(row) for row in shown]), [rest], rest="run.rewards")


def _state(row: Row) -> str:
    if row.outcome == "error":
        return f"error {row.error or ''}".rstrip()
    if row.stop:
        return f"stopped {row.stop}"
    return row.end_state or "running"


def _cells(row: Row) -> list[str]:
    return [
        row.name or row.task,
        str(row.rollout),
        number(row.reward) if row.outcome == "scored" else "-",
        _state(row),
        str(row.turns),
        count(row.tokens_in),
        count(row.tokens_out),
        seconds(row.time_s),
    ]


def _table(rows: Sequence[Row], total: int) -> str:
    shown = list(rows)[:MAX_ROWS]
    body = []
    for row in shown:
        cells = [esc(one_line(cell, 60)) for cell in _cells(row)]
        tone = {"error": "bad", "running": "none", "scored": "good"}.get(row.outcome, "warn")
        cells[3] = badge(one_line(_state(row), 60), tone, title=one_line(row.message, 300))
        cells[0] = span(one_line(row.name or row.task, 60), title=row.task)
        body.append(cells)
    caption = f"{len(shown)} of {total} rollouts shown"
    return table(_HEAD, body, caption=caption + ("; run.rewards has all" if total > len(shown) else ""))


def run_bundle(view: RunView) -> dict[str, str]:
    """Text and html."""
    page = Page("run")
    state = badge(view.state, _TONES[view.state])
    told = esc(listing([_counts(view), _time(view)]))
    page.add(f"<div><b>Run {esc(one_line(view.name, 60))}</b> {state} {told}</div>")
    if view.state == "running" and view.total:
        bar = f'<progress value="{view.done}" max="{view.total}" style="width:100%;max-width:400px">'
        page.add(f"<div>{bar}</progress></div>")
    page.add(banner(run_trouble(view)))
    for line in view.doing[:3]:
        page.add(f'<div style="{MUTED}">now: {esc(one_line(line, 100))}</div>')
    page.add(banner([one_line(note, 300) for note in view.notes[:10]], "warn"))
    page.add(f"<div>{esc(_setting(view))}</div>")
    for block in summary_blocks(view.summary) if view.summary else []:
        page.add(block)
    if view.rows:
        page.add(_table(view.rows, max(view.rows_total, len(view.rows))))
    if view.dir:
        page.add(f'<div style="{MUTED}">stored in {esc(view.dir)}</div>')
    return {"text/plain": run_text(view), "text/html": page.close("run.rewards")}
